//! What speaks against an upgrade is told, and the version that serves stays meanwhile.
//!
//! Invariant: whatever is found or not known, what runs goes on as it is and is looked after.

use api::tenant_cluster::{UpgradeGuard, UpgradePhase, UpgradeStatus};

use super::rollouts::{apiserver, ask_for};
use super::*;
use crate::capacity::decide::{Answer, Shortage};
use crate::capacity::read::Amount;
use crate::tenant_session::preflight::answers::{Counted, Deprecated, Inside, Responder, Webhook};
use crate::tenant_session::preflight::names::Names;
use crate::upgrades::surge::{Surge, SurgeAnswer};

pub(super) fn status(world: &World) -> Option<UpgradeStatus> {
    world.cluster.status.as_ref()?.upgrade.clone()
}

pub(super) fn checks(world: &World) -> Vec<String> {
    let blockers = status(world).unwrap_or_default().blockers;
    blockers.into_iter().map(|found| found.check).collect()
}

/// Nodes, clients and a webhook speak against it.
pub(super) fn troubled() -> Inside {
    let deprecated = Deprecated {
        removed: 36,
        resource: "shop.example.com/v1beta1 carts".to_owned(),
    };
    Inside {
        kubelets: Ok([("v1.32.4".to_owned(), Names::from_iter(["old"]))].into()),
        counted: Ok(Counted {
            deprecated: [deprecated].into(),
            ..Counted::default()
        }),
        webhooks: Ok(vec![Webhook {
            name: "policy/a.example.com".to_owned(),
            must_answer: true,
            seconds: 10,
            of_leases: false,
            responder: Responder::Nobody,
        }]),
        ..Inside::empty()
    }
}

#[test]
fn blocked_upgrade_says_all_and_the_version_that_serves_stays_and_is_looked_after() {
    let mut world = ready(minimal());
    world.preflight = troubled();
    ask_for(&mut world, "1.36.3");
    world.cluster.spec.control_plane.replicas = 2;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    let deployment = Key::new("Deployment", NS, "control-plane");
    assert_eq!(
        world.objects[&deployment]["spec"]["replicas"], 2,
        "other changes go on"
    );
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "UpgradeBlocked".into())
    );
    let told = status(&world).unwrap();
    assert_eq!((told.from.as_str(), told.to.as_str()), ("1.35.4", "1.36.3"));
    assert_eq!(told.phase, UpgradePhase::Checking);
    assert_eq!(checks(&world), ["DeprecatedApis", "Kubelets", "Webhooks"]);

    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written while it waits");
    world.objects.remove(&deployment);
    world.objects.remove(&Key::new("Secret", NS, "apiserver"));
    world.settle();
    assert!(
        apiserver(&world).ends_with(":v1.35.4"),
        "what is lost comes back as it was"
    );
    assert!(
        world.secret("apiserver").is_some(),
        "certificates are renewed"
    );

    world.preflight = Inside::empty();
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3"));
    let version = world.cluster.status.clone().unwrap().version;
    assert_eq!(version.as_deref(), Some("1.36.3"));
    assert_eq!(status(&world), None, "it is over");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn upgrade_begins_all_the_same_where_its_user_only_wants_to_be_told() {
    let mut world = ready(minimal());
    world.preflight = troubled();
    ask_for(&mut world, "1.36.3");
    world.cluster.spec.upgrade.guard = UpgradeGuard::Warn;
    world.stuck = true;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3"));
    let told = status(&world).unwrap();
    assert_eq!(told.phase, UpgradePhase::Rolling);
    assert_eq!(told.blockers, []);
    assert_eq!(checks(&world), [""; 0]);
    assert_eq!(world.condition("Progressing").1, "RollingOut");
}

#[test]
fn what_could_not_be_asked_is_not_taken_for_well() {
    let mut world = ready(minimal());
    world.preflight = Inside::unknown("forbidden");
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert_eq!(checks(&world), ["DeprecatedApis", "Kubelets", "Webhooks"]);
    let told = status(&world).unwrap();
    let says = |found: &api::tenant_cluster::UpgradeFinding| {
        found.message.contains("not known") && found.message.ends_with(": forbidden")
    };
    assert!(told.blockers.iter().all(says), "{told:?}");
    assert_eq!(told.warnings[0].check, "ApiServices");
}

