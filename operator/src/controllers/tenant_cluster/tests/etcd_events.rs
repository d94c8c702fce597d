//! Events in an etcd of their own: when kube-apiservers are told of it, what follows when it is lost, and how it goes.
//!
//! Invariant: the tenant cluster is Ready whatever becomes of it.

use jiff::{SignedDuration, Timestamp};

use super::*;

const FLAG: &str = "--etcd-servers-overrides=/events#https://etcd-events:2379";

fn with_events() -> Value {
    json!({ "version": "1.35.4", "etcd": { "events": {} } })
}

fn key() -> Key {
    Key::new("Deployment", NS, "etcd-events")
}

/// Whether kube-apiservers that are made now are told of it.
fn names_it(world: &World) -> bool {
    let deployment = &world.objects[&Key::new("Deployment", NS, "control-plane")];
    deployment.to_string().contains(FLAG)
}

fn after(seconds: i64) -> Timestamp {
    now() + SignedDuration::from_secs(seconds)
}

/// Its Deployment says this since the beginning.
fn say(world: &mut World, available: bool, ready: i64) {
    let live = world.objects.get_mut(&key()).unwrap();
    let available = if available { "True" } else { "False" };
    live["status"]["readyReplicas"] = json!(ready);
    live["status"]["conditions"] = json!([{ "type": "Available", "status": available,
        "lastTransitionTime": now().to_string() }]);
}

fn is_ready(world: &World) -> bool {
    world.condition("Ready").0 == "True"
}

#[test]
fn it_is_used_once_it_is_steady_and_not_any_more_after_a_minute_without_it() {
    let mut world = World::new(with_events());
    world.steady_events = false;
    world.settle();
    assert!(is_ready(&world) && !names_it(&world), "nobody waits for it");
    say(&mut world, true, 1);
    world.settle();
    assert!(is_ready(&world) && names_it(&world));
    let written = world.writes;
    say(&mut world, false, 0);
    world.now = after(59);
    world.settle();
    assert!(names_it(&world));
    let plan_now = plan(&world.observe(), &world.settings, world.now);
    let again = plan_now.requeue_after.unwrap();
    assert!(again <= std::time::Duration::from_secs(1), "{again:?}");
    assert_eq!(
        world.writes, written,
        "a pod that is restarted costs nothing"
    );
    world.now = after(60);
    world.settle();
    assert!(is_ready(&world) && !names_it(&world));
    let degraded = ("True".to_owned(), "EventsUnavailable".to_owned());
    assert_eq!(world.condition("Degraded"), degraded);
    // It comes and goes, and is not believed for ten minutes.
    say(&mut world, true, 1);
    world.now = after(599);
    world.settle();
    assert!(!names_it(&world));
    assert_eq!(world.condition("Degraded").0, "False");
    world.now = after(600);
    world.settle();
    assert!(is_ready(&world) && names_it(&world));
}

/// The note makes its Deployment one of another generation, after which nobody knows for a moment how it is.
#[test]
fn since_when_it_is_lost_is_noted_with_the_change_of_kube_apiservers_and_not_before() {
    let mut world = ready(with_events());
    let note = |world: &World| {
        let annotations = &world.objects[&key()]["metadata"]["annotations"];
        annotations[tenant_cp::names::EVENTS_LOST].clone()
    };
    say(&mut world, false, 0);
    world.now = after(60);
    world.turn = Answer::Wait;
    world.settle();
    assert!(names_it(&world) && note(&world).is_null());
    world.turn = Answer::Go;
    world.settle();
    assert!(!names_it(&world));
    assert_eq!(note(&world), json!(now().to_string()));
}

