//! A machine whose node a restore of its tenant cluster took away.
//!
//! Invariant: it is started anew as often as it may be and never otherwise, wherever the operator dies.

use serde_json::json;

use super::world::{Api, World, read};
use crate::controllers::machine::plan::Action;

/// One that runs, and whose tenant cluster is of before it joined.
fn restored() -> World {
    let mut world = World::running();
    world.capabilities.restarts = true;
    world.node = None;
    restore(&mut world, "r1");
    world
}

fn restore(world: &mut World, uid: &str) {
    let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
    status.restore = Some(read(json!({
        "name": "back", "uid": uid, "moment": "latest", "clusterID": "cdf8", "revision": 7, "bump": 9,
        "since": "2026-11-21T12:00:00Z", "quiet": true, "switched": true, "prepared": true,
    })));
}

fn later(world: &mut World, seconds: i64) {
    world.now += jiff::SignedDuration::from_secs(seconds);
}

#[test]
fn kubelet_whose_node_a_restore_took_away_is_started_anew_and_no_more_than_twice() {
    let mut world = restored();
    world.settle();
    assert_eq!((world.restarted, world.told("RestartedForRestore")), (1, 1));
    // It has some minutes for it, and nothing is written meanwhile.
    let writes = world.writes;
    later(&mut world, 200);
    world.settle();
    assert_eq!((world.restarted, world.writes), (1, writes));
    assert!(world.plan().requeue_after.is_some());
    later(&mut world, 101);
    world.settle();
    assert_eq!(world.restarted, 2);
    later(&mut world, 10_000);
    world.settle();
    assert_eq!(world.restarted, 2);
    // Another Restore is another matter.
    restore(&mut world, "r2");
    world.settle();
    assert_eq!(world.restarted, 3);
    world.node = World::running().node;
    world.settle();
    later(&mut world, 10_000);
    world.settle();
    assert_eq!(world.restarted, 3);
}

#[test]
fn machine_is_left_alone_where_nobody_knows_that_a_restore_took_its_node_away() {
    type Change = fn(&mut World);
    let changes: [Change; 8] = [
        |world| world.capabilities.restarts = false,
        |world| world.api = Api::Silent,
        |world| world.api = Api::NotAsked,
        |world| world.api = Api::Postponed,
        |world| progress(world).prepared = false,
        |world| progress(world).given_up = Some("no room".to_owned()),
        |world| {
            world
                .cluster
                .as_mut()
                .unwrap()
                .status
                .as_mut()
                .unwrap()
                .restore = None;
        },
        |world| world.vm.as_mut().unwrap().state = providers::State::Creating,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut world = restored();
        change(&mut world);
        world.settle();
        assert_eq!(world.restarted, 0, "{number}");
    }
    // One that is there needs nothing.
    let mut there = World::running();
    there.capabilities.restarts = true;
    restore(&mut there, "r1");
    there.settle();
    assert_eq!(there.restarted, 0);
}

fn progress(world: &mut World) -> &mut api::tenant_cluster::RestoreProgress {
    let status = world.cluster.as_mut().unwrap().status.as_mut().unwrap();
    status.restore.as_mut().unwrap()
}

#[test]
fn operator_that_dies_after_any_write_starts_it_anew_all_the_same_and_no_oftener() {
    for budget in 0..6_usize {
        let mut world = restored();
        world.reconcile(&mut budget.clone());
        for _ in 0..4 {
            world.settle();
            later(&mut world, 301);
        }
        // What was stored and not done is done once more, and what was done is not known to be.
        assert!((1..=2).contains(&world.restarted), "{budget}");
        assert!(!world.plan().actions.contains(&Action::RestartVm));
    }
}
