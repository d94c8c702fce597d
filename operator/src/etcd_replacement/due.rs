//! What there is to be done about each member.
//!
//! Invariant: what is lost is lost for certain: a member that is away, or not seen, is not.

use kit_objects::known::Known;

use crate::etcd_replacement::facts::{Claim, Facts, Refusal, Seat};

/// What there is to be done about a member. What comes first is done first: votes are given before any is
/// taken, and etcd takes one learner at a time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Due<'a> {
    /// It serves, and the status does not know all of it yet.
    Unrecorded(&'a str),
    /// It was added, and has no vote yet.
    Learner(&'a str),
    /// etcd does not have it.
    Unlisted,
    /// It votes, and its data is lost.
    Lost {
        /// Its identifier.
        id: &'a str,
        /// Whether it runs all the same.
        alive: bool,
    },
}

/// What there is to be done about a member; none where all is well, or not known.
pub(super) fn due_of<'a>(facts: &'a Facts, seat: &Seat) -> Option<Due<'a>> {
    let Some(entry) = facts.entry(seat) else {
        return Some(Due::Unlisted);
    };
    let id = entry.id.as_str();
    if entry.is_learner {
        return Some(Due::Learner(id));
    }
    let alive = facts.is_alive(seat, id);
    let recorded = facts.recorded(seat);
    let is_recorded = recorded.is_some_and(|r| r.id.as_deref() == Some(id));
    if facts.odd.as_ref() == Some(&seat.name) {
        return Some(Due::Lost { id, alive });
    }
    let lost = Some(Due::Lost { id, alive });
    match &seat.claim {
        Known::Unknown { .. } => None,
        Known::Absent => lost,
        Known::Known(claim) if claim.terminating => lost,
        Known::Known(claim) => {
            let is_same = recorded.is_some_and(|r| r.volume_uid == claim.uid);
            match (is_same, is_recorded) {
                // Its data is where it runs.
                _ if alive && runs_on(seat, claim)? => {
                    let is_whole = recorded.is_some_and(|r| r.started && !r.learner);
                    let all = is_same && is_recorded && is_whole;
                    (!all).then_some(Due::Unrecorded(id))
                }
                // It says itself that it is this member, though it is not ready.
                _ if !alive && facts.says(seat, id).is_some() => None,
                // It has not been seen yet: it may start for the first time.
                _ if is_same && recorded.is_some_and(|r| r.id.is_none()) => None,
                (true, true) => lost.filter(|_| refusal(facts, seat) == Some(Refusal::Lost)),
                _ => lost,
            }
        }
    }
}

/// What the start gate says, for certain of this volume and of what the member is now.
pub(super) fn refusal(facts: &Facts, seat: &Seat) -> Option<Refusal> {
    match &seat.pod {
        Known::Known(pod) if !pod.terminating && !facts.is_stale(pod) => pod.refusal,
        _ => None,
    }
}

/// Whether its pod is younger than the claim, and has no older one that only had the name; none where that is
/// not known.
fn runs_on(seat: &Seat, claim: &Claim) -> Option<bool> {
    match &seat.pod {
        Known::Known(pod) => Some(pod.created? >= claim.created?),
        Known::Absent => Some(false),
        Known::Unknown { .. } => None,
    }
}
