//! What there is to be done about each member.
//!
//! Invariant: what is lost is lost for certain: a member that is away, or not seen, is not.

use kit_objects::known::Known;

use crate::etcd_replacement::facts::{Claim, Facts, MEMBERS, Refusal, Seat};
use crate::etcd_replacement::number::is_misplaced;

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
    /// etcd has it no more, it is not wanted, and the status knows it.
    Dropped,
    /// It is not wanted, and never was one or is none any more; its claim is left.
    Left,
    /// It serves with all of its data, on a volume of another class than is wanted, and others can do without it.
    Misplaced {
        /// Its identifier.
        id: &'a str,
    },
    /// It is not wanted.
    Surplus {
        /// Its identifier.
        id: &'a str,
        /// Whether it votes.
        votes: bool,
        /// Whether it runs.
        alive: bool,
        /// Whether its data goes with its pod.
        goes: bool,
    },
    /// It votes, and its data is lost; or it is to have another volume.
    Lost {
        /// Its identifier.
        id: &'a str,
        /// Whether it runs all the same.
        alive: bool,
    },
}

/// What there is to be done about a member; none where all is well, or not known. `repairs`: a member that stays is
/// lost, so that those that are too many are kept up until it is replaced.
pub(super) fn due_of<'a>(facts: &'a Facts, seat: &Seat, repairs: bool) -> Option<Due<'a>> {
    let stays = seat.wanted || (repairs && facts.recorded(seat).is_some());
    if !stays {
        return of_unwanted(facts, seat);
    }
    let Some(entry) = facts.entry(seat) else {
        return Some(Due::Unlisted);
    };
    let id = entry.id.as_str();
    if entry.is_learner {
        return Some(Due::Learner(id));
    }
    let alive = facts.is_alive(seat, id);
    // One that is being stopped is not one that came back.
    let counts = alive || facts.is_to_be_stopped(seat);
    let recorded = facts.recorded(seat);
    let is_recorded = recorded.is_some_and(|r| r.id.as_deref() == Some(id));
    // What was added is not what was slow.
    let is_whole = is_recorded && recorded.is_some_and(|r| r.started && !r.learner);
    let is_slow = || facts.slow.as_ref() == Some(&seat.name) && may_be_slow(facts, seat);
    let is_odd = facts.odd.as_ref() == Some(&seat.name);
    let is_seen = !matches!(seat.claim, Known::Unknown { .. });
    if is_seen && (is_odd || (counts && is_whole && is_slow())) {
        return Some(Due::Lost { id, alive });
    }
    // Nobody else has what one has that votes alone.
    let voters = facts.listed.iter().flatten().filter(|e| !e.is_learner);
    let lost = Some(Due::Lost { id, alive }).filter(|_| voters.count() > 1);
    match &seat.claim {
        Known::Unknown { .. } => None,
        Known::Absent => lost,
        Known::Known(claim) if claim.terminating => lost,
        Known::Known(claim) => {
            let is_same = recorded.is_some_and(|r| r.volume_uid == claim.uid);
            match (is_same, is_recorded) {
                // It was stopped to be moved.
                (true, true) if !alive && counts && is_misplaced(facts.class.as_ref(), claim) => {
                    misplaced(facts, claim, id)
                }
                // Its data is where it runs.
                _ if alive && runs_on(seat, claim)? => {
                    let is_whole = recorded.is_some_and(|r| r.started && !r.learner);
                    let all = is_same && is_recorded && is_whole;
                    match all {
                        true => misplaced(facts, claim, id),
                        false => Some(Due::Unrecorded(id)),
                    }
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

/// Of three members one may go for a while, of two none.
fn misplaced<'a>(facts: &'a Facts, claim: &Claim, id: &'a str) -> Option<Due<'a>> {
    let differs = is_misplaced(facts.class.as_ref(), claim);
    let voters = facts.listed.iter().flatten().filter(|e| !e.is_learner);
    (differs && voters.count() >= MEMBERS).then_some(Due::Misplaced { id })
}

/// Whether one is replaced for its slow disk now: where nobody wants that it goes on as it is.
fn may_be_slow(facts: &Facts, seat: &Seat) -> bool {
    let last = facts.last_replacement();
    let is_long_ago = || last.is_none_or(|last| facts.elapsed(last) >= facts.patience.between_slow);
    facts.is_replacing(seat) || (facts.may_begin && is_long_ago())
}

fn of_unwanted<'a>(facts: &'a Facts, seat: &Seat) -> Option<Due<'a>> {
    if let Some(entry) = facts.entry(seat) {
        return Some(Due::Surplus {
            id: &entry.id,
            votes: !entry.is_learner,
            alive: facts.is_alive(seat, &entry.id),
            goes: is_going(facts, seat),
        });
    }
    if facts.recorded(seat).is_some() {
        return Some(Due::Dropped);
    }
    match &seat.claim {
        Known::Known(claim) if !claim.kept && !claim.terminating => Some(Due::Left),
        Known::Known(_) | Known::Absent | Known::Unknown { .. } => None,
    }
}

/// Whether its data goes with its pod, for certain.
fn is_going(facts: &Facts, seat: &Seat) -> bool {
    match &seat.claim {
        Known::Known(claim) => {
            let recorded = facts.recorded(seat);
            claim.terminating || recorded.is_some_and(|r| r.volume_uid != claim.uid)
        }
        Known::Absent => true,
        Known::Unknown { .. } => false,
    }
}

/// What the start gate says, for certain of this volume and of what the member is now.
pub(super) fn refusal(facts: &Facts, seat: &Seat) -> Option<Refusal> {
    match &seat.pod {
        Known::Known(pod) if !pod.terminating => {
            let is_of_before = facts.is_stale(pod) && !facts.is_to_be_stopped(seat);
            pod.refusal.filter(|_| !is_of_before)
        }
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
