//! A tenant cluster that its user holds back from what the operator wants of all of them.
//!
//! Invariant: until the moment nothing is made from other templates, and what its user changes comes all the same.

use jiff::{SignedDuration, Timestamp};

use super::rollouts::{apiserver, ask_for, upgrade_operator};
use super::*;

/// Its user says until when, in a day's time; gives the moment.
fn hold(world: &mut World) -> Timestamp {
    let until = world.now.round(jiff::Unit::Second).unwrap();
    let until = until.checked_add(SignedDuration::from_hours(24)).unwrap();
    world.cluster.spec.maintenance.held_until = Some(until.to_string());
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    until
}

fn etcd(world: &World) -> &Value {
    &world.objects[&Key::new("StatefulSet", NS, "etcd")]["spec"]["template"]
}

fn message(world: &World) -> String {
    let status = world.cluster.status.clone().unwrap();
    let mut conditions = status.conditions.into_iter();
    conditions
        .find(|c| c.type_ == "Progressing")
        .unwrap()
        .message
}

#[test]
fn nothing_is_made_anew_before_the_moment_and_it_is_looked_at_then() {
    let whole = ready(large());
    let mut world = whole.clone();
    world.list_due = true;
    upgrade_operator(&mut world);
    // Also where it was to wait, and is held back meanwhile: that is no change that makes pods.
    world.turn = Answer::Held;
    world.settle();
    world.turn = Answer::Go;
    let until = hold(&mut world);
    world.settle();
    assert_eq!(etcd(&world), etcd(&whole));
    assert_eq!(
        world.condition("Progressing"),
        ("True".into(), "WaitingForRollout".into())
    );
    assert!(message(&world).ends_with(&format!("until {until}")));
    let writes = world.writes;
    world.settle();
    assert_eq!(world.writes, writes, "nothing is written while it waits");

    let left = SignedDuration::from_secs(5);
    world.now = until.checked_sub(left).unwrap();
    let plan = plan(&world.observe(), &world.settings, world.now);
    let left = std::time::Duration::from_secs(5);
    assert!(plan.requeue_after.unwrap() <= left + std::time::Duration::from_millis(1));
    world.now = until;
    world.settle();
    assert!((0..3).all(|n| world.is_newest(&format!("etcd-{n}"))));
    assert_ne!(etcd(&world), etcd(&whole));
}

#[test]
fn what_its_user_changes_comes_all_the_same() {
    let mut world = ready(large());
    world.list_due = true;
    hold(&mut world);
    world.settle();
    ask_for(&mut world, "1.35.5");
    world.settle();
    assert!(apiserver(&world).ends_with(":v1.35.5"));
    assert_eq!(world.condition("Progressing").1, "AsDesired");
}

#[test]
fn whom_it_goes_before_makes_no_pods() {
    let whole = ready(large());
    let mut world = whole.clone();
    world.list_due = true;
    world.turn = Answer::Wait;
    upgrade_operator(&mut world);
    world.settle();
    world.cluster.spec.maintenance.priority = 5;
    *world.cluster.metadata.generation.as_mut().unwrap() += 1;
    let mut observed = world.observe();
    loop {
        let plan = plan(&observed, &world.settings, world.now);
        let is_asked = |action: &Action| matches!(action, Action::AskForTurn { cause, .. } if *cause == Cause::Change);
        assert!(
            !plan.actions().any(is_asked),
            "it would go before all others"
        );
        if plan.is_settled() {
            break;
        }
        world.carry_out(&plan, &mut observed, &mut usize::MAX.clone());
    }
    assert_eq!(etcd(&world), etcd(&whole));
}
