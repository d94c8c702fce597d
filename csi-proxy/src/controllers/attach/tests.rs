//! Laws of attaching, over any order of calls, steps of KubeVirt, restarts, deletions, disks that
//! somebody takes away, crashes of ours, and watches that lag behind.
//!
//! Invariant: what is held of one order of events is held of all that `sim` can play.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tonic::Code;

use super::holders;
use super::plan::{self, BATCH_PERIOD, Observed, Step, Times, desired_disk, desired_disks};
use crate::cache::objects::{Holders, Instance, Progress, Slot, Volume};

mod refused;
mod sim;

use self::sim::{MACHINES, Op, Sim, VOLUMES, op};

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_gives_a_volume_to_two_machines_and_all_come_to_rest(
        ops in prop::collection::vec(op(), 0..80),
        subresources in any::<bool>(),
    ) {
        let mut sim = Sim::new();
        sim.subresources = subresources;
        for op in ops {
            sim.act(op);
            sim.check();
        }
        sim.settle();
        let writes = sim.writes;
        for (id, volume) in &sim.truth.volumes {
            let refused = sim.refused.contains(id);
            for machine in volume.holders.held.iter().filter(|_| !refused) {
                prop_assert!(sim.truth.is_attached(id, machine), "{} to {}", id, machine);
            }
            for machine in MACHINES {
                let there = sim.truth.machines.contains_key(machine)
                    || sim.truth.instances.contains_key(machine);
                prop_assert!(there || !volume.holders.held.contains(machine), "gone and holds");
                if !volume.holders.wanted.contains(machine) {
                    prop_assert!(!sim.truth.has(id, machine), "{} is left on {}", id, machine);
                    prop_assert!(!volume.holders.held.contains(machine));
                }
            }
        }
        for machine in sim.truth.machines.values() {
            prop_assert!(machine.slots().any(|slot| slot.name == "root"), "that one is not ours");
        }
        sim.settle();
        prop_assert_eq!(sim.writes, writes, "who is at rest is not written to");
    }

    #[test]
    fn order_of_desired_disks_does_not_matter(mut order in Just(VOLUMES.to_vec()).prop_shuffle()) {
        let mut sim = Sim::new();
        for id in VOLUMES {
            sim.publish(id, "a", false).unwrap();
        }
        let machine = &sim.seen.machines["a"];
        let long = Times { since_write: None, since_pending: BATCH_PERIOD };
        let step = |desired: &[plan::DesiredDisk]| {
            let foreign = &BTreeSet::new();
            let observed = Observed { machine: Some(machine), instance: None, desired, foreign };
            plan::plan(&observed, long)
        };
        let sorted = desired_disks(&sim.seen)["a"].clone();
        let mut shuffled: Vec<_> = order.drain(..).map(|id| {
            desired_disk(&sim.seen.volumes[id], "a").unwrap()
        }).collect();
        shuffled.push(shuffled[0].clone());
        prop_assert_eq!(step(&shuffled), step(&sorted));
    }
}

#[test]
fn fifty_volumes_at_once_are_one_write() {
    let mut sim = Sim::new();
    for number in 0..50 {
        let (id, version) = (format!("vol-n{number}"), sim.next("u"));
        let volume = Volume {
            id: id.clone(),
            version,
            ..Volume::default()
        };
        sim.truth.volumes.insert(id.clone(), volume);
        sim.publish(&id, "a", false).unwrap();
    }
    sim.settle();
    assert_eq!(sim.writes, 1);
    assert_eq!(sim.truth.instances["a"].claims.len(), 50);
}

#[test]
fn disk_that_somebody_took_away_comes_back_an_orphan_goes_and_what_is_not_ours_stays() {
    let mut sim = Sim::new();
    sim.publish("vol-1", "a", false).unwrap();
    sim.settle();
    sim.act(Op::TakeAway(0, 0));
    sim.settle();
    assert!(sim.truth.is_attached("vol-1", "a"));
    // Three that no claim has as holder: by a driver before us, or by a hand. One of them is somebody
    // else's, and one has lost its claim, without which the machine can never start again.
    let version = sim.next("a");
    let machine = sim.truth.machines.get_mut("a").unwrap();
    machine.version = version;
    sim.foreign.insert("vol-theirs".to_owned());
    for id in ["vol-2", "vol-theirs", "vol-gone"] {
        let slot = Slot {
            name: id.to_owned(),
            claim: Some(id.to_owned()),
            hotplugged: true,
        };
        machine.slots.as_mut().unwrap().push(slot);
    }
    (0..12).for_each(|_| sim.round());
    assert!(!sim.truth.has("vol-2", "a"));
    assert!(!sim.truth.has("vol-gone", "a"));
    assert!(sim.truth.has("vol-theirs", "a"));
    assert!(sim.truth.is_attached("vol-1", "a"));
}

