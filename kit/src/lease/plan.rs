//! Decides what to do about a Lease: take it, renew it or wait. No clock and no client.
//!
//! Invariant: two electors with the same duration never both believe to lead. The holder stops
//! believing `renew_deadline` after it *sent* its last successful write; another takes over no
//! earlier than `duration` after it *saw* the record for the first time, which is later than that.
//! Only local monotonic time is compared; the times inside the record are for people, and for [`Gap`], by which
//! nobody leads.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::gap::Gap;

/// The three spans of an election, as in client-go's leaderelection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a record keeps others away once they have seen it. Default 15 s.
    pub duration: Duration,
    /// How long a leader goes on without a successful renewal. Default 10 s; must be shorter than
    /// `duration`, the difference is the margin for writes on their way.
    pub renew_deadline: Duration,
    /// Pause between two tries. Default 2 s.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// What a Lease object says, as far as an election is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `None` when nobody holds it (absent or "").
    pub holder: Option<String>,
    /// What the holder promised; `None` is taken as our own duration.
    pub duration: Option<Duration>,
    /// Changes with every write. Compared for equality only.
    pub resource_version: String,
    /// How often the holder changed.
    pub transitions: i32,
    /// When it was renewed last, by the holder's clock; `None` when it does not say.
    pub renewed: Option<Timestamp>,
    /// What it says of a time in which nobody is known to have led.
    pub gap: Option<Gap>,
}

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no Lease: create it with us as holder.
    Create,
    /// Replace it at this resource version, with us as a new holder.
    Take {
        /// The precondition.
        resource_version: String,
        /// One more than observed.
        transitions: i32,
    },
    /// We hold it: replace it at this resource version with a new renew time.
    Renew {
        /// The precondition.
        resource_version: String,
        /// As observed.
        transitions: i32,
    },
    /// Another holds it.
    Wait,
}

/// One candidate's memory.
#[derive(Clone, Debug)]
pub struct Elector {
    identity: String,
    timing: Timing,
    seen: Option<(Record, Instant)>,
    /// Since when a Lease that another held is gone.
    gone_since: Option<Instant>,
    leads_until: Option<Instant>,
}

impl Elector {
    /// A candidate that has seen nothing. `identity` must be unique among processes alive at the
    /// same time.
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self {
            identity: identity.into(),
            timing,
            seen: None,
            gone_since: None,
            leads_until: None,
        }
    }

    /// Takes in what was read at `now` and says what to do.
    pub fn observe(&mut self, now: Instant, lease: Option<Record>) -> Step {
        let Some(record) = lease else {
            return self.observe_none(now);
        };
        self.gone_since = None;
        let (resource_version, transitions) = (record.resource_version.clone(), record.transitions);
        let since = match &self.seen {
            Some((seen, since)) if *seen == record => *since,
            _ => now,
        };
        let patience = self.patience(&record);
        let holder = record.holder.clone();
        self.seen = Some((record, since));
        if holder.as_deref() == Some(self.identity.as_str()) {
            return Step::Renew {
                resource_version,
                transitions,
            };
        }
        self.leads_until = None;
        if holder.is_none() || now.duration_since(since) > patience {
            return Step::Take {
                resource_version,
                transitions: transitions.saturating_add(1),
            };
        }
        Step::Wait
    }

    /// There is no Lease. When somebody deleted it, what we held is void, because a new candidate
    /// may create it, too; and a holder that we saw may go on for its duration.
    fn observe_none(&mut self, now: Instant) -> Step {
        self.leads_until = None;
        let another = self
            .seen
            .as_ref()
            .filter(|_| !self.is_ours())
            .map(|(record, _)| record);
        if let Some(record) = another.filter(|record| record.holder.is_some()) {
            let patience = self.patience(record);
            let since = *self.gone_since.get_or_insert(now);
            if now.duration_since(since) <= patience {
                return Step::Wait;
            }
        }
        self.seen = None;
        Step::Create
    }

    fn patience(&self, record: &Record) -> Duration {
        record
            .duration
            .unwrap_or_default()
            .max(self.timing.duration)
    }

    fn is_ours(&self) -> bool {
        self.holder() == Some(self.identity.as_str())
    }

    /// A write with us as holder, sent at `sent`, succeeded and left `record`.
    pub fn wrote(&mut self, sent: Instant, record: Record) {
        self.leads_until = Some(sent + self.timing.renew_deadline);
        self.seen = Some((record, sent));
        self.gone_since = None;
    }

    /// What we knew may be stale (a conflict, a deletion, our release): read before the next write
    /// and believe nothing.
    pub fn forget(&mut self) {
        self.seen = None;
        self.leads_until = None;
    }

    /// What we know of the record may be stale, but not our last successful write: we lead until
    /// its deadline, and read before the next one.
    pub fn must_read(&mut self) {
        self.seen = None;
    }

    /// The record to renew without reading it first, when our last write is the latest we know of.
    pub fn renewable(&self) -> Option<Record> {
        let (record, _) = self.seen.as_ref()?;
        (self.is_ours() && self.leads_until.is_some()).then(|| record.clone())
    }

    /// Until when we lead, unless renewed. In the past, or `None`: we do not lead.
    pub const fn leads_until(&self) -> Option<Instant> {
        self.leads_until
    }

    /// The Lease, as last seen.
    pub fn seen(&self) -> Option<&Record> {
        self.seen.as_ref().map(|(record, _)| record)
    }

    /// Who holds the Lease, as last seen.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref()?.0.holder.as_deref()
    }
}

#[cfg(test)]
mod tests;
