//! What a pool says of a KubeVirt with published holes, and when.
//!
//! Invariant: no machine is made, kept or deleted for it.

use provider_kubevirt::release::Release;
use serde_json::json;

use super::world::World;

fn message(world: &World) -> Option<String> {
    let conditions = world.pool.status.clone().unwrap().conditions;
    let mut all = conditions.into_iter();
    all.find(|c| c.type_ == "KubeVirtOutdated")
        .map(|c| c.message)
}

fn events(world: &World) -> usize {
    let events = world.plan().events;
    events
        .iter()
        .filter(|event| event.reason == "KubeVirtOutdated")
        .count()
}

#[test]
fn holes_are_told_once_and_no_more_once_they_are_mended() {
    let mut world = World::running(2, &json!({}));
    assert_eq!(message(&world), None);
    let before = (world.live(), world.writes);

    world.kubevirt = Release::of(["v1.6.0"]);
    assert_eq!(events(&world), 1);
    world.settle();
    let text = message(&world).unwrap();
    assert!(text.contains("v1.6.0") && text.contains("1.9.0"), "{text}");
    assert_eq!((events(&world), world.writes), (0, before.1 + 1));
    world.settle();
    assert_eq!(world.writes, before.1 + 1);

    // Another one that has holes too is told in the condition alone.
    world.kubevirt = Release::of(["v1.7.0"]);
    assert_eq!(events(&world), 0);
    world.settle();
    assert!(message(&world).unwrap().contains("v1.7.0"));

    // What is not known any more is no news.
    world.kubevirt = Release::Unknown;
    world.settle();
    assert!(message(&world).unwrap().contains("v1.7.0"));

    world.kubevirt = Release::of(["v1.9.0"]);
    world.settle();
    assert_eq!(message(&world), None);
    assert_eq!((world.live(), events(&world)), (before.0, 0));
}

#[test]
fn pool_on_an_old_release_gets_its_machines_and_tells_once() {
    let mut world = World::new(3, &json!({}));
    world.kubevirt = Release::of(["v1.6.0"]);
    // While machines are still to be made nothing is told, because nothing of it is written yet.
    assert_eq!(events(&world), 0);
    world.settle();
    assert_eq!(world.live().len(), 3);
    assert!(message(&world).is_some());
    assert_eq!(events(&world), 0);
}

#[test]
fn nothing_known_is_nothing_said() {
    let mut world = World::running(1, &json!({}));
    for release in [Release::Unknown, Release::of(["devel"]), Release::Fixed] {
        world.kubevirt = release;
        let before = world.writes;
        world.settle();
        assert_eq!((message(&world), world.writes), (None, before));
    }
}
