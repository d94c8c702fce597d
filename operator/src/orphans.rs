//! Orphans: tenant namespaces whose TenantCluster is gone, as the leader knows them.
//!
//! Invariant: nothing is decided here, and nothing has to survive a restart: since when a namespace is one
//! stands on itself.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PartialObjectMeta;
use serde_json::{Value, json};

/// Metadata of a tenant namespace.
pub type TenantNamespace = PartialObjectMeta<Namespace>;

/// How many are named in `/state`.
const NAMED: usize = 20;

/// Those that are known, by name, and since when.
#[derive(Debug, Default)]
pub struct Orphans(Mutex<BTreeMap<String, Timestamp>>);

impl Orphans {
    /// The namespace is one since then, or is none.
    pub fn set(&self, namespace: &str, since: Option<Timestamp>) {
        let mut orphans = self.lock();
        match since {
            Some(since) => orphans.insert(namespace.to_owned(), since),
            None => orphans.remove(namespace),
        };
    }

    /// Since when a namespace is one.
    #[must_use]
    pub fn since(&self, namespace: &str) -> Option<Timestamp> {
        self.lock().get(namespace).copied()
    }

    /// For `/state`: how many there are, and since when the first few.
    #[must_use]
    pub fn state(&self) -> Value {
        let orphans = self.lock();
        let named: BTreeMap<_, _> = orphans.iter().take(NAMED).collect();
        json!({ "count": orphans.len(), "since": named })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
