//! What happens beside a disk that is refused, and to volumes of machines that are gone.
//!
//! Invariant: whoever is not refused comes to rest as if the refused one were not there.

use super::sim::{Op, Sim};
use crate::controllers::attach::step::MOST_REFUSALS;

/// Enough for the refusals and then for each disk alone.
fn settle(sim: &mut Sim) {
    sim.settle();
    sim.settle();
}

/// Machine `a` has `vol-1`, and was refused `vol-2` for a long time.
fn beside_a_refused_disk(subresources: bool) -> Sim {
    let mut sim = Sim::new();
    sim.subresources = subresources;
    sim.publish("vol-1", "a", false).unwrap();
    sim.settle();
    sim.act(Op::Refuse(1, true));
    sim.publish("vol-2", "a", false).unwrap();
    settle(&mut sim);
    sim
}

#[test]
fn release_is_not_held_up_by_a_disk_that_is_refused_again_and_again() {
    for subresources in [false, true] {
        let mut sim = beside_a_refused_disk(subresources);
        sim.act(Op::Unpublish(0, Some(0)));
        settle(&mut sim);
        assert!(sim.truth.volumes["vol-1"].holders.held.is_empty());
        sim.publish("vol-1", "b", false).unwrap();
        settle(&mut sim);
        assert!(sim.truth.is_attached("vol-1", "b"));
        assert!(!sim.truth.has("vol-2", "a"), "it is refused");
    }
}

#[test]
fn volume_that_left_by_itself_is_released_while_the_machine_waits_after_a_refusal() {
    let mut sim = beside_a_refused_disk(false);
    // Somebody takes the disk out, so that no write of ours is needed.
    sim.act(Op::Unpublish(0, Some(0)));
    sim.act(Op::TakeAway(0, 0));
    for _ in 0..3 {
        sim.act(Op::KubeVirt(0));
    }
    (0..3).for_each(|kind| sim.act(Op::Catch(kind)));
    sim.list_due();
    sim.act(Op::Ask(0));
    assert!(sim.truth.volumes["vol-1"].holders.held.is_empty());
}

#[test]
fn refused_disk_keeps_no_other_from_being_attached_and_is_told() {
    for subresources in [false, true] {
        let mut sim = Sim::new();
        sim.subresources = subresources;
        sim.act(Op::Refuse(1, true));
        for id in ["vol-1", "vol-2", "vol-3"] {
            sim.publish(id, "a", false).unwrap();
        }
        settle(&mut sim);
        assert!(sim.truth.is_attached("vol-1", "a"));
        assert!(sim.truth.is_attached("vol-3", "a"));
        let complaints: Vec<_> = sim.memory.complaints().collect();
        let [(machine, complaints)] = complaints.as_slice() else {
            panic!("of one machine: {complaints:?}");
        };
        assert_eq!(*machine, "a");
        let told: Vec<_> = complaints.iter().collect();
        assert_eq!(told, [(&"vol-2".to_owned(), &"no".to_owned())]);
        // As soon as it is taken it comes, and nothing is left to tell.
        sim.act(Op::Refuse(1, false));
        settle(&mut sim);
        assert!(sim.truth.is_attached("vol-2", "a"));
        assert_eq!(sim.memory.complaints().count(), 0);
    }
}

#[test]
fn what_is_refused_fewer_times_is_not_taken_apart() {
    let mut sim = Sim::new();
    sim.act(Op::Refuse(1, true));
    for id in ["vol-1", "vol-2", "vol-3"] {
        sim.publish(id, "a", false).unwrap();
    }
    for _ in 1..MOST_REFUSALS {
        sim.round();
    }
    assert_eq!(sim.writes, 0, "it is refused as one");
    sim.act(Op::Refuse(1, false));
    settle(&mut sim);
    assert_eq!(sim.writes, 1, "three disks are one write");
}

#[test]
fn volume_stays_held_while_a_write_that_nobody_answered_may_arrive() {
    let mut sim = Sim::new();
    sim.settle();
    sim.publish("vol-1", "a", false).unwrap();
    sim.act(Op::Work(0));
    sim.act(Op::Work(1));
    sim.act(Op::Silence(0));
    sim.act(Op::Unpublish(0, Some(0)));
    sim.list_due();
    sim.act(Op::Ask(0));
    sim.act(Op::Arrive(0));
    sim.check();
    assert!(sim.truth.has("vol-1", "a"), "it arrived after all");
    settle(&mut sim);
    assert!(!sim.truth.has("vol-1", "a"));
    assert!(sim.truth.volumes["vol-1"].holders.held.is_empty());
}

#[test]
fn machine_that_is_gone_holds_nothing_in_the_end() {
    let mut sim = Sim::new();
    sim.publish("vol-1", "a", false).unwrap();
    sim.settle();
    // Nobody ever detaches it.
    sim.act(Op::DeleteMachine(0));
    sim.settle();
    let holders = &sim.truth.volumes["vol-1"].holders;
    assert_eq!((holders.wanted.len(), holders.held.len()), (0, 0));
    sim.publish("vol-1", "b", false).unwrap();
    sim.settle();
    assert!(sim.truth.is_attached("vol-1", "b"));
}
