//! Reserved ranges of the management cluster, found from its nodes and ServiceCIDRs, and the settings
//! that are in force with them.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`kinds`] | nodes and ServiceCIDRs, as far as they are read |
//! | [`cache`] | the ranges of each (pure) |
//! | [`watches`] | the watches, and what wakes reconciles |
//!
//! What is made of them is `tenant_cp::network::reserved`.
//! Invariant: kept in every replica, and in those of the webhook, which decides by them too; nobody is woken
//! but by settings that are others than before.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenant_cp::Settings;
use tenant_cp::network::reserved;
use tokio::sync::watch::{Receiver, Sender};

pub mod cache;
pub mod kinds;
#[cfg(test)]
mod tests;
pub mod watches;

use crate::watches::kept::Keeper;
use cache::{Cache, Kind, WatchedObject};

/// What the watches told, and the settings that follow.
#[derive(Debug)]
pub struct ReservedRanges {
    configured: Settings,
    cache: Mutex<Cache>,
    in_force: Sender<Arc<Settings>>,
}

impl ReservedRanges {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(configured: Settings) -> Self {
        let cache = Cache::default();
        let settings = in_force(&configured, &cache);
        Self {
            configured,
            cache: Mutex::new(cache),
            in_force: Sender::new(Arc::new(settings)),
        }
    }

    /// The settings in force: those configured, with the ranges that were found.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.in_force.borrow())
    }

    /// Waits until everything has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.in_force.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = changes.wait_for(|_| self.lock().is_listed()).await;
    }

    /// Told of new settings.
    fn changes(&self) -> Receiver<Arc<Settings>> {
        self.in_force.subscribe()
    }

    /// The API does not know the kind.
    fn not_served(&self, kind: Kind) {
        self.begin(kind);
        self.end(kind);
    }

    fn publish(&self, changed: bool) {
        if !changed {
            return;
        }
        let settings = in_force(&self.configured, &self.lock());
        self.in_force.send_if_modified(|known| {
            let news = known.network != settings.network;
            if news {
                tracing::info!(
                    reserved = ?settings.network.reserved,
                    unknown = settings.network.reserved_unknown.is_some(),
                    "other ranges are reserved"
                );
                *known = Arc::new(settings);
            }
            news
        });
    }

    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper for ReservedRanges {
    type Kind = Kind;
    type Object = WatchedObject;

    fn begin(&self, kind: Kind) {
        self.lock().begin(kind);
    }

    fn end(&self, kind: Kind) {
        let changed = self.lock().end(kind);
        self.publish(changed);
    }

    fn apply(&self, seen: &WatchedObject) {
        let changed = self.lock().apply(seen);
        self.publish(changed);
    }

    fn delete(&self, seen: &WatchedObject) {
        let changed = self.lock().delete(seen);
        self.publish(changed);
    }
}

fn in_force(configured: &Settings, cache: &Cache) -> Settings {
    Settings {
        network: reserved::in_force(&configured.network, &cache.found()),
        ..configured.clone()
    }
}
