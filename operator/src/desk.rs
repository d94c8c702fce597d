//! What a controller keeps about the objects that it reconciles: failures in a row, since when they
//! are due, metrics, and how it publishes Events.
//!
//! Invariant: nothing in here decides anything, and nothing has to survive a restart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kit::backoff::Attempts;
use kit::errors::Class;
use kit::events::Publisher;
use kit::metrics::Controller;
use kube::Resource;
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::{Lookup, ObjectRef};

use crate::context::Context;

/// Of one controller.
pub struct Desk {
    /// Event publisher.
    pub events: Publisher,
    /// Metrics.
    pub metrics: Controller,
    /// Failures in a row, per object (`namespace/name`).
    pub attempts: Attempts<String>,
    /// Since when an object (`namespace/name`) is due.
    due: Mutex<HashMap<String, Instant>>,
}

impl Desk {
    /// An empty one.
    #[must_use]
    pub fn new(events: Publisher, metrics: Controller) -> Self {
        Self {
            events,
            metrics,
            attempts: Context::attempts(),
            due: Mutex::default(),
        }
    }

    /// Notes that an object is due, unless it was already.
    pub fn is_due<K: Lookup>(&self, object: &ObjectRef<K>) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.entry(key(object)).or_insert_with(Instant::now);
    }

    /// How long an object waited for its turn; zero where only time made it due.
    pub fn queue_age(&self, key: &str) -> Duration {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.remove(key)
            .map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &str, uid: &str) {
        self.attempts.reset(&key.to_owned());
        self.queue_age(key);
        self.metrics.waiting(uid, None);
    }

    /// When to try again after a failure: the class decides.
    pub fn retry(&self, key: &str, class: Class) -> Requeue {
        let wait = self.attempts.failed(&key.to_owned());
        Requeue::requeue(match class {
            Class::Conflict => wait.min(Duration::from_millis(500)),
            Class::Transient => wait,
            Class::Invalid | Class::Bug => wait.max(Duration::from_secs(5)),
        })
    }
}

/// `namespace/name`.
#[must_use]
pub fn key<K: Lookup>(object: &ObjectRef<K>) -> String {
    format!(
        "{}/{}",
        object.namespace.as_deref().unwrap_or_default(),
        object.name
    )
}

/// `namespace/name`.
#[must_use]
pub fn key_of<K: Resource>(object: &K) -> String {
    let meta = object.meta();
    format!(
        "{}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    )
}
