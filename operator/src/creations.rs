//! Which creations were refused as often as they were asked for, so that nothing can come of them.
//!
//! Invariant: what is forgotten here, in a restart too, is taken for a creation of which nobody knows what became.
//! Nothing of it is stored: a write for each refusal would wake the reconcile that asks again.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The UIDs of those Machines.
#[derive(Debug, Default)]
pub struct Creations(Mutex<HashSet<String>>);

impl Creations {
    /// It was stored that a machine is about to be asked for; nobody was asked yet.
    pub fn begins(&self, uid: &str) {
        self.known().insert(uid.to_owned());
    }

    /// The provider is asked now; gives whether all that was asked before was refused. Until [`Self::refused`] says
    /// so nobody knows what becomes of it.
    #[must_use]
    pub fn asks(&self, uid: &str) -> bool {
        self.known().remove(uid)
    }

    /// This one was refused, and all before it.
    pub fn refused(&self, uid: &str) {
        self.known().insert(uid.to_owned());
    }

    /// Whether nothing can come of what was asked for.
    #[must_use]
    pub fn are_refused(&self, uid: &str) -> bool {
        self.known().contains(uid)
    }

    /// Forgets a Machine that is gone.
    pub fn forget(&self, uid: &str) {
        self.known().remove(uid);
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_not_answered_is_never_taken_for_refused_again() {
        let creations = Creations::default();
        assert!(!creations.are_refused("a"), "nobody knows");
        creations.begins("a");
        assert!(creations.are_refused("a"));
        assert!(creations.asks("a"));
        assert!(!creations.are_refused("a"), "it is under way");
        creations.refused("a");
        assert!(creations.are_refused("a") && !creations.are_refused("b"));
        // This one is not answered, so the next refusal says nothing of it.
        assert!(creations.asks("a"));
        assert!(!creations.asks("a"));
        creations.begins("b");
        creations.forget("b");
        assert!(!creations.are_refused("b"));
    }
}
