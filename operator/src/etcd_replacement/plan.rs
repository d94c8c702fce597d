//! Replaces one member of three that lost its data: it is removed, and an empty one is added in its place as
//! a learner, which has no vote until it has everything (`docs/etcd.md`).
//!
//! There is no phase: each step follows from etcd's own list of members, the claims and the pods. What cannot
//! be seen again (whose data a claim has, which pod is older than that, when the last one was replaced) is in
//! the status before anything depends on it.
//! Invariant: a member that votes is removed only while the two others serve; a claim is deleted only if the
//! status knows it as that of a member that etcd has no more; what is unknown is waited for.

use api::tenant_cluster::EtcdStatus;

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
    let due = facts.seats.iter();
    let due = due.filter_map(|seat| Some((due_of(facts, seat)?, seat)));
    let first = due.min_by_key(|(due, seat)| {
        let turn = match due {
            Due::Unrecorded(_) => 0,
            Due::Learner(_) => 1,
            Due::Unlisted => 2,
            // Where one serves on and another one does not, the first is needed for the second.
            Due::Lost { alive: false, .. } => 3,
            Due::Lost { alive: true, .. } => 4,
        };
        (turn, !facts.is_replacing(seat))
    });
    match first {
        Some((due, seat)) => steps::of(facts, seat, due),
        None => ended(facts),
    }
}

/// The replacement that the status tells of is over once there is nothing to be done about anybody.
fn ended(facts: &Facts) -> Next {
    if facts.known.replacing.is_none() {
        return Next::default();
    }
    let Some(seat) = facts.seats.iter().find(|seat| facts.is_replacing(seat)) else {
        // Of a member that is not wanted.
        return Next {
            step: Some(Step::Record(EtcdStatus {
                replacing: None,
                ..facts.known.clone()
            })),
            ..Next::default()
        };
    };
    match facts
        .entry(seat)
        .is_some_and(|e| facts.is_alive(seat, &e.id))
    {
        true => Next::step(seat, Step::Record(record::served(facts, seat))),
        false => steps::waits(facts, seat, Slow::Starting),
    }
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
