//! The step that follows for one member, from what there is of it.
//!
//! Invariant: whatever was done and is not known to have been done is seen before it is done again.

use std::time::Duration;

use kit_objects::known::Known;

use crate::etcd_replacement::due::{Due, refusal};
use crate::etcd_replacement::facts::{Claim, Facts, Pod, Refusal, Seat, is_of};
use crate::etcd_replacement::record::{
    added, adopted, begun, served, to_be_stopped, with, without,
};
use crate::etcd_replacement::step::{Next, Step};
use crate::etcd_replacement::wait::{Slow, Wait};
use crate::tenant_session::etcd::answers::MemberStatus;

/// A member that is further behind than so many entries does not count as one that serves.
const MOST_BEHIND: u64 = 1000;

/// What is waited for ends by itself, or is told to people: nothing is done over and over that did not help
/// once.
pub(super) fn of(facts: &Facts, seat: &Seat, due: Due<'_>) -> Next {
    let next = step_or_wait(facts, seat, due);
    match next.wait {
        Some(Wait::Member(slow)) => waits(facts, seat, slow),
        _ => next,
    }
}

/// Waits for something that goes by itself, and tells people if it does not.
pub(super) fn waits(facts: &Facts, seat: &Seat, slow: Slow) -> Next {
    match is_overdue(facts, seat) {
        true => Next::wait(seat, Wait::Overdue(slow)),
        false => Next::wait(seat, Wait::Member(slow)),
    }
}

/// Whether it was begun to be replaced, or was added, a long time ago.
fn is_overdue(facts: &Facts, seat: &Seat) -> bool {
    let since = facts
        .last_replacement()
        .filter(|_| facts.is_replacing(seat));
    since.is_some_and(|since| facts.elapsed(since) >= facts.patience.overdue)
}

fn step_or_wait(facts: &Facts, seat: &Seat, due: Due<'_>) -> Next {
    match due {
        Due::Unrecorded(id) => {
            let status = match facts.is_replacing(seat) {
                true => served(facts, seat),
                false => adopted(facts, seat, id),
            };
            Next::step(seat, Step::Record(status))
        }
        Due::Lost { id, alive } => lost(facts, seat, (id, alive), facts.may_begin),
        // The user asked for it, whether or not one that is lost is replaced by itself.
        Due::Misplaced { id } => misplaced(facts, seat, id),
        // Somebody took it away, or we did and it is not known any more.
        Due::Unlisted | Due::Learner(_) if !facts.is_replacing(seat) => begin(facts, seat, due),
        Due::Dropped if !are_seen(facts) => Next::wait(seat, Wait::Member(Slow::Unseen)),
        Due::Dropped => Next::step(seat, Step::Record(without(facts, seat))),
        Due::Left => left(seat),
        Due::Surplus { id, votes, .. } => surplus(facts, seat, (id, votes)),
        Due::Unlisted => left_out(facts, seat).unwrap_or_else(|| unlisted(facts, seat)),
        Due::Learner(id) => left_out(facts, seat).unwrap_or_else(|| learner(facts, seat, id)),
    }
}

/// One that is to become a member, or again.
fn begin(facts: &Facts, seat: &Seat, due: Due<'_>) -> Next {
    let is_new = facts.recorded(seat).is_none();
    let may_begin = if is_new {
        facts.may_resize
    } else {
        facts.may_begin
    };
    if !may_begin {
        return Next::wait(seat, not_allowed(is_new));
    }
    if is_new && due == Due::Unlisted {
        // What goes on comes first (operations.md §1.2, law 5), but two are not left at two for it.
        let votes = facts.listed.iter().flatten().filter(|e| !e.is_learner);
        if !facts.is_calm && votes.count() == 1 {
            return Next::wait(seat, Wait::Busy);
        }
        if let Some(next) = missing(facts, seat) {
            return next;
        }
        if voters(facts, seat).is_none() {
            return Next::wait(seat, Wait::Stays);
        }
    }
    Next::step(seat, Step::Record(begun(facts, seat)))
}

