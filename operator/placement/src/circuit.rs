//! Circuit of one API: per ProviderConfig and class of operations.
//!
//! It opens after 5 failures in a row that span 20 s or more, or when more than half of 10 or more calls
//! within 60 s failed. Open, one probe may go after 30 s, then after 60 s and so on up to 5 min; a probe that
//! is answered closes it. Invariant: only [`Fault::Unavailable`] is a failure. Every other fault is an answer,
//! so the API is there: what is wrong is the user's (Auth), local (Capacity, Quota) or ours (Throttled).
//! Source: clouds.md 2.2 and 11.3.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::{elapsed, later};

/// Failures in a row that open it …
const IN_A_ROW: u32 = 5;
/// … when they span so much.
const IN_A_ROW_FOR: Duration = Duration::from_secs(20);
/// The window of the share of failures.
const WINDOW: Duration = Duration::from_secs(60);
/// Calls in the window below which there is no share.
const LEAST_CALLS: u32 = 10;
/// The first probe waits so long.
const FIRST_PROBE: Duration = Duration::from_secs(30);
/// No probe waits longer.
const LAST_PROBE: Duration = Duration::from_secs(300);

/// Kinds of faults of a provider, clouds.md 2.2, as far as they matter here.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Fault {
    /// Too many requests.
    Throttled,
    /// No answer, or one that says that there is none: 5xx, time-out, DNS, TLS.
    Unavailable,
    /// Sold out.
    Capacity,
    /// The account's limit.
    Quota,
    /// Credentials or rights.
    Auth,
    /// There is no such thing.
    NotFound,
    /// The name or key is taken.
    Conflict,
    /// Was made and died.
    Gone,
    /// The request can never succeed.
    Terminal,
}

/// Classes of operations that fail apart from each other.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Operation {
    /// List, describe.
    Read,
    /// Create.
    Create,
    /// Delete.
    Delete,
}

/// As in `status.api.state` of a ProviderConfig.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum State {
    /// Calls go.
    #[default]
    Closed,
    /// None goes.
    Open,
    /// One has gone to see.
    HalfOpen,
}

/// Whether a call may go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Admission {
    /// It may.
    Allowed,
    /// It may, and is the probe: [`Circuit::begin_probe`] first.
    Probe,
    /// Not before then.
    Refused {
        /// When to ask again.
        until: Timestamp,
    },
}

/// One circuit. Store it where it outlives a restart: one that forgot that it was open would take a
/// location for back again. What it counts while it is closed is not stored.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Circuit {
    /// As it stands.
    pub state: State,
    /// Since when.
    pub since: Timestamp,
    /// When a probe may go; while HalfOpen, when the one that went counts as lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    probe_at: Option<Timestamp>,
    /// What the probe waited, in seconds.
    #[serde(default)]
    probe_after_seconds: u64,
    #[serde(skip)]
    run: Option<Run>,
    /// Calls and failures of each second of the window: at most 61 entries, however many calls.
    #[serde(skip)]
    window: BTreeMap<i64, (u32, u32)>,
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Run {
    count: u32,
    first: Timestamp,
}

