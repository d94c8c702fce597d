//! An upgrade that fails goes back by itself, and is not begun again until its user says so.
//!
//! Invariant: whatever fails, Ready stays True while an old pod serves, and nothing else stops.

use api::tenant_cluster::{UpgradeFailurePolicy, UpgradeFailureReason, UpgradePhase};

use super::rollouts::{apiserver, ask_for};
use super::upgrades::{ask_for_a_minor, controllers, emulates, later, status};
use super::*;
use crate::tenant_session::preflight::answers::{Counted, Inside};
use crate::upgrades::nodes::Nodes;

/// A container that ended three times, and says why.
pub(super) fn crashes() -> Value {
    json!({
        "conditions": [{ "type": "Ready", "status": "False" }],
        "containerStatuses": [{
            "name": "kube-apiserver", "restartCount": 3,
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
            "lastState": { "terminated": { "exitCode": 1, "reason": "Error",
                "message": "Error: unknown flag: --gone\n" } },
        }],
    })
}

pub(super) fn lacks_its_image() -> Value {
    json!({
        "conditions": [{ "type": "Ready", "status": "False" }],
        "containerStatuses": [{
            "name": "kube-apiserver", "image": "registry.k8s.io/kube-apiserver:v1.35.5",
            "state": { "waiting": { "reason": "ImagePullBackOff", "message": "not found" } },
        }],
    })
}

fn is_of(template: &Value, image: &str) -> bool {
    let containers = template["spec"]["containers"].as_array();
    let mut containers = containers.into_iter().flatten();
    containers.any(|c| c["image"].as_str().is_some_and(|its| its.ends_with(image)))
}

fn is_emulating(template: &Value) -> bool {
    let args = template["spec"]["containers"][0]["args"].as_array();
    let mut args = args.into_iter().flatten();
    args.any(|arg| arg == "--emulated-version=1.35")
}

pub(super) fn of_the_patch(template: &Value) -> bool {
    is_of(template, "kube-apiserver:v1.35.5")
}

pub(super) fn of_the_minor(template: &Value) -> bool {
    is_of(template, "kube-apiserver:v1.36.3")
}

pub(super) fn of_the_minor_itself(template: &Value) -> bool {
    of_the_minor(template) && !is_emulating(template)
}

fn controllers_of_the_minor(template: &Value) -> bool {
    is_of(template, "kube-scheduler:v1.36.3")
}

fn template(world: &World) -> &Value {
    &world.objects[&Key::new("Deployment", NS, "control-plane")]["spec"]["template"]
}

fn message(world: &World, type_: &str) -> String {
    let conditions = world.cluster.status.iter().flat_map(|s| &s.conditions);
    let mut found = conditions.filter(|c| c.type_ == type_);
    found.next().map(|c| c.message.clone()).unwrap_or_default()
}

