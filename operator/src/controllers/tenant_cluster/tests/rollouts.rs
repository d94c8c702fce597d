//! Versions change, the operator changes, and pods are replaced.
//!
//! Long because each reason of a rollout is held against the same order.
//! Invariant: etcd before the control plane before what follows it; what the operator wants of all tenant
//! clusters waits for its turn, and takes nothing from any of them until then.

use api::tenant_cluster::UpgradeGuard;

use super::*;
use crate::rollouts::queue::PATIENCE;

fn template_of<'a>(world: &'a World, kind: &str, name: &str) -> &'a Value {
    &world.objects[&Key::new(kind, NS, name)]["spec"]["template"]
}

fn image(world: &World, kind: &str, name: &str, image: &str) -> String {
    let spec = &template_of(world, kind, name)["spec"];
    let containers = ["initContainers", "containers"].map(|list| spec[list].as_array());
    let images = containers
        .into_iter()
        .flatten()
        .flatten()
        .map(|c| c["image"].as_str().unwrap());
    let mut images = images.filter(|found| found.contains(image));
    images.next().unwrap().to_owned()
}

/// Image of kube-proxy inside the tenant cluster.
fn kube_proxy(world: &World) -> String {
    let key = Key::new("DaemonSet", "kube-system", "kube-proxy");
    let image = &world.inside[&key]["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap().to_owned()
}

pub(super) fn apiserver(world: &World) -> String {
    image(world, "Deployment", "control-plane", "kube-apiserver:")
}

fn etcd(world: &World) -> String {
    image(world, "StatefulSet", "etcd", "/etcd:")
}

pub(super) fn ask_for(world: &mut World, version: &str) {
    world.cluster.spec.version = version.to_owned();
    world.cluster.spec.upgrade.soak = "0s".into();
    world.cluster.metadata.generation = Some(world.cluster.metadata.generation.unwrap() + 1);
}

/// The operator is another one, with another etcd, another CoreDNS and another konnectivity.
pub(super) fn upgrade_operator(world: &mut World) {
    world.templates = "second";
    world.settings.etcd_image = "etcd:3.6.17-0".to_owned();
    world.settings.images.core_dns = "coredns/coredns:v9.9.9".to_owned();
    world.settings.images.konnectivity_server = "kas-network-proxy/proxy-server:v0.36.0".to_owned();
}

fn core_dns(world: &World) -> String {
    let key = Key::new("Deployment", "kube-system", "coredns");
    let image = &world.inside[&key]["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap().to_owned()
}

#[test]
fn what_is_inside_follows_the_version_that_serves() {
    let mut world = ready(minimal());
    world.workers = true;
    world.list_due = true;
    world.stuck = true;
    ask_for(&mut world, "1.36.0");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.36.0"));
    let status = |world: &World| world.cluster.status.clone().unwrap();
    assert_eq!(status(&world).version.as_deref(), Some("1.35.4"));
    assert!(
        kube_proxy(&world).ends_with(":v1.35.4"),
        "no kube-apiserver is of 1.36 yet"
    );
    assert_eq!(world.condition("Progressing").1, "RollingOut");
    world.stuck = false;
    world.play_controllers();
    world.settle();
    assert_eq!(status(&world).version.as_deref(), Some("1.36.0"));
    assert!(kube_proxy(&world).ends_with(":v1.36.0"));
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn pod_of_an_older_template_that_has_not_ended_keeps_the_version_back() {
    let mut world = ready(minimal());
    let mut ending = world.clone();
    ask_for(&mut world, "1.36.0");
    world.settle();
    let old = ending.pods[&Key::new("Pod", NS, "control-plane-0")].clone();
    ask_for(&mut ending, "1.36.0");
    // It would not begin before that has ended.
    ending.cluster.spec.upgrade.guard = UpgradeGuard::Warn;
    let ends = Key::new("Pod", NS, "control-plane-old");
    ending.pods.insert(ends.clone(), old);
    ending.pods.get_mut(&ends).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    ending.settle();
    let version = |world: &World| world.cluster.status.clone().unwrap().version.unwrap();
    assert_eq!(version(&ending), "1.35.4");
    ending.pods.remove(&ends);
    ending.settle();
    assert_eq!(version(&ending), "1.36.0");
    assert_eq!(ending.objects, world.objects);
}

#[test]
fn version_that_no_pod_can_be_is_told_and_not_believed() {
    for claim in ["9.99.0", "1.37.0", "1.33.9", "banana", ""] {
        let mut world = ready(minimal());
        let whole = world.objects.clone();
        world.claims = Some(claim);
        world.settle();
        let said = ("True".into(), "ServesOtherVersion".into());
        assert_eq!(world.condition("Degraded"), said, "{claim}");
        assert_eq!(world.condition("Ready").0, "True", "it answers");
        let version = |world: &World| world.cluster.status.clone().unwrap().version;
        assert_eq!(version(&world).as_deref(), Some("1.35.4"), "{claim}");
        assert_eq!(world.objects, whole, "{claim}");
        world.claims = None;
        world.settle();
        assert_eq!(world.condition("Degraded").0, "False", "{claim}");
    }
    // A distributor's own name for its build.
    let mut world = ready(minimal());
    world.claims = Some("1.35.4+vendor.1");
    world.settle();
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn version_of_the_first_answer_is_not_believed_either() {
    let mut world = World::new(minimal());
    world.claims = Some("9.99.0");
    world.settle();
    assert_eq!(world.condition("Degraded").1, "ServesOtherVersion");
    let status = world.cluster.status.clone().unwrap();
    assert_eq!(status.version, None);
    world.claims = None;
    world.settle();
    assert_eq!(world.condition("Degraded").0, "False");
    assert_eq!(world.condition("Ready").0, "True");
}

#[test]
fn version_that_does_not_start_is_told_and_set_back() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    world.stuck = true;
    ask_for(&mut world, "1.36.0");
    world.settle();
    let deployment = Key::new("Deployment", NS, "control-plane");
    world.objects.get_mut(&deployment).unwrap()["status"]["conditions"] =
        json!([{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded" }]);
    world.settle();
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "RolloutStuck".into())
    );
    assert_eq!(world.condition("Ready").0, "True", "the old one serves on");
    ask_for(&mut world, "1.35.4");
    world.settle();
    assert_eq!(
        template_of(&world, "Deployment", "control-plane"),
        template_of(&whole, "Deployment", "control-plane")
    );
    assert_eq!(world.condition("Degraded").0, "False");
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn another_operator_changes_nobody_before_its_turn() {
    let whole = ready(large());
    let mut world = whole.clone();
    world.turn = Answer::Wait;
    world.list_due = true;
    upgrade_operator(&mut world);
    world.settle();
    for (kind, name) in [
        ("StatefulSet", "etcd"),
        ("Deployment", "control-plane"),
        ("Deployment", "controllers"),
        ("Deployment", "ccm"),
    ] {
        assert_eq!(
            template_of(&world, kind, name),
            template_of(&whole, kind, name),
            "{name}"
        );
    }
    assert_eq!(core_dns(&world), core_dns(&whole));
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "WaitingForRollout".into())
    );
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written while it waits");

    // What is lost meanwhile comes back, and its certificates and replicas are its own.
    world.objects.remove(&Key::new("Deployment", NS, "ccm"));
    world
        .inside
        .remove(&Key::new("Deployment", "kube-system", "coredns"));
    world.cluster.spec.control_plane.replicas = 1;
    world.settle();
    assert!(
        world
            .objects
            .contains_key(&Key::new("Deployment", NS, "ccm"))
    );
    assert!(
        world
            .inside
            .contains_key(&Key::new("Deployment", "kube-system", "coredns"))
    );
    let deployment = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(
        template_of(&world, "Deployment", "control-plane"),
        template_of(&whole, "Deployment", "control-plane")
    );

    world.turn = Answer::Go;
    world.settle();
    assert!(etcd(&world).ends_with("etcd:3.6.17-0"));
    assert!((0..3).all(|n| world.is_newest(&format!("etcd-{n}"))));
    assert!(core_dns(&world).ends_with(":v9.9.9"));
    assert_eq!(world.condition("Progressing").1, "AsDesired");
    let rollout = world.cluster.status.clone().unwrap().rollout.unwrap();
    assert_eq!(rollout.templates.as_deref(), Some("second"));
}

#[test]
fn that_the_operator_begins_is_written_before_anything_is_changed() {
    let mut world = ready(large());
    world.list_due = true;
    upgrade_operator(&mut world);
    let before = etcd(&world);
    let mut observed = world.observe();
    for _ in 0..64 {
        let plan = plan(&observed, &world.settings, world.now);
        if plan.is_settled() {
            observed = world.observe();
            continue;
        }
        world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
        let status = world.cluster.status.clone().unwrap();
        let toward = status.rollout.and_then(|rollout| rollout.toward);
        let is_told = toward.is_some_and(|toward| toward.templates == "second");
        assert!(is_told || etcd(&world) == before);
    }
    assert_ne!(etcd(&world), before);
}

#[test]
fn what_a_policy_holds_back_says_so_and_its_user_is_not_held_back() {
    let whole = ready(large());
    let held = |world: &World| {
        let rollout = world.cluster.status.clone().unwrap().rollout.unwrap();
        rollout.held
    };
    let mut world = whole.clone();
    world.turn = Answer::Held;
    world.list_due = true;
    upgrade_operator(&mut world);
    world.settle();
    assert!(held(&world));
    assert_eq!(etcd(&world), etcd(&whole));
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "WaitingForRollout".into())
    );
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written while it waits");
    // A policy that is gone says nothing, and nothing is forgotten.
    world.turn = Answer::Wait;
    world.settle();
    assert!(held(&world));

    world.turn = Answer::Go;
    world.settle();
    assert!(etcd(&world).ends_with("etcd:3.6.17-0"));
    assert!(!held(&world));
}

/// Plans and carries out until all is done, and says which members were ended, one at a time; `look` looks
/// after each step.
pub(super) fn ended_members(world: &mut World, look: impl Fn(&World)) -> Vec<String> {
    let mut observed = world.observe();
    let mut members = Vec::new();
    for _ in 0..64 {
        let plan = plan(&observed, &world.settings, world.now);
        if plan.is_settled() {
            // What it waits for has come.
            observed = world.observe();
            continue;
        }
        let ended: Vec<_> = plan
            .deletions()
            .map(|target| target.key.name.clone())
            .collect();
        assert!(ended.len() <= 1, "one at a time: {ended:?}");
        members.extend(ended);
        world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
        look(world);
    }
    members
}

#[test]
fn control_plane_waits_until_every_member_of_etcd_is_of_the_new_template() {
    let mut world = ready(large());
    upgrade_operator(&mut world);
    let before = image(&world, "Deployment", "control-plane", "proxy-server:");
    let members = ended_members(&mut world, |world| {
        let rolled = (0..3).all(|n| world.is_newest(&format!("etcd-{n}")));
        let now = image(world, "Deployment", "control-plane", "proxy-server:");
        assert!(rolled || now == before, "etcd first");
    });
    assert_eq!(members, ["etcd-2", "etcd-1", "etcd-0"]);
}

#[test]
fn change_of_etcds_quota_replaces_one_member_after_the_other() {
    let mut world = ready(large());
    world.cluster.spec.etcd.quota_backend_bytes = Some("1536Mi".into());
    world.cluster.metadata.generation = Some(world.cluster.metadata.generation.unwrap() + 1);
    let members = ended_members(&mut world, |_| {});
    assert_eq!(members, ["etcd-2", "etcd-1", "etcd-0"]);
    let args = &template_of(&world, "StatefulSet", "etcd")["spec"]["containers"][0]["args"];
    let args = args.as_array().unwrap();
    assert!(
        args.contains(&json!("--quota-backend-bytes=1610612736")),
        "{args:?}"
    );
}

#[test]
fn member_that_is_broken_goes_first_and_none_that_serves_goes_while_another_does_not() {
    let mut world = ready(large());
    let pod = |n: i32| Key::new("Pod", NS, &format!("etcd-{n}"));
    let not_ready = json!([{ "type": "Ready", "status": "False" }]);
    world.pods.get_mut(&pod(1)).unwrap()["status"]["conditions"] = not_ready.clone();
    let etcd = Key::new("StatefulSet", NS, "etcd");
    world.objects.get_mut(&etcd).unwrap()["status"]["readyReplicas"] = json!(2);
    upgrade_operator(&mut world);
    let ended = |world: &World| {
        let plan = plan(
            &{
                let mut observed = world.observe();
                observed.turn = Some(Answer::Go);
                let answer = |name: &str| (name.to_owned(), Ok(world.member(name)));
                let names = ["etcd-0", "etcd-1", "etcd-2"];
                observed.etcd = Etcd::Asked(names.map(answer).into());
                observed
            },
            &world.settings,
            world.now,
        );
        let ended: Vec<_> = plan
            .deletions()
            .map(|target| target.key.name.clone())
            .collect();
        (ended, plan)
    };
    // First that it begins, then the template.
    let mut observed = world.observe();
    observed.turn = Some(Answer::Go);
    for _ in 0..2 {
        let first = plan(&observed, &world.settings, world.now);
        world.carry_out(&first, &mut observed, &mut usize::MAX.clone());
    }
    world.objects.get_mut(&etcd).unwrap()["status"]["readyReplicas"] = json!(2);
    assert_eq!(ended(&world).0, ["etcd-1"]);
    world.pods.get_mut(&pod(1)).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    assert_eq!(ended(&world).0, [""; 0], "it has not ended yet");
    world.pods.remove(&pod(1));
    assert_eq!(ended(&world).0, [""; 0], "it is not back yet");
    world.play_controllers();
    world.pods.get_mut(&pod(1)).unwrap()["status"]["conditions"] = not_ready;
    let (none, waits) = ended(&world);
    assert_eq!(none, [""; 0], "it does not serve yet");
    let etcd_part = waits
        .parts
        .iter()
        .find(|part| part.name == PartName::Etcd)
        .unwrap();
    assert_eq!(etcd_part.waiting.as_ref().unwrap().reason, "RollingOut");
    world.pods.remove(&pod(1));
    world.play_controllers();
    assert_eq!(ended(&world).0, ["etcd-2"]);
}

#[test]
fn pods_that_were_not_listed_are_not_taken_for_gone() {
    let mut world = ready(large());
    upgrade_operator(&mut world);
    let mut observed = world.observe();
    observed.turn = Some(Answer::Go);
    let first = plan(&observed, &world.settings, world.now);
    world.carry_out(&first, &mut observed, &mut usize::MAX.clone());
    observed.pods = None;
    let unknown = plan(&observed, &world.settings, world.now);
    assert_eq!(unknown.deletions().count(), 0);
    // Nor for replaced.
    loop {
        let plan = plan(&observed, &world.settings, world.now);
        if plan.is_settled() {
            assert_eq!(plan.waiting_on.unwrap().reason, "RollingOut");
            return;
        }
        world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
        observed.pods = None;
    }
}

#[test]
fn change_of_the_user_takes_the_new_templates_with_it() {
    let mut world = ready(minimal());
    upgrade_operator(&mut world);
    ask_for(&mut world, "1.35.5");
    let observed = world.observe();
    let asked: Vec<_> = plan(&observed, &world.settings, world.now)
        .actions()
        .cloned()
        .collect();
    let turn = Action::AskForTurn {
        cause: Cause::Change,
        is_under_way: false,
    };
    assert!(asked.contains(&turn), "{asked:?}");
    world.settle();
    assert_eq!(
        world
            .cluster
            .status
            .clone()
            .unwrap()
            .rollout
            .unwrap()
            .templates
            .as_deref(),
        Some("second")
    );
}

#[test]
fn crash_after_any_write_of_a_rollout_ends_with_the_same_objects() {
    let start = ready(large());
    let changed = || {
        let mut world = start.clone();
        upgrade_operator(&mut world);
        ask_for(&mut world, "1.35.1");
        world.list_due = true;
        world
    };
    let mut whole = changed();
    whole.settle();
    let total = whole.writes - start.writes;
    assert!(total > 6, "{total}");
    for cut in 0..total {
        let mut world = changed();
        world.reconcile(&mut cut.clone());
        world.settle();
        assert_eq!(world.objects, whole.objects, "cut after {cut} writes");
        assert_eq!(world.pods, whole.pods, "cut after {cut} writes");
        assert_eq!(
            world.cluster.status, whole.cluster.status,
            "cut after {cut} writes"
        );
    }
}

#[test]
fn what_the_status_says_of_rollouts_is_computed_again_when_it_is_erased() {
    let whole = ready(large());
    let mut world = whole.clone();
    world.cluster.status.as_mut().unwrap().rollout = None;
    world.turn = Answer::Wait;
    world.settle();
    assert_eq!(world.cluster.status, whole.cluster.status);
    assert_eq!(world.objects, whole.objects);
}

#[test]
fn etcd_that_cannot_read_what_the_one_before_wrote_is_not_started() {
    let mut world = ready(large());
    world.templates = "second";
    world.settings.etcd_image = "etcd:3.8.0-0".to_owned();
    world.settings.images.core_dns = "coredns/coredns:v9.9.9".to_owned();
    let before = etcd(&world);
    world.list_due = true;
    world.settle();
    assert_eq!(etcd(&world), before);
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "EtcdVersionStep".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
    assert!(
        core_dns(&world).ends_with(":v9.9.9"),
        "nothing else waits for it"
    );
}

#[test]
fn change_that_waits_asks_again_and_the_fleet_is_woken() {
    let mut world = ready(minimal());
    world.turn = Answer::Wait;
    let asks_again_after = |world: &mut World| {
        let mut observed = world.observe();
        loop {
            let plan = plan(&observed, &world.settings, world.now);
            if plan.is_settled() {
                assert_eq!(plan.waiting_on.unwrap().reason, "WaitingForRollout");
                return plan.requeue_after.unwrap();
            }
            world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
        }
    };
    let mut user = world.clone();
    ask_for(&mut user, "1.36.0");
    user.settle(); // what was found before the upgrade is told first
    assert_eq!(asks_again_after(&mut user), PATIENCE);
    upgrade_operator(&mut world);
    assert!(asks_again_after(&mut world) > PATIENCE);
}

#[test]
fn keys_that_are_lost_are_no_reason_to_restart_anything() {
    for lost in ["ca", "etcd-ca", "front-proxy-ca"] {
        let whole = ready(large());
        let mut world = whole.clone();
        world.objects.remove(&Key::new("Secret", NS, lost));
        world.settle();
        for (kind, name) in [
            ("StatefulSet", "etcd"),
            ("Deployment", "control-plane"),
            ("Deployment", "controllers"),
            ("Deployment", "ccm"),
        ] {
            assert_eq!(
                template_of(&world, kind, name),
                template_of(&whole, kind, name),
                "{lost}: {name}"
            );
        }
        assert_eq!(world.pods, whole.pods);
    }
}
