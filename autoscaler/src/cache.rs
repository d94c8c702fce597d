//! Cache of watched NodePools, Machines and nodes of one tenant cluster.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`state`] | pure: what there is, and questions to it |
//! | [`objects`], [`shape`] | pure: what is remembered of one object |
//! | [`watches`] | the watches on both APIs, which fill it |
//! | [`staleness`] | whether what they told can be believed |
//!
//! Invariant: nothing is decided here. What an API answered to a write is believed until a watch
//! tells something newer; and nothing is done from here before every watch has been through once.

pub mod objects;
pub mod shape;
pub mod staleness;
pub mod state;
pub mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use self::state::{Kind, State, WatchEvent};
use crate::settings::Settings;

/// Pause of [`Cache::control_loop`] after a failure.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// Names seen since a watch began anew.
    listing: BTreeMap<Kind, BTreeSet<String>>,
    synced: BTreeSet<Kind>,
}

/// Shared by watches, calls and controllers.
#[derive(Debug)]
pub struct Cache {
    settings: Settings,
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
}

impl Cache {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            inner: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// What is not listed yet of what is needed.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        let inner = self.lock();
        let needed = Kind::NEEDED.into_iter();
        needed.filter(|kind| !inner.synced.contains(kind)).collect()
    }

    /// Waits until everything that is needed has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.changes.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = changes.wait_for(|_| self.missing().is_empty()).await;
    }

    /// Whether a kind has been listed once.
    #[must_use]
    pub fn has_listed(&self, kind: Kind) -> bool {
        self.lock().synced.contains(&kind)
    }

    /// Reads what there is.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock().state)
    }

    /// Notified after every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Does what is due, now and after every change, and what failed again after 2 seconds.
    /// Ends never.
    pub async fn control_loop<T, F: Future<Output = bool>>(
        &self,
        due: impl Fn(&State) -> Vec<T>,
        succeeds: impl Fn(T) -> F,
    ) {
        let mut changes = self.changes();
        self.listed().await;
        loop {
            changes.mark_unchanged();
            let mut failed = false;
            for one in self.read(&due) {
                failed |= !succeeds(one).await;
            }
            if failed {
                tokio::time::sleep(PAUSE).await;
            } else {
                // The sender is ours, so waiting cannot fail.
                let _ = changes.changed().await;
            }
        }
    }

    /// A watch begins to list a kind anew.
    pub fn begin(&self, kind: Kind) {
        self.lock().listing.insert(kind, BTreeSet::new());
    }

    /// A watch has listed a kind; what it did not name is gone.
    pub fn end(&self, kind: Kind) {
        let mut inner = self.lock();
        let Inner {
            state,
            listing,
            synced,
        } = &mut *inner;
        let listed = listing.remove(&kind).unwrap_or_default();
        state.retain(kind, &listed);
        synced.insert(kind);
        drop(inner);
        self.notify();
    }

    /// An object is there, or changed.
    pub fn apply(&self, event: &WatchEvent) {
        let mut inner = self.lock();
        let Inner { state, listing, .. } = &mut *inner;
        let Some(object) = state.read(event, &self.settings) else {
            return;
        };
        let (kind, name) = state.put(object);
        if let Some(listed) = listing.get_mut(&kind) {
            listed.insert(name);
        }
        drop(inner);
        self.notify();
    }

    /// An object is gone.
    pub fn delete(&self, event: &WatchEvent) {
        let mut inner = self.lock();
        let state = &mut inner.state;
        if let Some(object) = state.read(event, &self.settings) {
            state.take(&object);
        }
        drop(inner);
        self.notify();
    }

    fn notify(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
