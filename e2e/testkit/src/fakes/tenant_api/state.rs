//! What the connections of one server have in common.
//!
//! Invariant: no lock is held while somebody waits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use tokio::sync::watch;

use super::call::{Call, Mode};
use super::store::Store;
use crate::faults::FaultPlan;

/// Of one server.
pub(super) struct State {
    /// What `/version` says, without the `v`.
    pub(super) version: String,
    pub(super) mode: watch::Sender<Mode>,
    /// resourceVersion of the Secret that `tls` is from.
    pub(super) secret: watch::Sender<String>,
    tls: Mutex<Arc<ServerConfig>>,
    store: Mutex<Store>,
    /// Grows with every request that may have changed something.
    pub(super) changes: watch::Sender<u64>,
    calls: Mutex<Vec<Call>>,
    pub(super) faults: watch::Receiver<Option<FaultPlan>>,
}

impl State {
    pub(super) fn new(
        (tls, secret): (Arc<ServerConfig>, String),
        version: &str,
        faults: &watch::Receiver<Option<FaultPlan>>,
    ) -> Self {
        Self {
            version: version.to_owned(),
            mode: watch::Sender::new(Mode::Up),
            secret: watch::Sender::new(secret),
            tls: Mutex::new(tls),
            store: Mutex::default(),
            changes: watch::Sender::new(0),
            calls: Mutex::default(),
            faults: faults.clone(),
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tls(&self) -> MutexGuard<'_, Arc<ServerConfig>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
