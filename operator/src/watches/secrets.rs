//! Watches on Secrets: all of a tenant namespace, and the one kubeconfig Secret in the user's.
//!
//! Invariant: one tenant namespace at a time, because there is no cluster-wide right on Secrets.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::{TenantCluster, names};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// For whom Secrets are watched, and what does.
type Watched = (ObjectRef<TenantCluster>, JoinHandle<()>);

/// The watches.
pub struct SecretWatches {
    client: Client,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    tasks: Mutex<HashMap<String, Watched>>,
}

impl SecretWatches {
    /// No watches yet.
    #[must_use]
    pub fn new(client: Client, clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>) -> Self {
        Self {
            client,
            clusters,
            tasks: Mutex::default(),
        }
    }

    /// Starts the watches of a tenant cluster, unless they run: all Secrets of the tenant
    /// namespace, and the one kubeconfig Secret in the user's.
    pub fn ensure(&self, uid: &str, tenant_namespace: &str, cluster: &ObjectRef<TenantCluster>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Another TenantCluster may have taken over what was made for the first.
        if let Some((of, task)) = tasks.get(uid)
            && of == cluster
            && !task.is_finished()
        {
            return;
        }
        let parts =
            Api::<PartialObjectMeta<Secret>>::namespaced(self.client.clone(), tenant_namespace);
        let user = cluster.namespace.clone().unwrap_or_default();
        let users = Api::<PartialObjectMeta<Secret>>::namespaced(self.client.clone(), &user);
        let name = format!("metadata.name={}", names::kubeconfig_secret(&cluster.name));
        let selected = watcher::Config::default().labels(names::NOT_OF_MACHINES);
        let parts = watcher(parts, selected);
        let users = watcher(users, watcher::Config::default().fields(&name));
        let of = cluster.clone();
        let (clusters, cluster) = (self.clusters.clone(), cluster.clone());
        let task = tokio::spawn(async move {
            let mut events =
                futures::stream::select(changes(parts).boxed(), changes(users).boxed());
            while events.next().await.is_some() {
                if clusters.send(cluster.clone()).is_err() {
                    return;
                }
            }
        });
        if let Some((_, before)) = tasks.insert(uid.to_owned(), (of, task)) {
            before.abort();
        }
    }

    /// Ends the watches of a tenant cluster.
    pub fn forget(&self, uid: &str) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, task)) = tasks.remove(uid) {
            task.abort();
        }
    }

    /// Number of tenant clusters whose Secrets are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// True when nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for SecretWatches {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.values().for_each(|(_, task)| task.abort());
    }
}

/// That something changed, or was listed anew.
pub(super) fn changes(
    events: impl Stream<Item = Result<Event<PartialObjectMeta<Secret>>, watcher::Error>> + Send,
) -> impl Stream<Item = ()> + Send {
    events.default_backoff().filter_map(|event| async move {
        match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(()),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Err(error) => {
                tracing::debug!(
                    error = kit_client::errors::chain(&error),
                    "watch is interrupted"
                );
                None
            }
        }
    })
}
