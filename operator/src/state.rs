//! State of a controller, about the objects that it reconciles: failures in a row, since when they
//! are due, metrics, and how it publishes Events.
//!
//! Invariant: nothing in here decides anything, and nothing has to survive a restart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kit::admin::Progress;
use kit::events::Publisher;
use kit::metrics::Controller;
use kit::panics::{self, Panicked};
use kit_client::backoff::{Attempts, Backoff};
use kit_client::errors::{Class, Classify};
use kube::Resource;
use kube::runtime::controller::Action as Requeue;
use kube::runtime::reflector::{Lookup, ObjectRef};

/// Failures in a row after which users are told of one that may go away by itself.
const TOLD_AFTER: u32 = 3;

/// State of one controller.
pub struct ControllerState {
    /// Event publisher.
    pub events: Publisher,
    /// Metrics.
    pub metrics: Controller,
    /// Failures in a row, per object (`namespace/name`).
    pub attempts: Attempts<String>,
    /// Since when an object (`namespace/name`) is due.
    due: Mutex<HashMap<String, Instant>>,
}

impl ControllerState {
    /// An empty one. Failed reconciles are tried again after 0.2 s, doubling, at most 60 s, with
    /// jitter.
    #[must_use]
    pub fn new(events: Publisher, metrics: Controller) -> Self {
        Self {
            events,
            metrics,
            attempts: Attempts::new(Backoff::new(
                Duration::from_millis(200),
                Duration::from_secs(60),
            )),
            due: Mutex::default(),
        }
    }

    /// Notes that an object is due, unless it was already.
    pub fn is_due<K: Lookup>(&self, object: &ObjectRef<K>) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.entry(key(object)).or_insert_with(Instant::now);
    }

    /// How many objects are due, and wait for their turn.
    #[must_use]
    pub fn depth(&self) -> usize {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.len()
    }

    /// Does the work of one reconcile, measured, and watched over by `progress`. Its panic is a failure of this
    /// object alone.
    ///
    /// # Errors
    /// Those of the work, and [`Panicked`].
    pub fn measure<T, E: Classify + From<Panicked>>(
        &self,
        progress: &Progress,
        key: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> impl Future<Output = Result<T, E>> {
        // On the heap before anything waits: reconciles are large futures.
        let work = Box::pin(work);
        async move {
            let in_hand = progress.begin();
            let run = self.metrics.begin(self.queue_age(key));
            let done = panics::contained(work).await;
            let result = done.unwrap_or_else(|panicked| Err(panicked.into()));
            run.finish(result.as_ref().err().map(Classify::class));
            drop(in_hand);
            result
        }
    }

    /// Whether users are told of a failure of this class.
    pub fn is_told(&self, key: &str, class: Class) -> bool {
        matches!(class, Class::Invalid | Class::Bug)
            || self.attempts.count(&key.to_owned()) >= TOLD_AFTER
    }

    /// When to reconcile again after a success.
    pub fn succeeded(&self, key: &str, requeue_after: Option<Duration>) -> Requeue {
        self.attempts.reset(&key.to_owned());
        requeue_after.map_or_else(Requeue::await_change, Requeue::requeue)
    }

    /// How long an object waited for its turn; zero where only time made it due.
    fn queue_age(&self, key: &str) -> Duration {
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
    pub fn retry(&self, key: &str, class: Class) -> Duration {
        let wait = self.attempts.failed(&key.to_owned());
        match class {
            Class::Conflict => wait.min(Duration::from_millis(500)),
            Class::Transient => wait,
            Class::Invalid | Class::Bug => wait.max(Duration::from_secs(5)),
        }
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
