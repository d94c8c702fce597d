//! What became of the creations that providers were asked for.
//!
//! Invariant: what is forgotten here, in a restart too, is not known. One call without an answer stays one, whatever
//! later calls are answered. Nothing of it is stored: a write for each refusal would wake the reconcile that asks again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What may come of all creations of one Machine yet.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Outcome {
    /// Another process may have asked.
    #[default]
    Unknown,
    /// Each was answered: nothing comes of any of them later.
    Settled,
    /// One was not answered, and none made the machine: once that is seen nothing else comes.
    OneOpen,
    /// Another one may be carried out after what is seen is gone.
    MoreOpen,
}

/// What one process asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    unanswered: u32,
    /// One was answered, and not refused.
    made: bool,
    /// None was asked before by another process.
    all: bool,
}

impl Calls {
    fn outcome(self) -> Outcome {
        match (self.unanswered, self.made) {
            (0, _) if !self.all => Outcome::Unknown,
            (0, _) => Outcome::Settled,
            (1, false) => Outcome::OneOpen,
            _ => Outcome::MoreOpen,
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
    pub fn asks(&self, uid: &str) {
        let mut known = self.known();
        let calls = known.entry(uid.to_owned()).or_default();
        calls.unanswered = calls.unanswered.saturating_add(1);
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
    pub fn outcome(&self, uid: &str) -> Outcome {
        let calls = self.known().get(uid).copied().unwrap_or_default();
        calls.outcome()
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
    use super::*;

    #[test]
    fn one_that_was_not_answered_stays_so_whatever_is_answered_later() {
        let creations = Creations::default();
        let outcome = || creations.outcome("a");
        assert_eq!(outcome(), Outcome::Unknown);
        creations.begins("a");
        assert_eq!(outcome(), Outcome::Settled);
        creations.asks("a");
        assert_eq!(outcome(), Outcome::OneOpen, "it is under way");
        creations.answers("a", false);
        assert_eq!(outcome(), Outcome::Settled);
        assert_eq!(creations.outcome("b"), Outcome::Unknown);
        // This one is not answered, so the next answer says nothing of it.
        creations.asks("a");
        creations.asks("a");
        assert_eq!(outcome(), Outcome::MoreOpen);
        creations.answers("a", false);
        assert_eq!(outcome(), Outcome::OneOpen);
        creations.asks("a");
        creations.answers("a", true);
        assert_eq!(outcome(), Outcome::MoreOpen);
        creations.begins("a");
        assert_eq!(outcome(), Outcome::MoreOpen, "nor does a new beginning");
    }

    #[test]
    fn what_another_process_asked_is_not_known_by_an_answer_to_this_one() {
        let creations = Creations::default();
        creations.asks("a");
        creations.answers("a", true);
        assert_eq!(creations.outcome("a"), Outcome::Unknown);
        creations.begins("b");
        creations.forget("b");
        assert_eq!(creations.outcome("b"), Outcome::Unknown);
    }
}
