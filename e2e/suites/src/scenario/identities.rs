//! Which etcd cluster each tenant cluster of a test had: the same all its life, but for one that a Restore put another one
//! in the place of.
//!
//! Invariant: nothing is asked of a test, so none can forget it; what was never seen is no failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use api::{Restore, TenantCluster};
use futures::{StreamExt as _, future};
use kube::api::ListParams;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::task::JoinHandle;

/// Identifiers of etcd clusters, by name and UID of the TenantCluster.
type Seen = BTreeMap<(String, String), BTreeSet<String>>;

/// What was seen, until it is dropped.
pub(super) struct Identities {
    seen: Arc<Mutex<Seen>>,
    watch: JoinHandle<()>,
}

impl Identities {
    /// Begins to look.
    pub(super) fn watch(client: &Client, namespace: &str) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
        let noted = Arc::clone(&seen);
        let events = watcher(clusters, watcher::Config::default()).default_backoff();
        // It comes back by itself after an error; suites of the lab itself do without the kind.
        let changes = events.touched_objects().for_each(move |cluster| {
            if let Ok(cluster) = cluster {
                note(&noted, &cluster);
            }
            future::ready(())
        });
        Self {
            seen,
            watch: tokio::spawn(changes),
        }
    }

    /// Fails where one has another etcd cluster than before, and no Restore says why.
    ///
    /// # Errors
    /// With its name and what it had.
    pub(super) async fn check(&self, client: &Client, namespace: &str) -> Result<()> {
        let mut several = self
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        several.retain(|_, ids| ids.len() > 1);
        if several.is_empty() {
            return Ok(());
        }
        let restores: Api<Restore> = Api::namespaced(client.clone(), namespace);
        let restores = restores.list(&ListParams::default()).await?.items;
        for ((name, _), ids) in several {
            let mut restores = restores.iter();
            let is_restored = restores.any(|restore| restore.spec.cluster_name == name);
            ensure!(
                is_restored,
                "etcd of TenantCluster {name} was begun anew: it was {ids:?}, and nothing was restored"
            );
        }
        Ok(())
    }
}

impl Drop for Identities {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

fn note(seen: &Mutex<Seen>, cluster: &TenantCluster) {
    let etcd = cluster.status.as_ref().and_then(|s| s.etcd.as_ref());
    let id = etcd.and_then(|etcd| etcd.cluster_id.clone());
    if let (Some(id), Some(uid)) = (id, cluster.uid()) {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry((cluster.name_any(), uid))
            .or_default()
            .insert(id);
    }
}