fn is_rolled_back(world: &World) {
    let told = status(world).unwrap();
    assert_eq!(told.phase, UpgradePhase::RolledBack);
    assert_eq!(
        world.condition("Progressing"),
        ("False".into(), "RolledBack".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
    assert_eq!(
        told.failed_version.as_deref(),
        Some(world.cluster.spec.version.as_str())
    );
    assert_eq!(told.failed_retry, Some(world.cluster.spec.upgrade.retry));
}

#[test]
fn upgrade_whose_new_pod_ends_again_and_again_goes_back_and_says_why() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    world.fails = Some((of_the_patch, crashes()));
    ask_for(&mut world, "1.35.5");
    world.settle();
    is_rolled_back(&world);
    assert_eq!(template(&world), template(&whole), "as it was");
    let failure = status(&world).unwrap().failure.unwrap();
    assert_eq!(failure.reason, UpgradeFailureReason::CrashLooping);
    assert_eq!(failure.phase, UpgradePhase::Rolling);
    assert_eq!(
        failure.message,
        "pod control-plane-surge: kube-apiserver ends whenever it is started: Error, exit code 1: unknown flag: --gone"
    );
    assert!(message(&world, "Progressing").ends_with(&failure.message));
    let version = world.cluster.status.clone().unwrap().version;
    assert_eq!(version.as_deref(), Some("1.35.4"));
}

#[test]
fn version_that_was_taken_back_is_not_tried_again_and_everything_else_goes_on() {
    let mut world = ready(minimal());
    world.fails = Some((of_the_patch, crashes()));
    ask_for(&mut world, "1.35.5");
    world.settle();
    let (writes, asked) = (world.writes, world.asked.len());
    later(&mut world, 600);
    world.settle();
    assert_eq!(
        (world.writes, world.asked.len()),
        (writes, asked),
        "it rests"
    );
    world.cluster.spec.control_plane.replicas = 2;
    world.cluster.metadata.generation = Some(7);
    world.objects.remove(&Key::new("Secret", NS, "apiserver"));
    world
        .objects
        .remove(&Key::new("Deployment", NS, "control-plane"));
    world.settle();
    let deployment = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    assert!(world.secret("apiserver").is_some());
    is_rolled_back(&world);

    // What was wrong is mended, and somebody says so.
    world.fails = None;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    world.cluster.spec.upgrade.retry = 1;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    assert_eq!(status(&world), None);
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn one_that_fails_again_is_taken_back_again_and_another_version_is_tried() {
    let mut world = ready(minimal());
    world.fails = Some((of_the_patch, crashes()));
    ask_for(&mut world, "1.35.5");
    world.settle();
    world.cluster.spec.upgrade.retry = 1;
    world.settle();
    is_rolled_back(&world);
    ask_for(&mut world, "1.35.6");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.6"));
    assert_eq!(status(&world), None);
}

#[test]
fn version_that_is_set_back_afterwards_leaves_nothing() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    world.fails = Some((of_the_patch, crashes()));
    ask_for(&mut world, "1.35.5");
    world.settle();
    ask_for(&mut world, "1.35.4");
    world.settle();
    assert_eq!(status(&world), None);
    assert_eq!(
        world.objects.keys().collect::<Vec<_>>(),
        whole.objects.keys().collect::<Vec<_>>()
    );
    assert_eq!(template(&world), template(&whole));
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn upgrade_without_one_more_ready_pod_by_its_deadline_goes_back() {
    let mut world = ready(minimal());
    world.stuck = true;
    ask_for(&mut world, "1.35.5");
    world.settle();
    assert_eq!(status(&world).unwrap().phase, UpgradePhase::Rolling);
    let mut observed = world.observe();
    let again = loop {
        let plan = plan(&observed, &world.settings, world.now);
        if plan.is_settled() {
            break plan.requeue_after.unwrap();
        }
        world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
    };
    assert_eq!(again.as_secs(), 15 * 60 + 1, "nobody wakes it");
    later(&mut world, 14);
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    assert_eq!(status(&world).unwrap().failure, None);
    later(&mut world, 1);
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    is_rolled_back(&world);
    let failure = status(&world).unwrap().failure.unwrap();
    assert_eq!(failure.reason, UpgradeFailureReason::DeadlineExceeded);
}

#[test]
fn image_that_is_not_there_takes_the_upgrade_back_after_some_tries() {
    let mut world = ready(minimal());
    world.fails = Some((of_the_patch, lacks_its_image()));
    ask_for(&mut world, "1.35.5");
    world.settle();
    assert!(
        apiserver(&world).ends_with(":v1.35.5"),
        "a registry may be away for a while"
    );
    later(&mut world, 6);
    world.settle();
    is_rolled_back(&world);
    let failure = status(&world).unwrap().failure.unwrap();
    assert_eq!(failure.reason, UpgradeFailureReason::ImagePullFailed);
}

#[test]
fn upgrade_during_which_nodes_are_lost_goes_back() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    ask_for_a_minor(&mut world);
    world.settle();
    assert_eq!(status(&world).unwrap().phase, UpgradePhase::Soaking);
    let (before, now) = (world.now - jiff::SignedDuration::from_mins(9), world.now);
    let lost = |since| Nodes {
        ready: 8,
        lost: ["a", "b"].map(|name| (name.to_owned(), since)).into(),
    };
    world.nodes = lost(before);
    later(&mut world, 4);
    world.settle();
    assert_eq!(
        status(&world).unwrap().failure,
        None,
        "they were away before"
    );
    world.nodes = lost(now);
    world.settle();
    is_rolled_back(&world);
    assert_eq!(template(&world), template(&whole));
    let failure = status(&world).unwrap().failure.unwrap();
    assert_eq!(failure.reason, UpgradeFailureReason::NodesLost);
    assert_eq!(failure.phase, UpgradePhase::Soaking);
}

#[test]
fn minor_that_fails_while_it_serves_the_one_before_goes_back_to_the_programs_before() {
    let whole = ready(minimal());
    let mut rolls = whole.clone();
    rolls.fails = Some((of_the_minor, crashes()));
    ask_for_a_minor(&mut rolls);
    rolls.settle();
    let mut soaks = whole.clone();
    ask_for_a_minor(&mut soaks);
    soaks.settle();
    assert_eq!(status(&soaks).unwrap().phase, UpgradePhase::Soaking);
    // It is ready again and again.
    let name = Key::new("Pod", NS, "control-plane-0");
    soaks.pods.get_mut(&name).unwrap()["status"]["containerStatuses"] =
        crashes()["containerStatuses"].clone();
    soaks.settle();
    for (world, phase) in [
        (rolls, UpgradePhase::Rolling),
        (soaks, UpgradePhase::Soaking),
    ] {
        is_rolled_back(&world);
        assert_eq!(template(&world), template(&whole));
        assert_eq!(status(&world).unwrap().failure.unwrap().phase, phase);
    }
}

#[test]
fn minor_that_fails_at_the_end_goes_back_to_serving_the_one_before() {
    for fails in [of_the_minor_itself, controllers_of_the_minor] {
        let mut world = ready(minimal());
        world.fails = Some((fails, crashes()));
        ask_for_a_minor(&mut world);
        world.settle();
        assert_eq!(status(&world).unwrap().phase, UpgradePhase::Soaking);
        later(&mut world, 11);
        world.settle();
        is_rolled_back(&world);
        assert!(apiserver(&world).ends_with(":v1.36.3") && emulates(&world));
        assert!(controllers(&world).ends_with(":v1.35.4"));
        let version = world.cluster.status.clone().unwrap().version;
        assert_eq!(version.as_deref(), Some("1.35.4"), "nodes do not follow");
        let writes = world.writes;
        later(&mut world, 600);
        world.settle();
        assert_eq!(world.writes, writes);

        let mut back = world.clone();
        ask_for(&mut back, "1.35.4");
        back.settle();
        assert!(apiserver(&back).ends_with(":v1.35.4"));
        assert_eq!(status(&back), None);

        world.fails = None;
        world.cluster.spec.upgrade.retry = 1;
        world.settle();
        assert!(apiserver(&world).ends_with(":v1.36.3") && !emulates(&world));
        let version = world.cluster.status.clone().unwrap().version;
        assert_eq!(version.as_deref(), Some("1.36.3"));
    }
}

#[test]
fn stored_objects_that_new_kube_apiservers_cannot_read_take_the_upgrade_back() {
    let mut world = ready(minimal());
    ask_for_a_minor(&mut world);
    world.settle();
    world.preflight = Inside {
        counted: Ok(Counted {
            undecodable: ["pods".to_owned()].into(),
            ..Counted::default()
        }),
        ..Inside::empty()
    };
    later(&mut world, 11);
    world.settle();
    is_rolled_back(&world);
    assert!(apiserver(&world).ends_with(":v1.35.4"));
    let failure = status(&world).unwrap().failure.unwrap();
    assert_eq!(failure.reason, UpgradeFailureReason::StoredObjects);
}

#[test]
fn upgrade_that_is_to_be_held_stays_as_far_as_it_came_and_goes_on_once_nothing_fails() {
    let mut world = ready(minimal());
    world.fails = Some((of_the_patch, crashes()));
    ask_for(&mut world, "1.35.5");
    world.cluster.spec.upgrade.on_failure = UpgradeFailurePolicy::Hold;
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    assert_eq!(world.condition("Progressing").1, "UpgradeFailed");
    assert_eq!(world.condition("Ready").0, "True");
    let told = status(&world).unwrap();
    assert_eq!(
        told.failure.unwrap().reason,
        UpgradeFailureReason::CrashLooping
    );
    assert_eq!(told.failed_version, None);
    let writes = world.writes;
    later(&mut world, 600);
    world.settle();
    assert_eq!(world.writes, writes);
    let mut given_up = world.clone();
    given_up.cluster.spec.upgrade.on_failure = UpgradeFailurePolicy::RollBack;
    given_up.settle();
    is_rolled_back(&given_up);
    world.fails = None;
    world.play_controllers();
    world.settle();
    assert_eq!(status(&world), None);
    assert!(apiserver(&world).ends_with(":v1.35.5"));
}

#[test]
fn minor_that_is_to_be_held_does_not_go_further_while_it_fails() {
    let mut world = ready(minimal());
    ask_for_a_minor(&mut world);
    world.cluster.spec.upgrade.on_failure = UpgradeFailurePolicy::Hold;
    world.settle();
    // It is ready again and again.
    let name = Key::new("Pod", NS, "control-plane-0");
    world.pods.get_mut(&name).unwrap()["status"]["containerStatuses"] =
        crashes()["containerStatuses"].clone();
    later(&mut world, 60);
    world.settle();
    assert!(emulates(&world));
    assert_eq!(world.condition("Progressing").1, "UpgradeFailed");
}

#[test]
fn nobody_waits_for_a_turn_to_go_back() {
    let mut world = ready(minimal());
    world.stuck = true;
    ask_for(&mut world, "1.35.5");
    world.settle();
    world.turn = Answer::Wait;
    later(&mut world, 16);
    world.settle();
    is_rolled_back(&world);
}

#[test]
fn pods_that_are_not_known_have_not_failed() {
    let mut world = ready(minimal());
    world.fails = Some((of_the_patch, crashes()));
    ask_for(&mut world, "1.35.5");
    // It begins, and nobody has looked at what came of it.
    for _ in 0..2 {
        world.reconcile(&mut usize::MAX.clone());
    }
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    later(&mut world, 60);
    let mut observed = world.observe();
    observed.pods = None;
    let plan = plan(&observed, &world.settings, world.now);
    let told = plan.status.upgrade.unwrap();
    assert_eq!((told.failure, told.failed_version), (None, None));
}

#[test]
fn crash_or_erased_phase_while_an_upgrade_fails_ends_with_the_same_objects() {
    for (asked, fails) in [
        ("1.35.5", of_the_patch as fn(&Value) -> bool),
        ("1.36.3", of_the_minor),
        ("1.36.3", of_the_minor_itself),
    ] {
        let start = ready(minimal());
        let changed = || {
            let mut world = start.clone();
            world.fails = Some((fails, crashes()));
            ask_for(&mut world, asked);
            world.cluster.spec.upgrade.soak = "10m".into();
            world
        };
        let through = |world: &mut World| {
            world.settle();
            later(world, 11);
            world.settle();
        };
        let mut whole = changed();
        through(&mut whole);
        is_rolled_back(&whole);
        let total = whole.writes - start.writes;
        assert!(total > 3, "{total}");
        for cut in 0..total {
            for erase in [false, true] {
                let mut world = changed();
                let mut left = cut;
                for _ in 0..6 {
                    if !world.reconcile(&mut left) {
                        break;
                    }
                    later(&mut world, 11);
                }
                if let Some(told) = world
                    .cluster
                    .status
                    .as_mut()
                    .and_then(|s| s.upgrade.as_mut())
                {
                    match erase {
                        true => (told.phase, told.phase_since) = (UpgradePhase::default(), None),
                        // All that was known of it: then it fails once more.
                        false => world.cluster.status.as_mut().unwrap().upgrade = None,
                    }
                }
                through(&mut world);
                through(&mut world);
                is_rolled_back(&world);
                assert_eq!(
                    template(&world),
                    template(&whole),
                    "{asked}: cut after {cut} writes"
                );
                assert_eq!(
                    world.objects.keys().collect::<Vec<_>>(),
                    whole.objects.keys().collect::<Vec<_>>(),
                    "{asked}: cut after {cut} writes"
                );
            }
        }
    }
}
