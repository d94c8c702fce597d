//! Capacity of the management cluster: whether one machine more of a node pool finds a node and quota.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`kinds`] | nodes, pods and quotas, as far as they are read |
//! | [`read`] | what is kept of each (pure) |
//! | [`cache`] | all of them, summed up (pure) |
//! | [`decide`] | the answer for one machine more (pure) |
//! | [`watches`] | the watches, and which node pools they wake |
//!
//! Invariant: it informs, and holds nothing up: pods may be preempted, and nodes be added for one that
//! waits, so a machine is made whatever is said here. A node pool is woken when the answer it was
//! given last is no longer the answer, and otherwise never. [ADR 0005](../../docs/adr/0005-room-in-the-management-cluster.md)
//! says what is kept of other people's pods, and why.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::{NodePool, Reason};
use kube::runtime::reflector::ObjectRef;
use providers::Needs;
use tokio::sync::watch::{Receiver, Sender};

pub mod cache;
pub mod decide;
pub mod kinds;
pub mod read;
#[cfg(test)]
mod tests;
pub mod watches;

use crate::watches::kept::Keeper;
use cache::{Cache, Kind, WatchedObject};
pub use decide::Answer;

/// What the watches told, and who asked.
#[derive(Debug)]
pub struct Capacity {
    inner: Mutex<Inner>,
    changes: Sender<u64>,
}

#[derive(Debug)]
struct Inner {
    cache: Cache,
    asked: HashMap<ObjectRef<NodePool>, Asked>,
}

/// What a node pool asked, and was told.
#[derive(Debug)]
struct Asked {
    needs: Needs,
    namespace: String,
    told: Option<Reason>,
}

impl Capacity {
    /// Nothing seen yet; of nodes, these labels are read.
    #[must_use]
    pub fn new(labels: BTreeSet<String>) -> Self {
        let inner = Inner {
            cache: Cache::new(labels),
            asked: HashMap::new(),
        };
        Self {
            inner: Mutex::new(inner),
            changes: Sender::new(0),
        }
    }

    /// Whether one machine more of a pool fits. From now on the pool is woken when the answer becomes
    /// another one.
    pub fn ask(&self, pool: ObjectRef<NodePool>, needs: Needs, namespace: String) -> Answer {
        let mut inner = self.lock();
        let answer = decide::decide(&inner.cache, &needs, &namespace);
        let told = answer.said().map(|(_, reason)| reason);
        let asked = Asked {
            needs,
            namespace,
            told,
        };
        inner.asked.insert(pool, asked);
        answer
    }

    /// Whether something fits that is no machine, for somebody who is not woken when the answer becomes another one.
    #[must_use]
    pub fn read(&self, needs: &Needs, namespace: &str) -> Answer {
        decide::decide_by_what_is_kept(&self.lock().cache, needs, namespace)
    }

    /// Forgets a pool that is gone, or has nothing to ask.
    pub fn forget(&self, pool: &ObjectRef<NodePool>) {
        self.lock().asked.remove(pool);
    }

    /// Pools that were told something else than holds now.
    #[must_use]
    pub fn flipped(&self) -> Vec<ObjectRef<NodePool>> {
        let inner = self.lock();
        let flipped = inner.asked.iter().filter(|(_, asked)| {
            let answer = decide::decide(&inner.cache, &asked.needs, &asked.namespace);
            let now = answer.said().map(|(_, reason)| reason);
            // What was known once stays said while it is not known.
            now.is_some() && now != asked.told
        });
        flipped.map(|(pool, _)| pool.clone()).collect()
    }

    /// Waits until everything has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.changes.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = changes.wait_for(|_| self.lock().cache.is_listed()).await;
    }

    /// Nodes and pods that are kept.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        self.lock().cache.counts()
    }

    /// Told after every change that may matter.
    fn changes(&self) -> Receiver<u64> {
        self.changes.subscribe()
    }

    fn publish(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper for Capacity {
    type Kind = Kind;
    type Object = WatchedObject;

    fn begin(&self, kind: Kind) {
        self.lock().cache.begin(kind);
    }

    fn end(&self, kind: Kind) {
        self.lock().cache.end(kind);
        self.publish();
    }

    fn apply(&self, seen: &WatchedObject) {
        if self.lock().cache.apply(seen) {
            self.publish();
        }
    }

    fn delete(&self, seen: &WatchedObject) {
        if self.lock().cache.delete(seen) {
            self.publish();
        }
    }
}
