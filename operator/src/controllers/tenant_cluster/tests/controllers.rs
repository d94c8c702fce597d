//! kube-controller-manager and kube-scheduler: when they are made, whom they follow, and what is said when
//! they do not work.
//!
//! Invariant: whatever they do, the API's pods and its conditions are not touched by it.

use api::tenant_cluster::UpgradeGuard;

use super::*;

fn deployment() -> Key {
    Key::new("Deployment", NS, "controllers")
}

fn image(world: &World, name: &str) -> String {
    let pod = &world.objects[&Key::new("Deployment", NS, name)]["spec"]["template"]["spec"];
    pod["containers"][0]["image"].as_str().unwrap().to_owned()
}

fn ask_for(world: &mut World, version: &str) {
    world.cluster.spec.version = version.to_owned();
    world.cluster.spec.upgrade.soak = "0s".into();
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
}

/// So many pods are ready, and so many of them have been for a while.
fn has(world: &mut World, ready: i64, available: i64) {
    let status = &mut world.objects.get_mut(&deployment()).unwrap()["status"];
    status["readyReplicas"] = json!(ready);
    status["availableReplicas"] = json!(available);
}

/// The scheduler of its pod crashed, and is started again later, or now.
fn crashed(world: &mut World, restarts: i64, waits: bool) {
    let state = match waits {
        true => json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
        false => json!({ "running": {} }),
    };
    let pod = json!({
        "metadata": {
            "name": "a-pod", "labels": { api::names::LABEL_COMPONENT: "controllers" },
        },
        "status": { "containerStatuses": [{
            "name": "scheduler", "restartCount": restarts, "state": state,
            "lastState": { "terminated": { "reason": "OOMKilled", "exitCode": 137 } },
        }] },
    });
    world.objects.insert(Key::new("Pod", NS, "a-pod"), pod);
    has(world, i64::from(!waits), 0);
}

#[test]
fn controllers_are_made_once_the_api_answers() {
    let mut world = World::new(minimal());
    world.tenant_up = false;
    world.settle();
    assert!(
        world
            .objects
            .contains_key(&Key::new("Deployment", NS, "control-plane"))
    );
    assert!(!world.objects.contains_key(&deployment()));
    assert_eq!(
        world.condition("ControllersReady"),
        ("False".into(), "PodsNotReady".into())
    );
    world.tenant_up = true;
    world.settle();
    assert!(world.objects.contains_key(&deployment()));
    assert_eq!(world.condition("ControllersReady").0, "True");
    assert_eq!(world.condition("Ready").0, "True");
    // From then on they are mended as everything else is, whatever the API does.
    world.tenant_up = false;
    world.objects.remove(&deployment());
    world.settle();
    assert!(world.objects.contains_key(&deployment()));
}

