//! A quota refuses a node pool.
//!
//! Invariant: no machine is made, and none is taken away.

use api::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use tenant_cp::problem::Problem;

use super::world::World;

fn exceeded() -> Vec<Problem> {
    vec![Problem::new(
        "spec",
        Reason::QuotaExceeded,
        "TenantQuota team-a allows 3 machines",
    )]
}

fn said(world: &World) -> String {
    let (status, reason) = world.condition("Degraded");
    format!("{status} {reason}")
}

#[test]
fn pool_that_is_refused_makes_no_machine_until_it_may() {
    let mut world = World::new(3, &json!({}));
    world.quotas = exceeded();
    world.settle();
    assert_eq!(world.live().len(), 0);
    assert_eq!(said(&world), "True QuotaExceeded");
    let plan = world.plan();
    assert!(
        plan.is_settled() && plan.events.is_empty(),
        "it is told once"
    );
    world.quotas.clear();
    world.settle();
    assert_eq!(world.live().len(), 3);
    assert_eq!(said(&world), "False AsExpected");
}

#[test]
fn pool_that_may_not_grow_keeps_what_it_has() {
    let mut world = World::new(3, &json!({}));
    world.settle();
    let before: Vec<_> = world.machines.clone();
    world.quotas = exceeded();
    world.pool.spec.replicas = 5;
    world.settle();
    assert_eq!(world.machines, before);
    assert_eq!(said(&world), "True QuotaExceeded");
}

#[test]
fn machines_of_a_pool_that_is_refused_are_not_said_to_be_outdated() {
    let mut world = World::running(3, &json!({}));
    let updated = |world: &World| world.pool.status.clone().unwrap().updated_replicas;
    assert_eq!(updated(&world), 3);
    let writes = world.writes;
    world.quotas = exceeded();
    world.settle();
    assert_eq!(updated(&world), 3, "what they are made from is not judged");
    assert_eq!(world.writes, writes + 1);
    // No more than there are.
    let name = world.live().remove(0);
    world.machine(&name).metadata.deletion_timestamp = Some(Time(world.now));
    world.settle();
    assert_eq!(updated(&world), 2);
}