#[test]
fn silent_api_blocks_an_upgrade_until_its_user_says_otherwise() {
    let mut world = ready(minimal());
    world.tenant_up = false;
    ask_for(&mut world, "1.35.5");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert_eq!(world.condition("Ready").1, "ApiUnreachable");
    assert!(
        checks(&world).contains(&"Rest".to_owned()),
        "{:?}",
        checks(&world)
    );
    world.cluster.spec.upgrade.guard = UpgradeGuard::Warn;
    world.settle();
    assert!(
        apiserver(&world).ends_with(":v1.35.5"),
        "another version may be what mends it"
    );
}

#[test]
fn upgrade_begins_once_there_is_room_for_the_pod_that_is_ready_before_an_old_one_ends() {
    let room = |world: &World, answer: Answer| {
        let live = &world.objects[&Key::new("Deployment", NS, "control-plane")];
        vec![SurgeAnswer {
            component: "control-plane",
            surge: Surge::of(live).unwrap(),
            answer,
        }]
    };
    let mut world = ready(minimal());
    let none = Answer::NoRoom(Shortage {
        needs: Amount::default(),
        labels: Vec::new(),
        left: Some(Amount::default()),
        places: true,
    });
    world.room = room(&world, none);
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert_eq!(checks(&world), ["Room"]);
    assert_eq!(world.condition("Progressing").1, "UpgradeBlocked");
    assert_eq!(world.condition("Ready").0, "True");
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written while it waits");
    // Nodes are not to be seen any more: that is no reason to wait.
    for answer in [Answer::Fits, Answer::Unknown] {
        let mut world = world.clone();
        world.room = room(&world, answer);
        world.settle();
        assert!(apiserver(&world).ends_with(":v1.36.3"));
    }
}

#[test]
fn one_that_was_not_ready_for_long_enough_waits_and_is_looked_at_then() {
    let mut world = ready(minimal());
    world.calm = std::time::Duration::from_secs(60);
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert_eq!(world.condition("Progressing").1, "UpgradeWaiting");
    assert_eq!(checks(&world), ["Rest"]);
    let mut observed = world.observe();
    let again = loop {
        let plan = plan(&observed, &world.settings, world.now);
        if plan.is_settled() {
            break plan.requeue_after.unwrap();
        }
        world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
    };
    assert!(again.as_secs() <= 61, "{again:?}");
    world.now = world
        .now
        .checked_add(jiff::SignedDuration::from_secs(60))
        .unwrap();
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3"));
}

#[test]
fn upgrade_that_is_set_back_leaves_nothing() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    world.preflight = troubled();
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert!(status(&world).is_some());
    ask_for(&mut world, "1.35.4");
    world.settle();
    assert_eq!(status(&world), None);
    assert_eq!(world.objects, whole.objects);
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn nobody_is_asked_where_no_upgrade_is_wanted_or_one_has_begun() {
    let mut world = ready(minimal());
    assert_eq!(world.asked, [0; 0]);
    world.stuck = true;
    ask_for(&mut world, "1.36.3");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3"));
    let asked = world.asked.len();
    assert!(asked > 0);
    // Nodes that join meanwhile take nothing back: pods of two versions are the worse state.
    world.preflight = troubled();
    world.settle();
    assert_eq!(world.asked.len(), asked);
    assert!(apiserver(&world).ends_with(":v1.36.3"));
}

