//! What is known of the backups of tenant clusters: who cares for a backup tells it, and who writes the status of the
//! TenantCluster says it; and of whom a restore is tested just now.
//!
//! Invariant: nothing has to survive a restart: it is looked at anew, and until then what the status says stands.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::tenant_cluster::RestoreTest;
use api::{ConditionStatus, ConditionType, Reason, TenantCluster};
use jiff::Timestamp;

/// What is said of a backup.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Said {
    /// None is wanted, and nothing that makes one is left.
    Nothing,
    /// How it is.
    Is {
        /// Whether changes are in the target soon after.
        value: ConditionStatus,
        /// Why.
        reason: Reason,
        /// For people.
        message: String,
        /// When the newest full snapshot was taken; none where that is not known now.
        last_full: Option<Timestamp>,
        /// When the newest was taken that is known to be whole; none where that is not known now.
        verified: Option<Timestamp>,
        /// What came of a test of a restore that has just ended; none where none has.
        restore_test: Option<RestoreTest>,
    },
}

/// Whether there is, or was, something to do for a TenantCluster.
#[must_use]
pub fn concerns(cluster: &TenantCluster) -> bool {
    cluster.spec.backup.is_some() || is_told(cluster)
}

/// Whether the status speaks of a backup: by that what is left of one is found after it was switched off.
#[must_use]
pub fn is_told(cluster: &TenantCluster) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|c| c.type_ == ConditionType::BackupReady.as_str())
}

/// Restores that are tested at a time, of all tenant clusters: each takes what an etcd takes. More run only where an
/// operator that has just begun to lead finds them.
const MOST_TESTS: usize = 2;

/// By UID of the TenantCluster.
#[derive(Debug, Default)]
pub struct Backups {
    said: Mutex<HashMap<String, Said>>,
    saved: Mutex<HashMap<String, BTreeSet<u32>>>,
    tested: Mutex<BTreeSet<String>>,
}

impl Backups {
    /// Says it; true where it is something else than before.
    pub fn publish(&self, uid: &str, said: Said) -> bool {
        let mut known = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(uid) {
            Some(before) if *before == said => false,
            _ => {
                known.insert(uid.to_owned(), said);
                true
            }
        }
    }

    /// What was told last.
    #[must_use]
    pub fn of(&self, uid: &str) -> Option<Said> {
        let known = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(uid).cloned()
    }

    /// Says which generations of encryption keys the target has for certain; none where that is not known. True where it is
    /// something else than before.
    pub fn publish_saved(&self, uid: &str, keys: Option<BTreeSet<u32>>) -> bool {
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match keys.clone() {
            Some(keys) => saved.insert(uid.to_owned(), keys),
            None => saved.remove(uid),
        };
        before != keys
    }

    /// Generations of encryption keys that the target has for certain; none where that is not known.
    #[must_use]
    pub fn saved(&self, uid: &str) -> Option<BTreeSet<u32>> {
        let saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        saved.get(uid).cloned()
    }

    /// Whether a restore of this one may be tested now; if so, it counts until [`Self::end_test`].
    pub fn begin_test(&self, uid: &str) -> bool {
        let mut tested = self.tested();
        let may = tested.contains(uid) || tested.len() < MOST_TESTS;
        if may {
            tested.insert(uid.to_owned());
        }
        may
    }

    /// A restore of it is tested.
    pub fn hold_test(&self, uid: &str) {
        self.tested().insert(uid.to_owned());
    }

    /// None is.
    pub fn end_test(&self, uid: &str) {
        self.tested().remove(uid);
    }

    fn tested(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.tested.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets one that is gone.
    pub fn forget(&self, uid: &str) {
        self.end_test(uid);
        self.publish_saved(uid, None);
        let mut known = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_keys_are_news_once_and_forgotten_with_what_is_not_known() {
        let backups = Backups::default();
        let keys = || Some(BTreeSet::from([1, 2]));
        assert!(!backups.publish_saved("a", None));
        assert!(backups.publish_saved("a", keys()) && !backups.publish_saved("a", keys()));
        assert_eq!((backups.saved("a"), backups.saved("b")), (keys(), None));
        assert!(backups.publish_saved("a", None));
        backups.publish_saved("a", keys());
        backups.forget("a");
        assert_eq!(backups.saved("a"), None);
    }

    #[test]
    fn few_restores_are_tested_at_a_time_and_one_that_ends_makes_room() {
        let backups = Backups::default();
        assert!(backups.begin_test("a") && backups.begin_test("b"));
        assert!(backups.begin_test("a"), "it has its place");
        assert!(!backups.begin_test("c"));
        backups.forget("a");
        assert!(backups.begin_test("c") && !backups.begin_test("a"));
        // One that is found to run counts, whatever the number.
        backups.hold_test("d");
        backups.end_test("b");
        assert!(!backups.begin_test("a"));
    }
}
