//! Who owns `replicas` is said in a condition.
//!
//! Invariant: a pool without `spec.autoscaling` has no such condition, so nothing changes for it.

use super::*;

fn said(world: &World) -> (String, String, String) {
    said_of(world, ConditionType::Autoscaling)
}

fn said_of(world: &World, type_: ConditionType) -> (String, String, String) {
    let status = world.pool.status.clone().unwrap_or_default();
    let mut conditions = status.conditions.into_iter();
    let found = conditions.find(|c| c.type_ == type_.as_str());
    let text = |c: k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        (c.status, c.reason, c.message)
    };
    found.map(text).unwrap_or_default()
}

fn switch(world: &mut World, on: bool) {
    let cluster = world.cluster.as_mut().unwrap();
    cluster.spec.addons.autoscaler.enabled = on;
    world.settle();
}

#[test]
fn owner_of_replicas_follows_the_pool_and_the_addon() {
    let mut world = World::running(2, &json!({ "autoscaling": { "min": 1, "max": 5 } }));
    let (value, reason, message) = said(&world);
    assert_eq!((&*value, &*reason), ("False", "AddonOff"));
    assert!(
        message.contains("spec.addons.autoscaler.enabled to true"),
        "{message}"
    );
    switch(&mut world, true);
    let (value, reason, message) = said(&world);
    assert_eq!((&*value, &*reason), ("True", "OwnedByAutoscaler"));
    assert!(message.contains("from 1 to 5"), "{message}");
    let other = api::node_pool::Autoscaling {
        max: 9,
        ..world.pool.spec.autoscaling.clone().unwrap()
    };
    world.pool.spec.autoscaling = Some(other);
    world.settle();
    assert!(said(&world).2.contains("from 1 to 9"));
    world.pool.spec.autoscaling = None;
    world.settle();
    assert_eq!(said(&world).0, "");
}

#[test]
fn paused_and_broken_pools_say_it_too() {
    let mut world = World::running(1, &json!({ "autoscaling": { "max": 3 } }));
    switch(&mut world, true);
    world.pool.spec.version = Some("1.36.3".into());
    world.pool.spec.autoscaling = Some(read(json!({ "max": 4 })));
    world.settle();
    assert!(said(&world).2.contains("from 0 to 4"));
    world.cluster.as_mut().unwrap().spec.paused = true;
    world.pool.spec.autoscaling = Some(read(json!({ "max": 5 })));
    world.settle();
    assert!(said(&world).2.contains("from 0 to 5"));
}

#[test]
fn what_the_adapter_refused_is_said_until_the_pool_is_another() {
    let mut world = World::running(2, &json!({ "autoscaling": { "max": 3 } }));
    let generation = world.pool.metadata.generation.unwrap();
    let text = format!("{generation} a pool grows by 1 or more, not by -1");
    let annotation = (names::ANNOTATION_AUTOSCALING_REFUSED.to_owned(), text);
    let annotations = &mut world.pool.metadata.annotations;
    annotations.get_or_insert_default().extend([annotation]);
    let refused = |world: &World| said_of(world, ConditionType::AutoscalingRefused);
    world.settle();
    assert_eq!(refused(&world).0, "", "there is no adapter");
    switch(&mut world, true);
    let (value, reason, message) = refused(&world);
    assert_eq!((&*value, &*reason), ("True", "AutoscalingRefused"));
    assert_eq!(message, "a pool grows by 1 or more, not by -1");
    world.pool.metadata.generation = Some(generation + 1);
    world.settle();
    assert_eq!(refused(&world).0, "", "the pool is another");
}
