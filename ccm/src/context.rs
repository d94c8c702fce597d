//! Context of the controllers: the handles that all reconciles share.
//!
//! Invariant: whoever uses it is not imported here.

use std::sync::Arc;
use std::time::Duration;

use kit::admin::Progress;
use kit::events::Publisher;
use kit::metrics::Controller;
use kit::workqueue::{Priority, Queue};
use kit_client::backoff::Attempts;

use crate::cache::Cache;
use crate::cache::events::{Change, Write};
use crate::cache::heartbeats::Heartbeats;
use crate::cache::triggers::{self, Key};
use crate::client::Client;
use crate::pending::Pending;
use crate::settings::Settings;

/// How long changes of nodes are gathered before every load balancer is looked at.
const TOGETHER: Duration = Duration::from_millis(200);

/// What every reconcile shares.
pub struct Context {
    /// Requests to both APIs.
    pub client: Client,
    /// What can be configured.
    pub settings: Arc<Settings>,
    /// What the watches told.
    pub cache: Arc<Cache>,
    /// Who is next.
    pub queue: Queue<Key>,
    /// Kubelets that were listened to.
    pub heartbeats: Heartbeats,
    /// Events in the tenant cluster.
    pub events: Publisher,
    /// Metrics of nodes.
    pub nodes: Controller,
    /// Metrics of Services.
    pub services: Controller,
    /// What is not as it is to be yet.
    pub pending: Arc<Pending>,
    /// Failures in a row.
    pub attempts: Attempts<Key>,
    /// Whether reconciles come to an end.
    pub progress: Progress,
}

impl Context {
    /// Queues whom changes concern.
    pub fn on_change(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        for (key, priority) in self.cache.read(|state| triggers::triggered(state, changes)) {
            match key {
                Key::LoadBalancers => self.queue.throttle(key, TOGETHER, priority),
                key => self.queue.add_with(key, priority),
            }
        }
    }

    /// Queues every Service that has a load balancer, to take out what is dead.
    pub fn queue_balanced(&self) {
        for key in self.cache.read(triggers::balanced) {
            self.queue.add_with(key, Priority::Urgent);
        }
    }

    /// Believes an answer at once, so the next plan does not depend on how late a watch is.
    pub fn observe_write(&self, write: Write) {
        self.on_change(&self.cache.observe_write(write));
    }

    /// Queues everything that there is, and orphans.
    pub fn queue_all(&self) {
        self.add_all(self.cache.read(triggers::everything));
    }

    /// Queues what has no Service any more.
    pub fn queue_orphans(&self) {
        self.add_all(self.cache.read(triggers::orphans));
    }

    fn add_all(&self, keys: Vec<Key>) {
        for key in keys {
            let priority = key.priority();
            self.queue.add_with(key, priority);
        }
    }
}
