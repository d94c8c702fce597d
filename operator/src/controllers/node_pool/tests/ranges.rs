//! Pools while it is not known which addresses machines must not reach.
//!
//! Invariant: what runs keeps running, and nothing is made.

use api::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use tenant_cp::problem::Problem;

use super::is;
use super::world::World;

#[test]
fn no_machine_is_made_or_goes_while_it_is_not_known_what_machines_must_not_reach() {
    let unknown = Problem::new(
        "network.reserved",
        Reason::ReservedRangesUnknown,
        "name them",
    );
    let mut world = World::new(2, &json!({}));
    world.reserved_unknown = Some(unknown.clone());
    world.settle();
    assert!(world.live().is_empty());
    for (type_, status) in [
        ("Ready", "False"),
        ("Progressing", "False"),
        ("Degraded", "True"),
    ] {
        let said = world.condition(type_);
        assert!(is(said, status, "ReservedRangesUnknown"), "{type_}");
    }
    let said = world.plan();
    assert!(said.is_settled() && said.events.is_empty(), "{said:?}");

    world.reserved_unknown = None;
    world.comes_to_rest();
    assert_eq!(world.ready(), 2);
    world.reserved_unknown = Some(unknown);
    for replicas in [3, 1] {
        world.pool.spec.replicas = replicas;
        world.settle();
        assert_eq!(world.ready(), 2);
    }
    // A pool that nobody wants any more is not held up.
    world.pool.metadata.deletion_timestamp = Some(Time(world.now));
    while !world.gone {
        world.settle();
        world.bury();
    }
}
