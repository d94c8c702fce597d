//! How a place goes from one state to the next: Healthy, Suspect, Out, Recovering, Excluded.
//!
//! Invariant: all that a transition depends on is in the stored [`Record`] and in what is seen now, so an
//! operator that restarts in any phase comes to the same; and a record changes only when something happens,
//! so nothing is written while nothing does. Times are wall-clock times of the caller. Source: clouds.md 11.4.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::place::State;
use crate::time::{elapsed, later};
use crate::verdict::{Finding, Outage, Suspicion};

/// A node that came back counts as back after so long.
pub const FRESH_FOR: Duration = Duration::from_secs(60);
/// Relapses within so long are remembered, and `returnAfter` doubles up to it.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(2 * 3600);

/// Whether places may be taken for out.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum Mode {
    /// Yes.
    #[default]
    Automatic,
    /// No: what would be an outage makes the place suspect, and health does what it ever does.
    Never,
}

/// `spec.placement.failover`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Failover {
    /// Whether it happens at all.
    pub mode: Mode,
    /// Silence after which a node is looked at a second time. Default: 25 s.
    pub after: Duration,
    /// How long a place must be well before it counts as healthy again. Default: 10 min.
    pub return_after: Duration,
    /// How long a machine that does not come back is waited for. Default: 24 h.
    pub give_up_after: Duration,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            mode: Mode::Automatic,
            after: Duration::from_secs(25),
            return_after: Duration::from_secs(600),
            give_up_after: Duration::from_secs(24 * 3600),
        }
    }
}

/// Why a place stands as it does; none while it is healthy.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Reason {
    /// Suspect: the API fails, machines are well.
    ApiOutage,
    /// Suspect: silent at the first look.
    SecondLook,
    /// Suspect: all that come by its endpoint are silent.
    EndpointUnreachable,
    /// Suspect: silent, and nobody can say whose fault it is.
    NoWitness,
    /// Suspect: it would be out, but `failover.mode` is `Never`.
    FailoverOff,
    /// Out: all machines of the location.
    LocationOutage,
    /// Out: half or more of the zone.
    ZoneOutage,
    /// Out: API and machines.
    ProviderOutage,
    /// Out: SSH and machines.
    SiteOutage,
    /// Out: the API proves that the machines are dead.
    ProvenDead,
    /// Recovering: it is back, and has to stay.
    Returning,
    /// Excluded: the provider refuses the credentials.
    CredentialsRefused,
    /// Excluded: the provider can never make what the location asks for.
    TemplateRefused,
}

/// What the user has to mend before anything new is made in a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Exclusion {
    /// The provider refuses the credentials (fault Auth).
    CredentialsRefused,
    /// The provider can never make this (fault Terminal), until the template changes.
    TemplateRefused,
}

/// What is stored of one place, in the status of the NodePool.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// How it stands.
    pub state: State,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Since when it stands so.
    pub since: Timestamp,
    /// When it came back from its last outage for good, while that is remembered or machines are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returned: Option<Timestamp>,
    /// What it has to be well for, in seconds, after relapses; 0 without.
    #[serde(default)]
    pub return_after_seconds: u64,
}

/// What is seen of one place now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Evidence {
    /// The verdict.
    pub finding: Finding,
    /// The circuit for reading is closed; of hosts: SSH answers.
    pub is_api_closed: bool,
    /// For how long at least one of its old nodes is fresh without a break, by the monotonic clock; none
    /// while none is.
    pub old_fresh_for: Option<Duration>,
    /// A canary made there while it was out is Ready.
    pub is_canary_ready: bool,
    /// What the user has to mend.
    pub exclusion: Option<Exclusion>,
}

impl Record {
    /// Of a place that is new.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            state: State::Healthy,
            reason: None,
            since: now,
            returned: None,
            return_after_seconds: 0,
        }
    }

    /// How long it has to be well before it is healthy again.
    #[must_use]
    pub fn return_after(&self, failover: &Failover) -> Duration {
        failover
            .return_after
            .max(Duration::from_secs(self.return_after_seconds))
    }

    /// When its state changes although nothing happens; for the next reconcile.
    #[must_use]
    pub fn due(&self, failover: &Failover) -> Option<Timestamp> {
        (self.state == State::Recovering).then(|| later(self.since, self.return_after(failover)))
    }

    fn become_(&self, state: State, reason: Option<Reason>, now: Timestamp) -> Self {
        if (state, reason) == (self.state, self.reason) {
            return self.clone();
        }
        // Another reason for the same state does not begin it anew.
        let since = if state == self.state { self.since } else { now };
        Self {
            state,
            reason,
            since,
            ..self.clone()
        }
    }

    /// Out; each relapse while the last outage is remembered doubles what it has to be well for.
    fn fall(&self, outage: Outage, failover: &Failover, now: Timestamp) -> Self {
        let remembered = match (self.state, self.returned) {
            (State::Recovering, _) => true,
            (_, Some(returned)) => elapsed(returned, now) < REMEMBERED_FOR,
            (_, None) => false,
        };
        let most = failover.return_after.max(REMEMBERED_FOR);
        let doubled = (self.return_after(failover) * 2).min(most);
        Self {
            return_after_seconds: if remembered { doubled.as_secs() } else { 0 },
            returned: None,
            ..self.become_(State::Out, Some(reason_of(outage)), now)
        }
    }
}

