//! A quota refuses a tenant cluster.
//!
//! Invariant: what was refused makes nothing, and what runs already is left as it is.

use api::Reason;
use tenant_cp::problem::Problem;

use super::*;

fn exceeded() -> Vec<Problem> {
    vec![Problem::new(
        "spec",
        Reason::QuotaExceeded,
        "TenantQuota team-a allows 1 tenant clusters",
    )]
}

fn said(world: &World, type_: &str) -> String {
    let status = world.cluster.status.clone().unwrap_or_default();
    let mut found = status.conditions.iter();
    let found = found.find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |c| format!("{} {}", c.status, c.reason))
}

#[test]
fn one_that_is_refused_makes_nothing_takes_no_range_and_says_why() {
    let mut world = World::new(minimal());
    world.quotas = exceeded();
    world.settle();
    assert_eq!(world.objects.len(), 0, "{:?}", world.objects.keys());
    let status = world.cluster.status.clone().unwrap();
    assert_eq!(status.network, None);
    for type_ in ["Degraded", "Progressing", "Ready"] {
        assert!(said(&world, type_).ends_with("QuotaExceeded"), "{type_}");
    }
    let plan = plan(&world.observe(), &world.settings, now());
    let told = plan.events.iter().find(|event| event.warning);
    let told = told.map(|event| (event.reason, event.message.as_str()));
    let message = "spec: TenantQuota team-a allows 1 tenant clusters";
    assert_eq!(told, Some(("QuotaExceeded", message)));
    // Once there is room it goes on by itself.
    world.quotas.clear();
    world.settle();
    assert_eq!(said(&world, "Ready"), "True Answering");
    assert_eq!(said(&world, "Degraded"), "False AsExpected");
}

#[test]
fn one_that_runs_and_may_not_grow_stays_as_it_is_and_ready() {
    let mut world = ready(minimal());
    let before = world.objects.clone();
    world.quotas = exceeded();
    world.cluster.spec.control_plane.replicas = 9;
    world.settle();
    assert_eq!(world.objects, before);
    assert_eq!(said(&world, "Ready"), "True Answering");
    assert_eq!(said(&world, "Degraded"), "True QuotaExceeded");
}
