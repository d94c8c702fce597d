//! What became of the creations that providers were asked for.
//!
//! Invariant: what is forgotten here, in a restart too, is not known. One call without an answer stays one, whatever
//! later calls are answered, for [`SETTLE`]. Nothing of it is stored: a write for each refusal would wake the
//! reconcile that asks again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use providers::absence::SETTLE;

/// What may come of all creations of one Machine yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Outcome {
    /// Another process may have asked.
    #[default]
    Unknown,
    /// Each was answered, or is too long ago: nothing comes of any of them later.
    Settled,
    /// One was not answered, and none made the machine: once that is seen nothing else comes.
    OneOpen {
        /// Nor does anything from then on.
        until: Timestamp,
    },
    /// Another one may be carried out after what is seen is gone.
    MoreOpen {
        /// Not from then on.
        until: Timestamp,
    },
}

/// What one process asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    unanswered: u32,
    /// One was answered, and not refused.
    made: bool,
    /// None was asked before by another process.
    all: bool,
    /// When it asked last.
    last: Timestamp,
}

impl Calls {
    fn outcome(self, now: Timestamp) -> Outcome {
        let until = self.last.saturating_add(SETTLE).unwrap_or(Timestamp::MAX);
        match (self.unanswered, self.all) {
            (0, true) => Outcome::Settled,
            (0, false) => Outcome::Unknown,
            // Whoever asked before has not asked since this one did.
            _ if until <= now => Outcome::Settled,
            (1, true) if !self.made => Outcome::OneOpen { until },
            // Of what another process asked nobody knows whether it was answered.
            _ => Outcome::MoreOpen { until },
        }
    }
}

/// By the UIDs of Machines.
#[derive(Debug, Default)]
pub struct Creations(Mutex<HashMap<String, Calls>>);

impl Creations {
    /// It was stored that a machine is about to be asked for; nobody was asked yet, unless it is known here.
    pub fn begins(&self, uid: &str) {
        let none = Calls {
            all: true,
            ..Calls::default()
        };
        self.known().entry(uid.to_owned()).or_insert(none);
    }

    /// The provider is asked now. Until [`Self::answers`] says so nobody knows what becomes of it.
    pub fn asks(&self, uid: &str, now: Timestamp) {
        let mut known = self.known();
        let calls = known.entry(uid.to_owned()).or_default();
        calls.unanswered = calls.unanswered.saturating_add(1);
        calls.last = now;
    }

    /// What was asked last was answered: `made`, or refused.
    pub fn answers(&self, uid: &str, made: bool) {
        if let Some(calls) = self.known().get_mut(uid) {
            calls.unanswered = calls.unanswered.saturating_sub(1);
            calls.made |= made;
        }
    }

    /// What may come of them.
    #[must_use]
    pub fn outcome(&self, uid: &str, now: Timestamp) -> Outcome {
        let calls = self.known().get(uid).copied().unwrap_or_default();
        calls.outcome(now)
    }

    /// Forgets a Machine that is gone.
    pub fn forget(&self, uid: &str) {
        self.known().remove(uid);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Calls>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Clone for Creations {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.known().clone()))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn until(seconds: i64) -> Timestamp {
        at(seconds).checked_add(SETTLE).unwrap()
    }

    #[test]
    fn one_that_was_not_answered_stays_so_whatever_is_answered_later() {
        let creations = Creations::default();
        let outcome = || creations.outcome("a", at(9));
        assert_eq!(outcome(), Outcome::Unknown);
        creations.begins("a");
        assert_eq!(outcome(), Outcome::Settled);
        creations.asks("a", at(1));
        assert_eq!(outcome(), Outcome::OneOpen { until: until(1) });
        creations.answers("a", false);
        assert_eq!(outcome(), Outcome::Settled);
        assert_eq!(creations.outcome("b", at(9)), Outcome::Unknown);
        // This one is not answered, so the next answer says nothing of it.
        creations.asks("a", at(2));
        creations.asks("a", at(3));
        assert_eq!(outcome(), Outcome::MoreOpen { until: until(3) });
        creations.answers("a", false);
        assert_eq!(outcome(), Outcome::OneOpen { until: until(3) });
        creations.asks("a", at(4));
        creations.answers("a", true);
        let more = Outcome::MoreOpen { until: until(4) };
        assert_eq!(outcome(), more);
        creations.begins("a");
        assert_eq!(outcome(), more, "nor does a new beginning");
    }

    #[test]
    fn what_is_long_ago_is_not_waited_for() {
        let creations = Creations::default();
        creations.begins("a");
        creations.asks("a", at(0));
        creations.asks("a", at(1));
        creations.answers("a", true);
        let before = until(1).checked_sub(SignedDuration::from_secs(1)).unwrap();
        let more = Outcome::MoreOpen { until: until(1) };
        assert_eq!(creations.outcome("a", before), more);
        assert_eq!(creations.outcome("a", until(1)), Outcome::Settled);
    }

    #[test]
    fn what_another_process_asked_is_not_known_by_an_answer_to_this_one() {
        let creations = Creations::default();
        creations.asks("a", at(0));
        let more = Outcome::MoreOpen { until: until(0) };
        assert_eq!(
            creations.outcome("a", at(1)),
            more,
            "the other one's may come, too"
        );
        creations.answers("a", true);
        assert_eq!(creations.outcome("a", at(1)), Outcome::Unknown);
        creations.begins("b");
        creations.forget("b");
        assert_eq!(creations.outcome("b", at(1)), Outcome::Unknown);
    }
}