/// How a place stands next.
#[must_use]
pub fn step(record: &Record, seen: &Evidence, failover: &Failover, now: Timestamp) -> Record {
    let outage = match (seen.finding, failover.mode) {
        (Finding::Outage(outage), Mode::Automatic) => Some(outage),
        _ => None,
    };
    match (record.state, outage) {
        // It was out and is: neither the reason nor the time is written again, but that the first signal fails, too,
        // once it does: silence is seen sooner than that nobody answers.
        (State::Out, Some(outage @ (Outage::Provider | Outage::Site)))
            if matches!(
                record.reason,
                Some(Reason::LocationOutage | Reason::ZoneOutage)
            ) =>
        {
            record.become_(State::Out, Some(reason_of(outage)), now)
        }
        (State::Out, Some(_)) => record.clone(),
        (_, Some(outage)) => record.fall(outage, failover, now),
        (State::Out, None) if is_back(seen) => {
            record.become_(State::Recovering, Some(Reason::Returning), now)
        }
        (State::Out, None) => record.clone(),
        (State::Recovering, None) => {
            let proven = elapsed(record.since, now) >= record.return_after(failover);
            if proven && is_well(seen) {
                Record {
                    returned: Some(now),
                    ..record.become_(State::Healthy, None, now)
                }
            } else {
                record.clone()
            }
        }
        (State::Healthy | State::Suspect | State::Excluded, None) => stand(record, seen, now),
    }
}

/// A place that is in no outage.
fn stand(record: &Record, seen: &Evidence, now: Timestamp) -> Record {
    let excluded = seen.exclusion.map(|exclusion| match exclusion {
        Exclusion::CredentialsRefused => Reason::CredentialsRefused,
        Exclusion::TemplateRefused => Reason::TemplateRefused,
    });
    let suspected = match seen.finding {
        Finding::ApiOutage => Some(Reason::ApiOutage),
        Finding::Suspected(Suspicion::SecondLook) => Some(Reason::SecondLook),
        Finding::Suspected(Suspicion::EndpointUnreachable) => Some(Reason::EndpointUnreachable),
        Finding::Suspected(Suspicion::NoWitness) => Some(Reason::NoWitness),
        Finding::Outage(_) => Some(Reason::FailoverOff),
        // Whatever was true stays true.
        Finding::Unknown(_) if record.state == State::Suspect => record.reason,
        Finding::Unknown(_) | Finding::Fine | Finding::Loss { .. } => None,
    };
    match (excluded, suspected) {
        (Some(_), _) => record.become_(State::Excluded, excluded, now),
        (None, Some(_)) => record.become_(State::Suspect, suspected, now),
        (None, None) => record.become_(State::Healthy, None, now),
    }
}

fn is_well(seen: &Evidence) -> bool {
    let fine = matches!(seen.finding, Finding::Fine | Finding::Loss { .. });
    fine && seen.is_api_closed
}

fn is_back(seen: &Evidence) -> bool {
    let fresh = seen.old_fresh_for.is_some_and(|quiet| quiet >= FRESH_FOR);
    is_well(seen) && (fresh || seen.is_canary_ready)
}

fn reason_of(outage: Outage) -> Reason {
    match outage {
        Outage::Location => Reason::LocationOutage,
        Outage::Zone => Reason::ZoneOutage,
        Outage::Provider => Reason::ProviderOutage,
        Outage::Site => Reason::SiteOutage,
        Outage::ProvenDead => Reason::ProvenDead,
    }
}

/// What becomes of a machine that went silent with its place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// No outage: the pool's health judges it as ever.
    Ordinary,
    /// It is waited for, and not deleted, until then.
    Kept {
        /// When it is given up.
        until: Timestamp,
    },
    /// It is deleted as any other: it was waited for long enough, or nothing is left of it.
    GivenUp,
}

/// Judges a machine that is not ready since then. `is_absent`: its absence is proven (clouds.md 2.3), or its
/// provider says that it is terminated.
#[must_use]
pub fn fate(
    record: &Record,
    silent_since: Timestamp,
    is_absent: bool,
    failover: &Failover,
    now: Timestamp,
) -> Fate {
    let went_with_it = record
        .returned
        .is_some_and(|returned| silent_since < returned);
    if !record.state.is_outage() && !went_with_it {
        return Fate::Ordinary;
    }
    let until = later(silent_since, failover.give_up_after);
    if is_absent || until <= now {
        Fate::GivenUp
    } else {
        Fate::Kept { until }
    }
}

/// Whether one machine should be made in a place that is out, to see whether it is back: its API answers, no
/// old node is fresh, and it is out for as long as it would have to be well. `has_canary`: there is one that
/// was made since. What becomes of machines that never join there is [`crate::offerings`]' part.
#[must_use]
pub fn is_canary_due(
    record: &Record,
    seen: &Evidence,
    has_canary: bool,
    failover: &Failover,
    now: Timestamp,
) -> bool {
    let waited = elapsed(record.since, now) >= record.return_after(failover);
    record.state == State::Out
        && is_well(seen)
        && seen.old_fresh_for.is_none()
        && !has_canary
        && waited
}

#[cfg(test)]
mod tests;