/// What is missing before one is added. With one that votes beside one, both are needed: that is to be short, so nothing
/// of those that are to come may be missing then.
fn missing(facts: &Facts, seat: &Seat) -> Option<Next> {
    let is_to_come = |other: &&Seat| {
        other.wanted && facts.recorded(other).is_none() && facts.entry(other).is_none()
    };
    facts.seats.iter().filter(is_to_come).find_map(|other| {
        let has_pod = matches!(other.pod, Known::Known(_));
        match &other.claim {
            Known::Known(claim) if claim.terminating => Some(let_go(other)),
            Known::Known(claim) if claim.kept => Some(retire(other, claim)),
            Known::Known(claim) if claim.volume.is_some() && has_pod => None,
            Known::Known(_) | Known::Absent => Some(Next::wait(seat, Wait::Claims)),
            Known::Unknown { .. } => Some(Next::wait(seat, Wait::Member(Slow::Unseen))),
        }
    })
}

fn not_allowed(is_new: bool) -> Wait {
    match is_new {
        true => Wait::Busy,
        false => Wait::NotAllowed,
    }
}

/// Whether it is known of every claim what there is of it: of those that are not seen one may be lost, and then those
/// that are too many are needed.
fn are_seen(facts: &Facts) -> bool {
    let is_seen = |seat: &Seat| !matches!(seat.claim, Known::Unknown { .. });
    facts.seats.iter().all(is_seen)
}

/// The claim of one that is not wanted, and has none of etcd's data that counts.
fn left(seat: &Seat) -> Next {
    match &seat.claim {
        Known::Known(claim) => Next::step(
            seat,
            Step::Keep {
                member: seat.name.clone(),
                claim_uid: claim.uid.clone(),
                volume: claim.volume.clone(),
            },
        ),
        Known::Absent | Known::Unknown { .. } => Next::wait(seat, Wait::Member(Slow::Unseen)),
    }
}

/// One that is not wanted, and that etcd has.
fn surplus(facts: &Facts, seat: &Seat, (id, votes): (&str, bool)) -> Next {
    if !facts.may_resize {
        return Next::wait(seat, Wait::Busy);
    }
    if !are_seen(facts) {
        return Next::wait(seat, Wait::Member(Slow::Unseen));
    }
    let Some(answers) = voters(facts, seat) else {
        return Next::wait(seat, Wait::Stays);
    };
    if !votes {
        return Next::step(seat, Step::Remove { id: id.to_owned() });
    }
    if !facts.is_unasked {
        return Next::wait(seat, Wait::Asked);
    }
    let last = facts.last_replacement();
    let is_calm = last.is_none_or(|last| facts.elapsed(last) >= facts.patience.shrinking);
    if !is_calm || !have_served(facts, seat, facts.patience.shrinking) {
        return Next::wait(seat, Wait::Calm);
    }
    // The first one stays.
    let stays = facts.seats.first().and_then(|first| facts.entry(first));
    let Some(stays) = stays.filter(|stays| !stays.is_learner) else {
        return Next::wait(seat, Wait::Stays);
    };
    let leads = answers.first().and_then(|answer| answer.leader.as_deref());
    if leads == Some(stays.id.as_str()) {
        return Next::step(seat, Step::Remove { id: id.to_owned() });
    }
    // One that is gone a moment ago hands nothing over; the others choose.
    let leads = |other: &&Seat| {
        let entry = facts.entry(other);
        entry.is_some_and(|e| Some(e.id.as_str()) == leads && facts.is_alive(other, &e.id))
    };
    match facts.seats.iter().find(leads) {
        Some(leads) => Next::step(
            seat,
            Step::MoveLeader {
                from: leads.name.clone(),
                to: stays.id.clone(),
            },
        ),
        None => Next::wait(seat, Wait::Stays),
    }
}