#[test]
fn version_that_serves_is_not_told_of_features_of_the_new_one() {
    let mut world = World::new(minimal());
    world.settings = serde_json::from_value(json!({
        "apiServer": { "runtimeConfig": ["scheduling.k8s.io/v1alpha2"] },
    }))
    .unwrap();
    world.settle();
    let before = world.objects.clone();
    world.preflight = troubled();
    ask_for(&mut world, "1.36.3");
    world.cluster.spec.control_plane.runtime_config =
        [("scheduling.k8s.io/v1alpha2".to_owned(), true)].into();
    world.settle();
    assert_eq!(checks(&world).len(), 3, "{:?}", world.condition("Degraded"));
    assert_eq!(
        world.objects, before,
        "a kube-apiserver of 1.35 would not start with it"
    );
}

#[test]
fn crash_or_erased_phase_after_any_write_ends_with_the_same_objects() {
    let start = ready(large());
    let changed = || {
        let mut world = start.clone();
        ask_for(&mut world, "1.35.1");
        world.list_due = true;
        world
    };
    let mut whole = changed();
    whole.settle();
    let total = whole.writes - start.writes;
    assert!(total > 4, "{total}");
    for cut in 0..total {
        for erased in [false, true] {
            let mut world = changed();
            world.reconcile(&mut cut.clone());
            if erased {
                world.cluster.status.as_mut().unwrap().upgrade = None;
            }
            world.settle();
            assert_eq!(world.objects, whole.objects, "cut after {cut} writes");
            assert_eq!(
                world.cluster.status, whole.cluster.status,
                "cut after {cut} writes"
            );
        }
    }
}

pub(super) fn emulates(world: &World) -> bool {
    let pod =
        &world.objects[&Key::new("Deployment", NS, "control-plane")]["spec"]["template"]["spec"];
    let args = pod["containers"][0]["args"].as_array().unwrap();
    args.contains(&json!("--emulated-version=1.35"))
}

pub(super) fn controllers(world: &World) -> String {
    let pod =
        &world.objects[&Key::new("Deployment", NS, "controllers")]["spec"]["template"]["spec"];
    pod["containers"][0]["image"].as_str().unwrap().to_owned()
}

pub(super) fn later(world: &mut World, minutes: i64) {
    let by = jiff::SignedDuration::from_mins(minutes);
    world.now = world.now.checked_add(by).unwrap();
}

pub(super) fn ask_for_a_minor(world: &mut World) {
    ask_for(world, "1.36.3");
    world.cluster.spec.upgrade.soak = "10m".into();
}

#[test]
fn minor_is_served_only_once_kube_apiservers_have_served_the_one_before_for_long_enough() {
    let mut world = ready(minimal());
    ask_for_a_minor(&mut world);
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3"));
    assert!(emulates(&world));
    assert!(
        controllers(&world).ends_with(":v1.35.4"),
        "they are never newer than what is served"
    );
    let version = |world: &World| world.cluster.status.clone().unwrap().version.unwrap();
    assert_eq!(version(&world), "1.35.4", "nodes do not follow yet");
    assert_eq!(status(&world).unwrap().phase, UpgradePhase::Soaking);
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "Upgrading".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
    let writes = world.writes;
    later(&mut world, 9);
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written while it waits");
    later(&mut world, 2);
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.3") && !emulates(&world));
    assert!(controllers(&world).ends_with(":v1.36.3"));
    assert_eq!(version(&world), "1.36.3");
    assert_eq!(status(&world), None);
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn minor_does_not_soak_where_features_are_switched() {
    let mut world = World::new(minimal());
    world.settings = serde_json::from_value(json!({
        "apiServer": { "featureGates": ["GenericWorkload"] },
    }))
    .unwrap();
    world.cluster.spec.control_plane.feature_gates = [("GenericWorkload".to_owned(), true)].into();
    world.settle();
    let mut soaks = ready(minimal());
    ask_for_a_minor(&mut soaks);
    soaks.settle();
    assert!(emulates(&soaks));
    soaks.settings = world.settings.clone();
    soaks.cluster.spec.control_plane.feature_gates = [("GenericWorkload".to_owned(), true)].into();
    ask_for_a_minor(&mut world);
    for mut world in [world, soaks] {
        world.settle();
        assert!(apiserver(&world).ends_with(":v1.36.3") && !emulates(&world));
        let version = world.cluster.status.clone().unwrap().version;
        assert_eq!(version.as_deref(), Some("1.36.3"));
    }
}

#[test]
fn patch_and_an_upgrade_that_is_not_to_soak_go_at_once() {
    for (asked, soak) in [("1.35.5", "10m"), ("1.36.3", "0s")] {
        let mut world = ready(minimal());
        ask_for(&mut world, asked);
        world.cluster.spec.upgrade.soak = soak.into();
        world.settle();
        let version = world.cluster.status.clone().unwrap().version;
        assert_eq!(version.as_deref(), Some(asked));
    }
}

#[test]
fn upgrade_that_soaks_is_set_back_and_leaves_nothing() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    ask_for_a_minor(&mut world);
    world.settle();
    assert!(emulates(&world));
    ask_for(&mut world, "1.35.4");
    world.settle();
    let template = |world: &World| {
        world.objects[&Key::new("Deployment", NS, "control-plane")]["spec"]["template"].clone()
    };
    assert_eq!(template(&world), template(&whole));
    assert_eq!(status(&world), None);
}

