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

use futures::future::join_all;
use kit_client::backoff::{Attempts, Backoff};
use tokio::sync::watch;
use tokio::time::Instant;

use self::state::{Kind, State, WatchEvent};
use crate::settings::Settings;

/// Waits of [`Cache::control_loop`] after failures of one thing.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
/// Most things that one [`Cache::control_loop`] does at the same time: of an API that does not answer, 500
/// nodes wait five minutes once, and not four hours each time.
const AT_ONCE: usize = 16;
/// How long one of them may take. An API that answers needs a small part of it.
const WITHIN: Duration = Duration::from_secs(10);
/// The least between two looks at what is due.
const TOGETHER: Duration = Duration::from_millis(200);

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

    /// Waits until a kind has been listed once.
    pub async fn listed_once(&self, kind: Kind) {
        let mut changes = self.changes.subscribe();
        let is_listed = |_: &u64| self.lock().synced.contains(&kind);
        // The sender is ours, so waiting cannot fail.
        let _ = changes.wait_for(is_listed).await;
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

    /// Does what is due, now and after every change, [`AT_ONCE`] things at a time, and each [`WITHIN`] so
    /// long. Before the next ones it is read anew what is due, so that nothing is done that a change since
    /// made pointless. What failed is done again after a while, which gets longer, and what was not tried
    /// for longest comes first, so that nothing else waits for it. Ends never.
    pub async fn control_loop<T: Ord + Clone, F: Future<Output = bool>>(
        &self,
        due: impl Fn(&State) -> Vec<T>,
        succeeds: impl Fn(T) -> F,
    ) {
        let mut changes = self.changes();
        self.listed().await;
        let attempts = Attempts::new(BACKOFF);
        let mut waits: BTreeMap<T, Instant> = BTreeMap::new();
        // What was tried since the last change that was waited for.
        let mut tried = BTreeSet::new();
        loop {
            let all: BTreeSet<T> = self.read(&due).into_iter().collect();
            // What is not due any more, or is another thing by now, begins anew.
            waits.retain(|one, _| all.contains(one));
            attempts.retain(|one| all.contains(one));
            let now = Instant::now();
            let may = |one: &T| !tried.contains(one) && waits.get(one).is_none_or(|at| *at <= now);
            let mut next: Vec<T> = all.into_iter().filter(may).collect();
            if next.is_empty() {
                // The sender is ours, so waiting cannot fail.
                let changed = changes.changed();
                let _ = match waits.values().min() {
                    Some(at) => tokio::time::timeout_at(*at, changed).await,
                    None => Ok(changed.await),
                };
                // What changes together is seen together.
                tokio::time::sleep(TOGETHER).await;
                changes.mark_unchanged();
                tried.clear();
                continue;
            }
            next.sort_by_key(|one| waits.get(one).copied());
            next.truncate(AT_ONCE);
            let work = next.iter().map(|one| {
                let work = tokio::time::timeout(WITHIN, succeeds(one.clone()));
                async move { work.await.unwrap_or(false) }
            });
            let done = join_all(work).await;
            for (one, succeeded) in next.into_iter().zip(done) {
                if succeeded {
                    attempts.reset(&one);
                    waits.remove(&one);
                } else {
                    let wait = attempts.failed(&one);
                    waits.insert(one.clone(), Instant::now() + wait);
                }
                tried.insert(one);
            }
        }
    }

    /// A watch begins to list a kind anew.
    pub fn begin(&self, kind: Kind) {
        self.lock().listing.insert(kind, BTreeSet::new());
    }

    /// An object of this name is there and cannot be read: what was known of it holds.
    pub fn unreadable(&self, kind: Kind, name: String) {
        if let Some(listed) = self.lock().listing.get_mut(&kind) {
            listed.insert(name);
        }
    }

    /// An object of this name is gone that could not be read.
    pub fn forget(&self, kind: Kind, name: &str) {
        self.lock().state.retain(kind, |known| known != name);
        self.notify();
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
        state.retain(kind, |name| listed.contains(name));
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

#[cfg(test)]
mod tests;