impl Circuit {
    /// One that nothing is known about yet.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            state: State::Closed,
            since: now,
            probe_at: None,
            probe_after_seconds: 0,
            run: None,
            window: BTreeMap::new(),
        }
    }

    /// Whether a call may go now.
    #[must_use]
    pub fn admission(&self, now: Timestamp) -> Admission {
        match (self.state, self.probe_at) {
            (State::Closed, _) => Admission::Allowed,
            (State::Open | State::HalfOpen, Some(until)) if now < until => {
                Admission::Refused { until }
            }
            (State::Open | State::HalfOpen, _) => Admission::Probe,
        }
    }

    /// The probe goes. One whose answer never comes, because the operator ended, counts as lost after the
    /// same wait again.
    pub fn begin_probe(&mut self, now: Timestamp) {
        if self.state == State::Closed {
            return;
        }
        if self.state == State::Open {
            self.since = now;
        }
        self.state = State::HalfOpen;
        self.probe_at = Some(later(now, self.probe_after()));
    }

    /// A call ended: none where it succeeded. Answers to calls that went before it opened change nothing
    /// while it is open.
    pub fn record(&mut self, fault: Option<Fault>, now: Timestamp) {
        let failed = fault == Some(Fault::Unavailable);
        match (self.state, failed) {
            (State::Closed, _) => self.count(failed, now),
            (State::HalfOpen, false) => *self = Self::new(now),
            (State::HalfOpen, true) => {
                let after = (self.probe_after() * 2).min(LAST_PROBE);
                self.open(after, now);
            }
            (State::Open, _) => {}
        }
    }

    /// Whether the API counts as answering: [`State::Closed`] alone does.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    fn probe_after(&self) -> Duration {
        Duration::from_secs(self.probe_after_seconds).clamp(FIRST_PROBE, LAST_PROBE)
    }

    fn count(&mut self, failed: bool, now: Timestamp) {
        let run = self.run.filter(|_| failed);
        self.run = failed.then(|| Run {
            count: run.map_or(0, |run| run.count).saturating_add(1),
            first: run.map_or(now, |run| run.first),
        });
        let second = now.as_second();
        let oldest = second.saturating_sub(i64::try_from(WINDOW.as_secs()).unwrap_or(i64::MAX));
        // What lies in the future was counted before the clock went back.
        self.window.retain(|at, _| (oldest..=second).contains(at));
        let (calls, failures) = self.window.entry(second).or_default();
        *calls = calls.saturating_add(1);
        *failures = failures.saturating_add(u32::from(failed));
        let sum = |of: fn(&(u32, u32)) -> u32| -> u64 {
            self.window.values().map(|both| u64::from(of(both))).sum()
        };
        let (calls, failures) = (sum(|both| both.0), sum(|both| both.1));
        let share = calls >= u64::from(LEAST_CALLS) && failures * 2 > calls;
        let in_a_row = self
            .run
            .is_some_and(|run| run.count >= IN_A_ROW && elapsed(run.first, now) >= IN_A_ROW_FOR);
        if share || in_a_row {
            self.open(FIRST_PROBE, now);
        }
    }

    fn open(&mut self, probe_after: Duration, now: Timestamp) {
        let since = if self.state == State::Closed {
            now
        } else {
            self.since
        };
        *self = Self {
            state: State::Open,
            since,
            probe_at: Some(later(now, probe_after)),
            probe_after_seconds: probe_after.as_secs(),
            ..Self::new(now)
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DOWN: Option<Fault> = Some(Fault::Unavailable);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn opened() -> Circuit {
        let mut circuit = Circuit::new(at(0));
        (0..5).for_each(|n| circuit.record(DOWN, at(n * 5)));
        circuit
    }

    #[test]
    fn five_in_a_row_over_twenty_seconds_open_it() {
        let mut circuit = Circuit::new(at(0));
        (0..4).for_each(|n| circuit.record(DOWN, at(n * 5)));
        assert!(circuit.is_closed());
        circuit.record(DOWN, at(19));
        assert!(circuit.is_closed(), "five, but within 19 s");
        circuit.record(DOWN, at(20));
        assert_eq!((circuit.state, circuit.since), (State::Open, at(20)));
    }

    #[test]
    fn an_answer_between_begins_anew() {
        let mut circuit = Circuit::new(at(0));
        for n in 0..4 {
            circuit.record(DOWN, at(n * 61));
            circuit.record(None, at(n * 61 + 1));
            circuit.record(DOWN, at(n * 61 + 2));
            circuit.record(None, at(n * 61 + 3));
        }
        assert!(circuit.is_closed());
    }

    #[test]
    fn more_than_half_of_ten_calls_open_it() {
        let mut circuit = Circuit::new(at(0));
        for n in 0..5 {
            circuit.record(DOWN, at(n));
            circuit.record(None, at(n));
        }
        assert!(circuit.is_closed(), "half of ten");
        circuit.record(DOWN, at(6));
        assert!(!circuit.is_closed());
        let mut circuit = Circuit::new(at(0));
        for n in 0..20 {
            circuit.record(DOWN, at(n * 70));
            circuit.record(None, at(n * 70));
            circuit.record(DOWN, at(n * 70));
        }
        assert!(circuit.is_closed(), "three calls a window have no share");
    }

    #[test]
    fn probes_go_one_at_a_time_and_wait_longer_each_time() {
        let mut circuit = opened();
        let mut now = 20;
        for wait in [30, 60, 120, 240, 300, 300] {
            let until = at(now + wait);
            assert_eq!(
                circuit.admission(at(now + wait - 1)),
                Admission::Refused { until }
            );
            now += wait;
            assert_eq!(circuit.admission(at(now)), Admission::Probe);
            circuit.begin_probe(at(now));
            assert!(matches!(
                circuit.admission(at(now)),
                Admission::Refused { .. }
            ));
            circuit.record(DOWN, at(now));
        }
        circuit.begin_probe(at(now + 300));
        circuit.record(None, at(now + 301));
        assert_eq!(circuit, Circuit::new(at(now + 301)));
    }

    #[test]
    fn a_probe_that_is_never_answered_is_followed_by_another() {
        let mut circuit = opened();
        circuit.begin_probe(at(50));
        assert_eq!(
            circuit.admission(at(79)),
            Admission::Refused { until: at(80) }
        );
        assert_eq!(circuit.admission(at(80)), Admission::Probe);
    }

    #[test]
    fn it_is_open_after_a_restart_too() {
        let circuit = opened();
        let stored = serde_json::to_string(&circuit).unwrap();
        let read: Circuit = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, circuit);
    }

    proptest! {
        #[test]
        fn nothing_but_unavailable_opens_it(faults in prop::collection::vec((0..9_usize, 0..30_i64), 0..200)) {
            use Fault::*;
            let kinds = [None, Some(Throttled), Some(Capacity), Some(Quota), Some(Auth), Some(NotFound), Some(Conflict), Some(Gone), Some(Terminal)];
            let mut circuit = Circuit::new(at(0));
            let mut now = 0;
            for (kind, pause) in faults {
                now += pause;
                circuit.record(kinds[kind], at(now));
                prop_assert!(circuit.is_closed());
            }
        }

        #[test]
        fn what_it_remembers_is_bounded(pauses in prop::collection::vec(-5..5_i64, 0..500)) {
            let mut circuit = Circuit::new(at(0));
            let mut now = 0;
            for pause in pauses {
                now += pause;
                circuit.record(None, at(now));
                prop_assert!(circuit.window.len() <= 61);
            }
        }
    }
}
