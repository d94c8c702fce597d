//! Cache of watched nodes, machines, Services and EndpointSlices of both clusters.
//!
//! It knows neither queue nor plans: it gives what changed, [`triggers`] turn that into keys, and
//! each controller's `observe` makes of it what a plan sees.
//! Invariant: nothing is read from here before every watch has been through once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kit::events::Notice;
use tokio::sync::Notify;

use crate::cache::events::{Change, Kind, WatchEvent, Write};
use crate::cache::services::Accepted;
use crate::cache::state::State;
use crate::limits::Over;
use crate::settings::Settings;

pub mod endpoint_slices;
pub mod events;
pub mod heartbeats;
pub mod objects;
pub mod services;
pub mod state;
pub mod triggers;
pub mod watches;

/// Shared by watches and reconciles.
pub struct Cache {
    state: Mutex<State>,
    listed: Notify,
}

impl Cache {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            state: Mutex::new(State::new(settings)),
            listed: Notify::new(),
        }
    }

    /// What is not listed yet.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        self.lock().missing()
    }

    /// Waits until everything has been listed once.
    pub async fn listed(&self) {
        loop {
            let listed = self.listed.notified();
            if self.missing().is_empty() {
                return;
            }
            listed.await;
        }
    }

    /// A watch begins to list anew.
    pub fn begin(&self, kind: Kind) {
        self.lock().begin(kind);
    }

    /// A watch has listed everything: what it did not tell of is gone.
    #[must_use]
    pub fn end(&self, kind: Kind) -> Vec<Change> {
        let changes = self.lock().end(kind);
        self.listed.notify_waiters();
        changes
    }

    /// Something is there, or is otherwise than it was.
    #[must_use]
    pub fn put(&self, event: WatchEvent) -> Vec<Change> {
        let kind = event.kind();
        let changes = self.lock().put(event);
        if kind == Kind::Addresses {
            self.listed.notify_waiters();
        }
        changes
    }

    /// Something is there and cannot be read: what was known of it holds.
    pub fn unreadable(&self, kind: Kind, meta: &ObjectMeta) {
        self.lock().unreadable(kind, meta);
    }

    /// Something is gone.
    #[must_use]
    pub fn remove(&self, kind: Kind, meta: &ObjectMeta) -> Vec<Change> {
        self.lock().remove(kind, meta)
    }

    /// A write was answered: that is believed at once.
    #[must_use]
    pub fn observe_write(&self, write: Write) -> Vec<Change> {
        self.lock().observe_write(write)
    }

    /// What the mirror of a Service became when it was applied, if not what was asked for.
    pub fn accept(&self, uid: &str, accepted: Option<Accepted>) {
        self.lock().accept(uid, accepted);
    }

    /// Gives a Service the place that its load balancer needs, or says which limit it is over.
    /// Also what changed by it.
    #[must_use]
    pub fn admit(&self, uid: &str) -> (Option<Over>, Option<Change>) {
        self.lock().admit(uid)
    }

    /// The mirror of a Service was refused: its place is free. Also what changed by it.
    #[must_use]
    pub fn release(&self, uid: &str) -> Option<Change> {
        self.lock().release(uid)
    }

    /// The mirror of a Service was written, and nobody answered: its place stays given.
    pub fn doubt(&self, uid: &str) {
        self.lock().doubt(uid);
    }

    /// The API was asked for the mirror of a Service, and its answer was observed.
    pub fn settle(&self, uid: &str) {
        self.lock().settle(uid);
    }

    /// Reads what there is; nobody changes it meanwhile.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    /// Whether these complaints about a Service are news; what is said once is not said again while
    /// it lasts.
    pub fn are_news(&self, uid: &str, complaints: &[Notice]) -> bool {
        self.lock().are_news(uid, complaints)
    }

    /// Complaints about this Service could not be published: they are news the next time.
    pub fn was_not_told(&self, uid: &str) {
        self.lock().was_not_told(uid);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
