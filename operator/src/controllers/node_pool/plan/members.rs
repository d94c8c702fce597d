//! How a Machine does, from its status and the time.
//!
//! Invariant: a Machine is lost by time only while the tenant's API answers, and no time counts in
//! which it did not: neither could have joined, nor be seen.

use std::time::Duration;

use api::condition::is_true;
use api::machine::MachinePhase;
use api::{ConditionType, Machine};
use jiff::{SignedDuration, Timestamp};

use crate::controllers::node_pool::observed::number;

/// How long a Machine may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From its creation until its node is ready.
    pub(super) join: Duration,
    /// A node that was ready may be not ready for so long.
    pub(super) not_ready: Duration,
    /// Since when the tenant's API answers; none while it does not.
    pub(super) answers_since: Option<Timestamp>,
}

/// How a Machine does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Health {
    /// Its node is ready.
    Ready,
    /// Its node is not ready for the first time yet, and has until then.
    Coming(Option<Timestamp>),
    /// Its node was ready and is not since the first time, and has until the second.
    Silent(Timestamp, Option<Timestamp>),
    /// It did not become a ready node in time.
    TooLate,
    /// Its node is not ready for too long, since then.
    Gone(Timestamp),
    /// The provider lost it: it will not come back.
    Failed,
}

impl Health {
    /// To be replaced.
    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::TooLate | Self::Gone(_) | Self::Failed)
    }

    /// When this is to be judged anew.
    pub(super) fn deadline(self) -> Option<Timestamp> {
        match self {
            Self::Coming(until) | Self::Silent(_, until) => until,
            Self::Ready | Self::TooLate | Self::Gone(_) | Self::Failed => None,
        }
    }
}

/// Whether its node was ready at some time.
pub(super) fn has_been_ready(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let phase = status.and_then(|s| s.phase);
    // What goes had whatever it had; a plan does not ask.
    phase == Some(MachinePhase::Running)
}

pub(super) fn is_ready(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    status.is_some_and(|s| is_true(&s.conditions, ConditionType::NodeReady))
}

/// Since when the node is known to be not ready; none when it is ready, or nobody knows.
pub(super) fn silent_since(machine: &Machine) -> Option<Timestamp> {
    let conditions = machine.status.as_ref()?.conditions.iter();
    let mut found = conditions.filter(|c| c.type_ == ConditionType::NodeReady.as_str());
    let condition = found.next().filter(|c| c.status == "False")?;
    Some(condition.last_transition_time.0)
}

pub(super) fn health(machine: &Machine, limits: &Limits, now: Timestamp) -> Health {
    let phase = machine.status.as_ref().and_then(|s| s.phase);
    if phase == Some(MachinePhase::Failed) {
        return Health::Failed;
    }
    if is_ready(machine) {
        return Health::Ready;
    }
    let until = |from: Timestamp, limit: Duration| {
        let from = from.max(limits.answers_since?);
        from.checked_add(SignedDuration::try_from(limit).ok()?).ok()
    };
    if !has_been_ready(machine) {
        let created = machine.metadata.creation_timestamp.as_ref();
        let until = until(created.map_or(now, |t| t.0), limits.join);
        return match until {
            Some(until) if until <= now => Health::TooLate,
            until => Health::Coming(until),
        };
    }
    let Some(since) = silent_since(machine) else {
        return Health::Silent(now, None);
    };
    match until(since, limits.not_ready) {
        Some(until) if until <= now => Health::Gone(since),
        until => Health::Silent(since, until),
    }
}

/// Until when a rollout waits for a Machine that goes: it may drain, and after that has as long as a
/// silent node. On a host that is lost it may never go. None for one that stays.
pub(super) fn awaited_until(machine: &Machine, limits: &Limits) -> Option<Timestamp> {
    let since = machine.metadata.deletion_timestamp.as_ref()?.0;
    let drain = machine.spec.drain_timeout.get().unwrap_or_default();
    let patience = SignedDuration::try_from(drain + limits.not_ready).ok()?;
    since.checked_add(patience).ok()
}

/// Whether every node that was ready once has gone silent within one span, and there are two or more:
/// then it is the network or the control plane that failed, and new machines would be silent too.
pub(super) fn all_went_silent(machines: &[&Machine], span: Duration) -> bool {
    let known = machines.iter().filter(|m| has_been_ready(m));
    let since: Option<Vec<_>> = known.map(|m| silent_since(m)).collect();
    let Some(since) = since.filter(|since| since.len() > 1) else {
        return false;
    };
    let (Some(first), Some(last)) = (since.iter().min(), since.iter().max()) else {
        return false;
    };
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    last.duration_since(*first) <= span
}

/// The order among equals: the oldest first.
pub(super) fn age(machine: &Machine) -> (Option<Timestamp>, i64, Option<&str>) {
    let created = machine.metadata.creation_timestamp.as_ref().map(|t| t.0);
    (created, number(machine), machine.metadata.name.as_deref())
}
