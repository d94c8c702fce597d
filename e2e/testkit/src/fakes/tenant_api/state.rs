//! What the connections of one server have in common.
//!
//! Invariant: no lock is held while somebody waits.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use tokio::sync::watch;

use super::call::{Call, Mode};
use super::sent::Sent;
use super::store::Store;
use crate::faults::FaultPlan;

/// Of one server.
pub(super) struct State {
    /// What `/version` says as long as it says the truth, without the `v`.
    version: String,
    pub(super) mode: watch::Sender<Mode>,
    /// resourceVersion of the Secret that `tls` is from.
    pub(super) secret: watch::Sender<String>,
    tls: Mutex<Arc<ServerConfig>>,
    store: Mutex<Store>,
    /// Grows with every request that may have changed something.
    pub(super) changes: watch::Sender<u64>,
    calls: Mutex<Vec<Call>>,
    /// The answers that only a hostile or slow mode gives.
    played: Mutex<Vec<Sent>>,
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
            played: Mutex::default(),
            faults: faults.clone(),
        }
    }

    /// What `/version` says, with the `v`.
    pub(super) fn version(&self) -> String {
        match *self.mode.borrow() {
            Mode::Claims(version) => version.to_owned(),
            _ => format!("v{}", self.version),
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that an answer of a hostile or slow mode begins; gives where its bytes are counted.
    pub(super) fn play(&self) -> Sent {
        let sent = Sent::default();
        let mut played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        played.push(Arc::clone(&sent));
        drop(played);
        self.changes.send_modify(|count| *count += 1);
        sent
    }

    pub(super) fn played(&self) -> Vec<u64> {
        let played = self.played.lock().unwrap_or_else(PoisonError::into_inner);
        played.iter().map(|s| s.load(Ordering::Relaxed)).collect()
    }

    pub(super) fn tls(&self) -> MutexGuard<'_, Arc<ServerConfig>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