#[test]
fn what_is_not_known_of_it_changes_nothing() {
    for status in [
        json!([]),
        json!("nonsense"),
        json!({ "observedGeneration": 0, "readyReplicas": 0 }),
        json!({ "observedGeneration": 9, "conditions": [{ "type": "Available", "status": "Unknown" }] }),
        json!({ "observedGeneration": 9, "conditions": [{ "type": "Available", "status": "False" }] }),
    ] {
        let mut world = ready(with_events());
        assert!(names_it(&world));
        let written = world.writes;
        world.objects.get_mut(&key()).unwrap()["status"] = status.clone();
        world.now = after(3600);
        world.settle();
        assert!(is_ready(&world) && names_it(&world), "{status}");
        assert_eq!(world.writes, written, "{status}");
    }
}

#[test]
fn no_rollout_begins_for_it_while_it_is_upgraded() {
    let mut world = World::new(with_events());
    world.steady_events = false;
    world.settle();
    world.cluster.spec.version = "1.36.3".to_owned();
    world.cluster.metadata.generation = Some(2);
    say(&mut world, true, 1);
    world.stuck = true;
    world.settle();
    assert!(!names_it(&world), "the upgrade goes on");
}

#[test]
fn it_is_taken_away_once_no_kube_apiserver_names_it_any_more() {
    let mut world = ready(with_events());
    let kinds = |world: &World| -> Vec<String> {
        let its = world.objects.keys().filter(|key| key.name == "etcd-events");
        its.map(|key| key.kind.clone()).collect()
    };
    assert_eq!(
        kinds(&world),
        [
            "Deployment",
            "NetworkPolicy",
            "Secret",
            "Service",
            "ServiceAccount"
        ]
    );
    world.cluster.spec.etcd.events = None;
    world.cluster.metadata.generation = Some(2);
    // Pods of before stay.
    world.stuck = true;
    world.settle();
    assert!(!names_it(&world));
    assert_eq!(kinds(&world).len(), 5, "kube-apiservers that run name it");
    world.stuck = false;
    world.play_controllers();
    world.settle();
    assert!(kinds(&world).is_empty() && is_ready(&world));
}

#[test]
fn it_sleeps_and_wakes_with_the_control_plane() {
    let mut world = ready(with_events());
    world.cluster.spec.hibernation.enabled = true;
    for _ in 0..4 {
        world.settle();
    }
    assert_eq!(world.objects[&key()]["spec"]["replicas"], 0);
    assert!(names_it(&world), "it is told of it as before");
    world.now = after(7200);
    world.settle();
    assert!(names_it(&world));
    world.cluster.spec.hibernation.enabled = false;
    for _ in 0..4 {
        world.settle();
    }
    assert_eq!(world.objects[&key()]["spec"]["replicas"], 1);
    assert!(is_ready(&world) && names_it(&world));
}

/// A pod that runs and does not get well is of no use to anybody; one that waits for a node would wait again.
#[test]
fn a_pod_that_does_not_get_well_is_made_anew_once_nobody_asks_it() {
    for (phase, ends) in [("Running", true), ("Pending", false)] {
        let mut world = ready(with_events());
        let pod = Key::new("Pod", NS, "etcd-events-0");
        let labels = json!({ api::names::LABEL_COMPONENT: "etcd-events" });
        let body = json!({
            "metadata": { "name": "etcd-events-0", "uid": "u", "labels": labels },
            "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": "False" }] },
        });
        world.pods.insert(pod.clone(), body);
        say(&mut world, false, 0);
        world.now = after(599);
        world.settle();
        assert!(world.pods.contains_key(&pod), "it may get well");
        world.now = after(600);
        world.settle();
        assert_eq!(!world.pods.contains_key(&pod), ends, "{phase}");
    }
}

#[test]
fn a_crash_after_any_write_leads_to_the_same_end() {
    let whole = ready(with_events());
    for writes in 0..whole.writes {
        let mut world = World::new(with_events());
        world.reconcile(&mut writes.clone());
        world.settle();
        let names = |world: &World| world.objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&world), names(&whole), "after {writes}");
        assert!(is_ready(&world) && names_it(&world), "after {writes}");
    }
}