#[test]
fn instance_that_outlives_its_virtual_machine_keeps_the_volume() {
    let mut sim = Sim::new();
    sim.publish("vol-1", "a", false).unwrap();
    sim.settle();
    sim.act(Op::DeleteMachine(0));
    sim.act(Op::Unpublish(0, None));
    (0..3).for_each(|kind| sim.act(Op::Catch(kind)));
    sim.act(Op::Work(20));
    sim.act(Op::Ask(0));
    let refusal = sim.publish("vol-1", "b", false).unwrap_err();
    assert_eq!(refusal.code, Code::FailedPrecondition);
    assert!(refusal.sentence.contains("machine a"), "{refusal}");
    sim.act(Op::KubeVirt(0));
    (0..3).for_each(|kind| sim.act(Op::Catch(kind)));
    sim.act(Op::Work(20));
    sim.act(Op::Ask(0));
    sim.publish("vol-1", "b", false).unwrap();
    sim.settle();
    assert!(sim.truth.is_attached("vol-1", "b"));
}

#[test]
fn disk_that_is_still_going_is_gone_before_it_comes_again() {
    let mut sim = Sim::new();
    sim.publish("vol-1", "a", false).unwrap();
    let (machine, desired) = (&sim.seen.machines["a"], &desired_disks(&sim.seen)["a"]);
    let step = |instance: &Instance| {
        let observed = Observed {
            machine: Some(machine),
            instance: Some(instance),
            desired,
            foreign: &BTreeSet::new(),
        };
        let times = Times {
            since_write: None,
            since_pending: BATCH_PERIOD,
        };
        plan::plan(&observed, times)
    };
    let mut instance = Instance {
        running: true,
        ..Instance::default()
    };
    let going = Progress {
        phase: "Detaching".to_owned(),
        ..Progress::default()
    };
    instance.volumes.insert("vol-1".to_owned(), going);
    assert_eq!(step(&instance), Step::Rest);
    instance.ended = true;
    assert!(
        matches!(step(&instance), Step::Write(_)),
        "it lets go of all"
    );
    instance = Instance {
        running: true,
        ..Instance::default()
    };
    assert!(matches!(step(&instance), Step::Write(_)));
}

#[test]
fn refusals_name_the_holder_and_the_way_out() {
    let holders = |wanted: &[&str], held: &[&str], read_only| Holders {
        wanted: wanted.iter().map(|m| (*m).to_owned()).collect(),
        held: held.iter().map(|m| (*m).to_owned()).collect(),
        read_only,
    };
    let volume = |holders: Holders| Volume {
        id: "vol-1".to_owned(),
        holders,
        ..Volume::default()
    };
    let none = volume(Holders::default());
    let deleting = Volume {
        deleting: true,
        ..none.clone()
    };
    let on_b = volume(holders(&["b"], &["b"], false));
    let leaving_b = volume(holders(&[], &["b"], false));
    let on_a = volume(holders(&["a"], &["a"], false));
    let leaving_a = volume(holders(&[], &["a"], false));
    let read_a = volume(holders(&["a"], &["a"], true));
    let cases = [
        (
            &deleting,
            false,
            None,
            Code::FailedPrecondition,
            "being deleted",
        ),
        (
            &on_b,
            false,
            None,
            Code::FailedPrecondition,
            "attached to machine b",
        ),
        (
            &leaving_b,
            false,
            None,
            Code::FailedPrecondition,
            "attached to machine b",
        ),
        (
            &none,
            false,
            Some("c"),
            Code::FailedPrecondition,
            "attached to machine c",
        ),
        (
            &leaving_a,
            false,
            None,
            Code::Aborted,
            "being detached from machine a",
        ),
        (
            &on_a,
            true,
            None,
            Code::AlreadyExists,
            "asked for read-only",
        ),
        (
            &read_a,
            false,
            None,
            Code::AlreadyExists,
            "for reading and writing",
        ),
    ];
    for (volume, read_only, elsewhere, code, sentence) in cases {
        let refusal = holders::publish(volume, "a", read_only, elsewhere).unwrap_err();
        assert_eq!(refusal.code, code, "{refusal}");
        assert!(refusal.sentence.contains(sentence), "{refusal}");
    }
    let shared = Volume {
        shared: true,
        ..on_b
    };
    let both = holders::publish(&shared, "a", false, Some("b")).unwrap();
    assert_eq!(both, holders(&["a", "b"], &["a", "b"], false));
}
