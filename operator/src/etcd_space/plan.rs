//! Relieves an etcd whose database is full, or of a single member close to it: what was overwritten and deleted is
//! dropped, files are written anew without it, and the alarm is taken away once that was enough.
//!
//! There is no phase: each step follows from what members say of themselves.
//! Invariant: an alarm is taken away only while every member that answers, a majority of all, has a tenth of its
//! most bytes left: etcd would raise it again otherwise, and in between tell clients that a write failed which
//! it had made.

use std::collections::BTreeMap;

use super::level::{is_fragmented, uses};
use crate::tenant_session::etcd::answers::{Alarm, MemberStatus};

/// Of a hundred: a database that is smaller may take writes.
const MOST: u64 = 90;

/// Everything that it is decided by.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// How many members there are to be.
    pub wanted: usize,
    /// What members say of themselves, by name; none of one that does not answer.
    pub members: BTreeMap<&'a str, &'a MemberStatus>,
    /// Whether all that can be dropped was, a moment ago.
    pub is_compacted: bool,
}

/// What is to be done now: one thing, after which everything is looked at again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Drop what is older than this revision.
    Compact {
        /// The newest one.
        revision: i64,
    },
    /// Write a member's file anew without what is free in it, unless that goes on already. The member answers
    /// nobody meanwhile.
    Defragment {
        /// Its name.
        member: String,
    },
    /// Take away the alarm that a member raised.
    Disarm {
        /// Its identifier.
        id: String,
    },
}

/// What is to be done, or what it waits for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Next {
    /// No alarm is raised, or nobody says so, or members have different data, and etcd refuses all of it.
    Nothing,
    /// This.
    Step(Step),
    /// Too few members answer.
    TooFew,
    /// More than nine tenths are in use: somebody has to delete something, or give it more room.
    IsFull,
}

/// Whether writing files anew would not help, because too much is in use once all was dropped that can be. The
/// member is asked that was to drop it, which is the one that leads: all have the same data, and the others say
/// what is in use as it was until they write again, which a full one may not (bbolt counts when it commits).
pub fn is_full<'a>(members: impl Iterator<Item = &'a MemberStatus>) -> bool {
    let asked = members.min_by_key(|member| (!leads(member), member.size_in_use));
    asked.is_some_and(|member| uses(member.size_in_use, member.quota, MOST))
}

fn leads(member: &MemberStatus) -> bool {
    member.leader.as_ref() == Some(&member.member_id)
}

/// A single member has nobody to serve while it starts, so it writes its file anew while it runs, and only where
/// it would be full otherwise: requests wait meanwhile.
fn alone(facts: &Facts<'_>) -> Next {
    let close = facts.members.iter();
    let mut close = close.filter(|(_, member)| uses(member.size, member.quota, 80));
    match close.next() {
        Some((name, member)) if facts.wanted == 1 && is_fragmented(member) => {
            Next::Step(Step::Defragment {
                member: (*name).to_owned(),
            })
        }
        _ => Next::Nothing,
    }
}

/// The next step.
#[must_use]
pub fn next(facts: &Facts<'_>) -> Next {
    let raised = || facts.members.values().flat_map(|member| &member.no_space);
    let is_raised = |member: &&MemberStatus| member.alarms.contains(&Alarm::NoSpace);
    let is_corrupt = |member: &&MemberStatus| member.alarms.contains(&Alarm::Corrupt);
    if facts.members.values().any(is_corrupt) {
        return Next::Nothing;
    }
    if !facts.members.values().any(is_raised) {
        return alone(facts);
    }
    if facts.members.len() * 2 <= facts.wanted {
        return Next::TooFew;
    }
    let newest = facts.members.values().map(|member| member.revision).max();
    if !facts.is_compacted {
        let revision = newest.unwrap_or_default();
        return Next::Step(Step::Compact { revision });
    }
    let full = facts.members.iter();
    let mut full: Vec<_> = full
        .filter(|(_, member)| uses(member.size, member.quota, MOST))
        .collect();
    if !full.is_empty() && is_full(facts.members.values().copied()) {
        return Next::IsFull;
    }
    // The one that leads last: while it answers nobody, nothing is written.
    full.sort_by_key(|(_, member)| leads(member));
    match (full.first(), raised().min()) {
        (Some((name, _)), _) => Next::Step(Step::Defragment {
            member: (**name).to_owned(),
        }),
        (None, Some(id)) => Next::Step(Step::Disarm { id: id.clone() }),
        // Nobody says whose it is.
        (None, None) => Next::TooFew,
    }
}
