//! Complaints: why disks are not where they are to be, told by the controller of attachments, asked for
//! by calls that wait.
//!
//! Invariant: in the tenant's words; nothing is decided by them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// By machine and volume.
type All = BTreeMap<String, BTreeMap<String, String>>;

/// The latest ones.
#[derive(Debug, Default)]
pub struct Complaints {
    all: Mutex<All>,
}

impl Complaints {
    /// These and no others are true now.
    pub fn replace(&self, all: All) {
        *self.lock() = all;
    }

    /// Why this volume is not on this machine, if anybody knows.
    #[must_use]
    pub fn of(&self, machine: &str, volume: &str) -> Option<String> {
        self.lock().get(machine)?.get(volume).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
