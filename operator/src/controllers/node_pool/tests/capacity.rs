//! Whether the management cluster has capacity: what the pool says, and when.
//!
//! Invariant: it is said before machines are made, and never keeps one from being made.

use serde_json::json;

use super::world::World;
use crate::capacity::Answer;
use crate::capacity::decide::{Exhausted, Shortage};
use crate::capacity::read::Amount;

/// No node has room; so much is left.
fn full(memory: i64) -> Answer {
    Answer::NoRoom(Shortage {
        needs: Amount {
            cpu: 220,
            memory: 4 << 30,
            storage: 8 << 30,
        },
        labels: vec!["kubevirt.io/schedulable=true".to_owned()],
        left: Some(Amount {
            cpu: 900,
            memory,
            storage: 9 << 30,
        }),
        places: true,
    })
}

pub(super) fn exhausted() -> Answer {
    Answer::QuotaExhausted(Exhausted {
        quota: ("covey-demo-c1a1b2c311".to_owned(), "team".to_owned()),
        resource: "pods".to_owned(),
        needs: "1".to_owned(),
        used: "9".to_owned(),
        hard: "9".to_owned(),
    })
}

fn said(world: &World) -> String {
    let (status, reason) = world.condition("Capacity");
    format!("{status} {reason}")
}

fn message(world: &World) -> String {
    let status = world.pool.status.clone().unwrap();
    let mut all = status.conditions.into_iter();
    all.find(|c| c.type_ == "Capacity").unwrap().message
}

#[test]
fn pool_says_that_there_is_no_room_before_it_makes_machines_and_makes_them() {
    let mut world = World::new(3, &json!({}));
    world.capacity = full(1 << 30);
    // The finalizer, and the status.
    assert!(!world.reconcile(&mut 2));
    assert!(world.machines.is_empty());
    assert_eq!(said(&world), "False NoRoom");
    let text = message(&world);
    assert!(text.contains("4096Mi") && text.contains("1024Mi"), "{text}");
    assert_eq!(world.pool.status.clone().unwrap().observed_generation, None);
    world.settle();
    assert_eq!(world.live().len(), 3);
    let plan = world.plan();
    assert!(plan.is_settled() && plan.events.is_empty());
}

#[test]
fn what_was_said_is_not_said_again_before_more_machines_are_made() {
    let mut world = World::running(1, &json!({}));
    world.capacity = full(1 << 30);
    world.settle();
    assert_eq!(said(&world), "False NoRoom");
    world.pool.spec.replicas = 2;
    let plan = world.plan();
    assert_eq!((plan.before.clone(), plan.creations.len()), (None, 1));
    world.comes_to_rest();
    assert_eq!(world.live().len(), 2);
}

#[test]
fn each_turn_is_one_write_and_rest_none() {
    let mut world = World::running(2, &json!({}));
    world.capacity = Answer::Fits;
    world.settle();
    assert_eq!(said(&world), "True Fits");
    for (capacity, expected) in [
        (full(1 << 30), "False NoRoom"),
        (exhausted(), "False QuotaExhausted"),
        (Answer::Fits, "True Fits"),
    ] {
        let before = world.writes;
        world.capacity = capacity;
        world.settle();
        assert_eq!(
            (world.writes - before, said(&world).as_str()),
            (1, expected)
        );
        for _ in 0..3 {
            world.settle();
        }
        assert_eq!(world.writes - before, 1, "{expected}");
    }
}

#[test]
fn what_is_left_changes_without_a_write_until_the_pool_is_another_one() {
    let mut world = World::running(2, &json!({}));
    world.capacity = full(1 << 30);
    world.settle();
    let before = world.writes;
    world.capacity = full(2 << 30);
    world.settle();
    assert_eq!(world.writes, before);
    assert!(message(&world).contains("1024Mi"));
    world.pool.metadata.generation = Some(2);
    world.settle();
    assert!(message(&world).contains("2048Mi"));
}

#[test]
fn what_was_known_stays_said_while_it_is_not_known() {
    let mut world = World::running(1, &json!({}));
    let types = |world: &World| {
        let status = world.pool.status.clone().unwrap();
        status
            .conditions
            .into_iter()
            .map(|c| c.type_)
            .collect::<Vec<_>>()
    };
    assert!(!types(&world).contains(&"Capacity".to_owned()));
    world.capacity = exhausted();
    world.settle();
    assert!(message(&world).contains("ResourceQuota covey-demo-c1a1b2c311/team"));
    let before = world.writes;
    world.capacity = Answer::Unknown;
    world.settle();
    assert_eq!(
        (world.writes, said(&world).as_str()),
        (before, "False QuotaExhausted")
    );
}
