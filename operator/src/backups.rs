//! What is known of the backups of tenant clusters: who cares for a backup tells it, and who writes the status of the
//! TenantCluster says it.
//!
//! Invariant: nothing has to survive a restart: it is looked at anew, and until then what the status says stands.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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

/// By UID of the TenantCluster.
#[derive(Debug, Default)]
pub struct Backups(Mutex<HashMap<String, Said>>);

impl Backups {
    /// Says it; true where it is something else than before.
    pub fn publish(&self, uid: &str, said: Said) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(uid).cloned()
    }

    /// Forgets one that is gone.
    pub fn forget(&self, uid: &str) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(uid);
    }
}