#[test]
fn client_that_calls_what_goes_keeps_kube_apiservers_serving_the_minor_before() {
    let mut world = ready(minimal());
    ask_for_a_minor(&mut world);
    world.settle();
    world.preflight = troubled();
    later(&mut world, 11);
    world.settle();
    assert!(emulates(&world));
    assert_eq!(
        checks(&world),
        ["DeprecatedApis"],
        "nodes and webhooks were asked about before"
    );
    assert_eq!(world.condition("Progressing").1, "UpgradeBlocked");
    let conditions = world.cluster.status.clone().unwrap().conditions;
    let progressing = conditions.into_iter().find(|c| c.type_ == "Progressing");
    let message = progressing.unwrap().message;
    let begun = "kube-apiservers are of Kubernetes 1.36.3 and go on serving 1.35; DeprecatedApis: ";
    assert!(message.starts_with(begun), "{message}");
    world.preflight = Inside::unknown("forbidden");
    world.settle();
    assert!(emulates(&world), "not known is not none");
    world.cluster.spec.upgrade.guard = UpgradeGuard::Warn;
    world.settle();
    assert!(!emulates(&world));
}

#[test]
fn pods_that_are_not_all_of_the_new_template_do_not_soak() {
    let mut world = ready(minimal());
    world.stuck = true;
    ask_for_a_minor(&mut world);
    world.settle();
    later(&mut world, 14);
    world.settle();
    assert!(emulates(&world));
    assert_eq!(status(&world).unwrap().phase, UpgradePhase::Rolling);
    world.stuck = false;
    world.play_controllers();
    world.settle();
    assert_eq!(
        status(&world).unwrap().phase,
        UpgradePhase::Soaking,
        "counted from now on"
    );
}

#[test]
fn crash_or_erased_phase_while_a_minor_changes_ends_with_the_same_objects() {
    let start = ready(minimal());
    let through = |world: &mut World| {
        world.settle();
        later(world, 11);
        world.settle();
    };
    let changed = || {
        let mut world = start.clone();
        ask_for_a_minor(&mut world);
        world
    };
    let mut whole = changed();
    through(&mut whole);
    assert!(apiserver(&whole).ends_with(":v1.36.3") && !emulates(&whole));
    let total = whole.writes - start.writes;
    for cut in 0..total {
        let mut world = changed();
        let mut left = cut;
        // The writes before and after the soak are cut alike.
        for _ in 0..4 {
            if !world.reconcile(&mut left) {
                break;
            }
            later(&mut world, 11);
        }
        world.cluster.status.as_mut().unwrap().upgrade = None;
        through(&mut world);
        assert!(!emulates(&world), "cut after {cut} writes");
        assert_eq!(
            world.objects.keys().collect::<Vec<_>>(),
            whole.objects.keys().collect::<Vec<_>>()
        );
        let version = world.cluster.status.clone().unwrap().version;
        assert_eq!(version.as_deref(), Some("1.36.3"), "cut after {cut} writes");
    }
}
