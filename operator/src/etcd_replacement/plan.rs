//! Replaces one member of three that lost its data: it is removed, and an empty one is added in its place as
//! a learner, which has no vote until it has everything (`docs/etcd.md`). Where another number of members is wanted,
//! those that are missing are added in the same way, one after another, and those that are too many are removed, the
//! last first.
//!
//! There is no phase: each step follows from etcd's own list of members, the claims and the pods. What cannot
//! be seen again (whose data a claim has, which pod is older than that, when the last one was replaced) is in
//! the status before anything depends on it.
//! Invariant: a member that votes is removed only while all others serve, and never two at once; a claim is deleted only if the
//! status knows it as that of a member that etcd has no more; what is unknown is waited for.

use std::cmp::Reverse;

use api::tenant_cluster::EtcdStatus;
use kit_objects::known::Known;

use crate::etcd_replacement::due::{Due, due_of};
use crate::etcd_replacement::facts::{Facts, MEMBERS, Seat, is_of};
use crate::etcd_replacement::step::{Next, Step};
use crate::etcd_replacement::wait::{Slow, Wait};
use crate::etcd_replacement::{record, steps};
use crate::tenant_session::etcd::answers::ListedMember;

/// The next step.
#[must_use]
pub fn next(facts: &Facts) -> Next {
    let Some(listed) = &facts.listed else {
        return Next::default();
    };
    if facts.known.cluster_id.is_none() || facts.seats.len() != MEMBERS {
        return Next::default();
    }
    let mut seats = facts.seats.iter();
    if let Some(seat) = seats.find(|seat| is_foreign(facts, seat)) {
        return Next::wait(seat, Wait::Foreign);
    }
    if let Some(entry) = listed.iter().find(|entry| !has_one_seat(facts, entry)) {
        return Next {
            wait: Some(Wait::Stranger {
                id: entry.id.clone(),
            }),
            ..Next::default()
        };
    }
    // Whoever is too many is needed while one that stays is lost.
    let is_lost = |seat: &Seat| matches!(due_of(facts, seat, false), Some(Due::Lost { .. }));
    let repairs = facts.seats.iter().any(|seat| seat.wanted && is_lost(seat));
    if let Some(seat) = facts
        .seats
        .iter()
        .find(|seat| is_over(facts, seat, repairs))
    {
        return Next::step(seat, Step::Record(record::served(facts, seat)));
    }
    let due = facts.seats.iter();
    let due = due.filter_map(|seat| Some((due_of(facts, seat, repairs)?, seat)));
    let first = due.min_by_key(|(due, seat)| {
        let turn = match due {
            Due::Unrecorded(_) => 0,
            Due::Learner(_) => 1,
            // etcd takes no other learner beside it.
            Due::Surplus { votes: false, .. } => 1,
            Due::Dropped => 2,
            Due::Unlisted => 3,
            // Where one serves on and another one does not, the first is needed for the second.
            Due::Lost { alive: false, .. } => 4,
            Due::Lost { alive: true, .. } => 5,
            Due::Left => 6,
            Due::Misplaced { .. } => 7,
            Due::Surplus { alive: false, .. } => 8,
            // The next one is removed while all that are left serve.
            Due::Surplus { goes: true, .. } => 9,
            Due::Surplus { .. } => 10,
        };
        let is_surplus = matches!(due, Due::Surplus { .. });
        let from_the_end = if is_surplus { number(facts, seat) } else { 0 };
        // One that joins names those that the status knows, so they come before others.
        let is_new = facts.recorded(seat).is_none();
        (
            turn,
            !facts.is_replacing(seat),
            is_new,
            Reverse(from_the_end),
        )
    });
    match first {
        Some((due, seat)) => steps::of(facts, seat, due),
        None => ended(facts),
    }
}

fn number(facts: &Facts, seat: &Seat) -> usize {
    let mut names = facts.seats.iter().map(|other| &other.name);
    names.position(|name| *name == seat.name).unwrap_or(0)
}

/// Whether a member that was begun to be replaced serves, for certain, and nothing is to be done about it any more: no
/// kube-apiserver leaves out others while a replacement of one that stays goes on.
fn is_over(facts: &Facts, seat: &Seat, repairs: bool) -> bool {
    let votes = || facts.entry(seat).is_some_and(|entry| !entry.is_learner);
    seat.wanted
        && facts.is_replacing(seat)
        && matches!(seat.claim, Known::Known(_))
        && votes()
        && serves(facts, seat)
        && due_of(facts, seat, repairs).is_none()
}

/// The replacement that the status tells of is over once there is nothing to be done about anybody.
fn ended(facts: &Facts) -> Next {
    if facts.known.replacing.is_none() {
        return Next::default();
    }
    let mut wanted = facts.seats.iter().filter(|seat| seat.wanted);
    let Some(seat) = wanted.find(|seat| facts.is_replacing(seat)) else {
        // Of a member that is not wanted.
        return Next {
            step: Some(Step::Record(EtcdStatus {
                replacing: None,
                ..facts.known.clone()
            })),
            ..Next::default()
        };
    };
    match serves(facts, seat) {
        true => Next::step(seat, Step::Record(record::served(facts, seat))),
        false => steps::waits(facts, seat, Slow::Starting),
    }
}

/// Whether what listens for it is the member that etcd knows of it.
fn serves(facts: &Facts, seat: &Seat) -> bool {
    let entry = facts.entry(seat);
    entry.is_some_and(|entry| facts.is_alive(seat, &entry.id))
}

/// Whether it says that it is of another cluster.
fn is_foreign(facts: &Facts, seat: &Seat) -> bool {
    let answer = seat.answer.as_ref();
    answer.is_some_and(|answer| Some(&answer.cluster_id) != facts.known.cluster_id.as_ref())
}

/// Whether it is of one of the members that are wanted, and of no other entry's.
fn has_one_seat(facts: &Facts, entry: &ListedMember) -> bool {
    let of_seat = |seat: &&Seat| is_of(entry, seat);
    let mut seats = facts.seats.iter().filter(of_seat);
    let (Some(seat), None) = (seats.next(), seats.next()) else {
        return false;
    };
    let listed = facts.listed.iter().flatten();
    listed.filter(|entry| is_of(entry, seat)).count() == 1
}