/// One that is to have a volume of another class.
fn misplaced(facts: &Facts, seat: &Seat, id: &str) -> Next {
    match &facts.set {
        Known::Known(set) if set.class == facts.class => lost(
            facts,
            seat,
            (id, facts.is_alive(seat, id)),
            facts.may_resize,
        ),
        // What makes its claim anew would make it as it was.
        Known::Known(set) if facts.may_resize => Next::step(
            seat,
            Step::Release {
                set_uid: set.uid.clone(),
            },
        ),
        Known::Known(_) | Known::Absent | Known::Unknown { .. } => Next::wait(seat, Wait::Busy),
    }
}

/// One that votes, and whose data is lost, or is where it is not to be.
fn lost(facts: &Facts, seat: &Seat, (id, alive): (&str, bool), may_begin: bool) -> Next {
    if !alive && !facts.is_to_be_stopped(seat) && !is_absent_for_long(facts, seat) {
        return Next::wait(seat, Wait::Absence);
    }
    let others = voters(facts, seat);
    let Some(answers) = others.as_ref().filter(|others| others.len() >= 2) else {
        return Next::wait(seat, Wait::Others);
    };
    if !have_served(facts, seat, facts.patience.steady) {
        return Next::wait(seat, Wait::Others);
    }
    // One that was added a moment ago, and is lost again, is another one.
    let is_another = facts.recorded(seat).is_some_and(|r| r.learner);
    if !facts.is_replacing(seat) || is_another {
        if !may_begin {
            return Next::wait(seat, Wait::NotAllowed);
        }
        let last = facts.last_replacement();
        if last.is_some_and(|last| facts.elapsed(last) < facts.patience.between) {
            return Next::wait(seat, Wait::Pause);
        }
        let mut status = begun(facts, seat);
        for member in status.members.iter_mut().filter(|m| m.name == seat.name) {
            member.learner = false;
        }
        return Next::step(seat, Step::Record(status));
    }
    let leads = answers.iter().any(|a| a.leader.as_deref() == Some(id));
    if !leads {
        let stops = stop(facts, seat, (id, alive));
        return stops.unwrap_or_else(|| Next::step(seat, Step::Remove { id: id.to_owned() }));
    }
    let best = answers.iter().max_by_key(|answer| answer.applied);
    match best.filter(|_| alive) {
        Some(best) => Next::step(
            seat,
            Step::MoveLeader {
                from: seat.name.clone(),
                to: best.member_id.clone(),
            },
        ),
        // They are about to choose another one.
        None => Next::wait(seat, Wait::Others),
    }
}

/// One that serves is stopped before it is removed: a process that stops answers what it was asked, and one that is removed
/// does not (`server/etcdserver/server.go`, `applyConfChange`). None once it takes no more requests, which is before its
/// process ends (`server/embed/etcd.go`, `stopServers`): the next one would take some again.
fn stop(facts: &Facts, seat: &Seat, (id, alive): (&str, bool)) -> Option<Next> {
    let Known::Known(pod) = &seat.pod else {
        return None;
    };
    if !facts.is_stale(pod) {
        let is_new = alive && !facts.is_to_be_stopped(seat);
        let noted = || Step::Record(to_be_stopped(facts, seat, Some(pod)));
        return is_new.then(|| Next::step(seat, noted()));
    }
    let since = facts.last_replacement();
    let is_long = since.is_some_and(|since| facts.elapsed(since) >= facts.patience.absent);
    match pod.terminating {
        false => Some(restart(seat, pod)),
        true if is_long || facts.says(seat, id).is_none() => None,
        true => Some(Next::wait(seat, Wait::Member(Slow::Going))),
    }
}

/// Another member that the status knows and etcd does not have, while this one has not joined: that names all that the
/// status knows, and etcd refuses one that names others than it has (`server/etcdserver/api/membership/cluster.go`,
/// `ValidateClusterAndAssignIDs`). The other one is added after it.
fn left_out(facts: &Facts, seat: &Seat) -> Option<Next> {
    if facts.entry(seat).is_some() && facts.recorded(seat).is_some_and(|r| r.started) {
        return None;
    }
    let mut others = facts.seats.iter().filter(|other| other.name != seat.name);
    let other =
        others.find(|other| facts.recorded(other).is_some() && facts.entry(other).is_none())?;
    Some(Next::step(seat, Step::Record(without(facts, other))))
}