/// Finding 26: the API goes on, and Ready says that nothing that is written is carried out.
#[test]
fn scheduler_that_crashes_is_told_and_takes_nothing_of_the_api_away() {
    let whole = ready(minimal());
    let mut world = whole.clone();
    crashed(&mut world, 5, true);
    world.settle();
    let not_ready = ("False".to_owned(), "ControllersNotReady".to_owned());
    let crashes = ("False".to_owned(), "CrashLooping".to_owned());
    assert_eq!(world.condition("ControllersReady"), crashes);
    assert_eq!(world.condition("Ready"), not_ready);
    assert_eq!(
        world.condition("Degraded"),
        ("True".into(), "CrashLooping".into())
    );
    for part in ["ControlPlaneReady", "EtcdReady", "EndpointReachable"] {
        assert_eq!(world.condition(part), whole.condition(part), "{part}");
    }
    let status = world.cluster.status.clone().unwrap();
    assert!(status.answers_since().is_some(), "the API answers");
    let mut ready = status.conditions.iter();
    let ready = ready.find(|c| c.type_ == "Ready").unwrap();
    assert!(
        ready.message.contains("scheduler ends"),
        "{}",
        ready.message
    );

    // Between two crashes both programs run, and the pod counts as ready.
    crashed(&mut world, 6, false);
    world.settle();
    assert_eq!(world.condition("ControllersReady"), crashes);
    assert_eq!(world.condition("Ready"), not_ready);
    // It goes on running.
    has(&mut world, 1, 1);
    world.settle();
    assert_eq!(
        world.condition("ControllersReady"),
        ("True".into(), "PodsReady".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
    assert_eq!(world.condition("Degraded").0, "False");
}

#[test]
fn one_pod_of_controllers_that_is_ready_is_enough_to_be_ready() {
    let mut world = ready(large());
    has(&mut world, 1, 1);
    world.settle();
    assert_eq!(
        world.condition("ControllersReady"),
        ("False".into(), "PodsNotReady".into())
    );
    assert_eq!(world.condition("Ready").0, "True");
    has(&mut world, 0, 0);
    world.settle();
    assert_eq!(
        world.condition("Ready"),
        ("False".into(), "ControllersNotReady".into())
    );
}

#[test]
fn tenant_that_is_paused_or_refused_says_too_that_nothing_is_carried_out() {
    for halt in [
        (|world: &mut World| world.cluster.spec.paused = true) as fn(&mut World),
        |world| world.cluster.spec.version = "1.21.0".into(),
    ] {
        let mut world = ready(minimal());
        halt(&mut world);
        world.settle();
        assert_eq!(world.condition("Ready").0, "True");
        has(&mut world, 0, 0);
        world.settle();
        assert_eq!(
            world.condition("Ready"),
            ("False".into(), "ControllersNotReady".into())
        );
    }
}

/// Version skew policy: neither may be newer than a kube-apiserver that it asks.
#[test]
fn controllers_are_never_newer_than_a_kube_apiserver_that_serves() {
    let mut world = ready(minimal());
    world.stuck = true;
    ask_for(&mut world, "1.36.0");
    world.settle();
    assert!(image(&world, "control-plane").ends_with(":v1.36.0"));
    assert!(image(&world, "controllers").ends_with(":v1.35.4"));
    // Nor are those that are made anew meanwhile.
    world.objects.remove(&deployment());
    world.settle();
    assert!(image(&world, "controllers").ends_with(":v1.35.4"));
    world.stuck = false;
    world.play_controllers();
    world.settle();
    assert!(image(&world, "controllers").ends_with(":v1.36.0"));
    let status = world.cluster.status.clone().unwrap();
    assert_eq!(status.version.as_deref(), Some("1.36.0"));
}

/// Machines follow `status.version`, and would come to a cluster in which nobody lets them join.
#[test]
fn version_is_not_reported_before_the_controllers_have_it() {
    let mut world = ready(minimal());
    let old = world.pods[&Key::new("Pod", NS, "controllers-0")].clone();
    let ends = Key::new("Pod", NS, "controllers-old");
    world.pods.insert(ends.clone(), old);
    world.pods.get_mut(&ends).unwrap()["metadata"]["deletionTimestamp"] =
        json!("2026-11-21T12:00:00Z");
    ask_for(&mut world, "1.36.0");
    // It would wait for the old pod.
    world.cluster.spec.upgrade.guard = UpgradeGuard::Warn;
    world.settle();
    let version = |world: &World| world.cluster.status.clone().unwrap().version.unwrap();
    assert!(image(&world, "controllers").ends_with(":v1.36.0"));
    assert_eq!(version(&world), "1.35.4");
    assert_eq!(world.condition("Progressing").1, "RollingOut");
    let proxy = Key::new("DaemonSet", "kube-system", "kube-proxy");
    let proxy = |world: &World| {
        let pod = &world.inside[&proxy]["spec"]["template"]["spec"];
        pod["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    assert!(proxy(&world).ends_with(":v1.35.4"));
    world.pods.remove(&ends);
    world.list_due = true;
    world.settle();
    assert_eq!(version(&world), "1.36.0");
    assert!(proxy(&world).ends_with(":v1.36.0"));
}

#[test]
fn flag_of_the_scheduler_restarts_no_api_server() {
    let mut world = ready(minimal());
    let before = world.objects[&Key::new("Deployment", NS, "control-plane")].clone();
    let flags = &mut world.cluster.spec.control_plane.scheduler.extra_args;
    flags.insert("v".to_owned(), "4".to_owned());
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    world.settle();
    let args = &world.objects[&deployment()]["spec"]["template"]["spec"]["containers"][1]["args"];
    assert!(args.as_array().unwrap().contains(&json!("--v=4")));
    let after = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    assert_eq!(after, &before);
    assert!(world.is_newest("controllers-0"));
}