/// One that etcd does not have.
fn unlisted(facts: &Facts, seat: &Seat) -> Next {
    let Some(answers) = voters(facts, seat) else {
        return Next::wait(seat, Wait::Others);
    };
    let listed = || facts.listed.iter().flatten();
    let mut named = answers.iter().flat_map(|answer| &answer.corrupt);
    if let Some(id) = named.find(|id| !listed().any(|entry| entry.id == **id)) {
        return Next::step(seat, Step::Disarm { id: id.clone() });
    }
    let of_it = facts.recorded(seat).map(|r| r.volume_uid.as_str());
    if let Some(next) = missing(facts, seat).filter(|_| of_it.is_none()) {
        return next;
    }
    match &seat.claim {
        Known::Unknown { .. } => Next::wait(seat, Wait::Member(Slow::Unseen)),
        Known::Absent => make_claim(seat),
        Known::Known(claim) if claim.terminating => let_go(seat),
        Known::Known(claim) if claim.kept => retire(seat, claim),
        // What a member had that was removed is of no use to one that is added.
        Known::Known(claim) if of_it == Some(&claim.uid) => retire(seat, claim),
        Known::Known(_) => Next::step(
            seat,
            Step::AddLearner {
                peer_url: seat.peer_url.clone(),
            },
        ),
    }
}

/// One that was added, and has no vote yet.
fn learner(facts: &Facts, seat: &Seat, id: &str) -> Next {
    let recorded = facts.recorded(seat);
    let is_recorded = recorded.is_some_and(|r| r.id.as_deref() == Some(id));
    let of_it = recorded.map(|r| r.volume_uid.as_str());
    let again = || match voters(facts, seat) {
        Some(_) => Next::step(seat, Step::Remove { id: id.to_owned() }),
        None => Next::wait(seat, Wait::Others),
    };
    match &seat.claim {
        Known::Unknown { .. } => Next::wait(seat, Wait::Member(Slow::Unseen)),
        // It may have had data there, and etcd takes it for one that has it.
        Known::Absent if is_recorded => again(),
        Known::Absent => make_claim(seat),
        Known::Known(claim) if is_recorded && (claim.terminating || of_it != Some(&claim.uid)) => {
            again()
        }
        Known::Known(claim) if claim.terminating => let_go(seat),
        // Its claim was lost again, and what took its name began as what the one before was to be.
        Known::Known(_) if is_recorded && is_unusable(facts, seat) => again(),
        Known::Known(_) if is_recorded => catches_up(facts, seat, id),
        // Somebody added it where another one had been: it may have begun on what that one had.
        Known::Known(claim) if of_it == Some(&claim.uid) => again(),
        Known::Known(claim) => match pod(seat) {
            Ok(pod) => {
                let pod_uid = pod.map(|pod| pod.uid.clone());
                let status = added(facts, seat, (id, claim), pod_uid);
                Next::step(seat, Step::Record(status))
            }
            Err(wait) => Next::wait(seat, wait),
        },
    }
}

/// Whether the volume of a learner, which is new, is no good for it.
fn is_unusable(facts: &Facts, seat: &Seat) -> bool {
    match refusal(facts, seat) {
        Some(Refusal::Lost) => true,
        Some(Refusal::OfAnother) => facts.recorded(seat).is_some_and(|r| !r.started),
        Some(Refusal::Other) | None => false,
    }
}

/// A learner that the status knows.
fn catches_up(facts: &Facts, seat: &Seat, id: &str) -> Next {
    let pod = match pod(seat) {
        Ok(pod) => pod,
        Err(wait) => return Next::wait(seat, wait),
    };
    if let Some(pod) = pod.filter(|pod| facts.is_stale(pod)) {
        return match (pod.terminating, facts.is_told) {
            (true, _) => Next::wait(seat, Wait::Member(Slow::Going)),
            (false, true) => restart(seat, pod),
            (false, false) => Next::wait(seat, Wait::Member(Slow::Starting)),
        };
    }
    let Some(own) = facts.says(seat, id).filter(|_| facts.is_alive(seat, id)) else {
        return Next::wait(seat, Wait::Member(Slow::Starting));
    };
    let recorded = facts.recorded(seat);
    if recorded.is_some_and(|r| !r.started) {
        return Next::step(seat, Step::Record(with(facts, seat, |m| m.started = true)));
    }
    let Some(answers) = voters(facts, seat) else {
        return Next::wait(seat, Wait::Others);
    };
    // etcd's own measure (`server/etcdserver/server.go`, readyPercentThreshold).
    let newest = answers.iter().map(|answer| answer.index).max();
    match newest.is_some_and(|newest| own.applied >= newest - newest / 10) {
        true => Next::step(seat, Step::Promote { id: id.to_owned() }),
        false => Next::wait(seat, Wait::Member(Slow::CatchingUp)),
    }
}

fn make_claim(seat: &Seat) -> Next {
    Next::step(
        seat,
        Step::MakeClaim {
            member: seat.name.clone(),
        },
    )
}

fn restart(seat: &Seat, pod: &Pod) -> Next {
    Next::step(
        seat,
        Step::Restart {
            member: seat.name.clone(),
            pod_uid: pod.uid.clone(),
        },
    )
}

/// A claim that goes waits for the pod that uses it.
fn let_go(seat: &Seat) -> Next {
    match pod(seat) {
        Ok(Some(pod)) if !pod.terminating => restart(seat, pod),
        Ok(_) => Next::wait(seat, Wait::Member(Slow::Going)),
        Err(wait) => Next::wait(seat, wait),
    }
}

fn retire(seat: &Seat, claim: &Claim) -> Next {
    match pod(seat) {
        Ok(pod) => Next::step(
            seat,
            Step::Retire {
                member: seat.name.clone(),
                claim_uid: claim.uid.clone(),
                volume: claim.volume.clone(),
                pod_uid: pod.map(|pod| pod.uid.clone()),
            },
        ),
        Err(wait) => Next::wait(seat, wait),
    }
}

fn pod(seat: &Seat) -> Result<Option<&Pod>, Wait> {
    match &seat.pod {
        Known::Known(pod) => Ok(Some(pod)),
        Known::Absent => Ok(None),
        Known::Unknown { .. } => Err(Wait::Member(Slow::Unseen)),
    }
}

fn is_absent_for_long(facts: &Facts, seat: &Seat) -> bool {
    let Known::Known(pod) = &seat.pod else {
        return false;
    };
    let since = pod.since.or(pod.created);
    !pod.ready && since.is_some_and(|since| facts.elapsed(since) >= facts.patience.absent)
}

/// What all other members say that vote; none where one of them does not serve, or they know different
/// leaders.
fn voters<'a>(facts: &'a Facts, seat: &Seat) -> Option<Vec<&'a MemberStatus>> {
    let listed = facts.listed.iter().flatten();
    let mut answers = Vec::new();
    for entry in listed.filter(|entry| !entry.is_learner && !is_of(entry, seat)) {
        let other = facts.seats.iter().find(|other| is_of(entry, other))?;
        let answer = facts.says(other, &entry.id)?;
        if !facts.is_alive(other, &entry.id) || answer.is_learner {
            return None;
        }
        answers.push(answer);
    }
    let leader = answers.first().and_then(|first| first.leader.as_ref());
    let newest = answers.iter().map(|answer| answer.index).max()?;
    let agree = answers
        .iter()
        .all(|answer| answer.leader.as_ref() == leader && newest - answer.index < MOST_BEHIND);
    agree.then_some(answers)
}

/// Whether all others that vote have served for so long.
fn have_served(facts: &Facts, seat: &Seat, long: Duration) -> bool {
    let votes = |other: &&Seat| facts.entry(other).is_some_and(|entry| !entry.is_learner);
    let others = facts.seats.iter().filter(|other| other.name != seat.name);
    let mut others = others.filter(votes);
    others.all(|other| match &other.pod {
        Known::Known(pod) => pod.since.is_some_and(|since| facts.elapsed(since) >= long),
        Known::Absent | Known::Unknown { .. } => false,
    })
}
