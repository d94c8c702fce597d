//! What makes a TenantCluster be looked at again: any change of anything that was applied for it.
//!
//! Invariant: every applied kind is watched, as metadata only; the reconcile reads bodies itself,
//! so a late or doubled event costs a look and changes nothing. Secrets are watched in one tenant
//! namespace at a time, because there is no cluster-wide right on them.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::TenantCluster;
use api::names::{LABEL_TENANT_NAME, LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{
    Namespace, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::tenant_cluster::observe::NOT_OF_MACHINES;

/// All watches over the whole management cluster.
pub fn owned(client: &Client) -> SelectAll<BoxStream<'static, ObjectRef<TenantCluster>>> {
    let mut all = SelectAll::new();
    all.push(kind::<Namespace>(client));
    all.push(kind::<RoleBinding>(client));
    all.push(kind::<Service>(client));
    all.push(kind::<ServiceAccount>(client));
    all.push(kind::<PersistentVolumeClaim>(client));
    all.push(kind::<NetworkPolicy>(client));
    all.push(kind::<PodDisruptionBudget>(client));
    all.push(kind::<StatefulSet>(client));
    all.push(kind::<Deployment>(client));
    all
}

fn kind<K>(client: &Client) -> BoxStream<'static, ObjectRef<TenantCluster>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static,
    K: serde::de::DeserializeOwned,
{
    let config = watcher::Config::default().labels(LABEL_TENANT_UID);
    owners(watcher(
        Api::<PartialObjectMeta<K>>::all(client.clone()),
        config,
    ))
    .boxed()
}

/// The TenantClusters of a stream of metadata events; deletions count, what is only relisted
/// after a reconnect counts too (it may have changed meanwhile).
fn owners<K>(
    events: impl Stream<Item = Result<Event<PartialObjectMeta<K>>, watcher::Error>> + Send,
) -> impl Stream<Item = ObjectRef<TenantCluster>> + Send
where
    K: Resource<DynamicType = ()> + Send,
{
    events.default_backoff().filter_map(|event| async move {
        match event {
            Ok(Event::Apply(o) | Event::InitApply(o) | Event::Delete(o)) => owner(&o.metadata),
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => {
                tracing::warn!(error = kit::errors::chain(&error), "watch is interrupted");
                None
            }
        }
    })
}

/// The TenantCluster that an object belongs to, by its labels.
#[must_use]
pub fn owner(meta: &ObjectMeta) -> Option<ObjectRef<TenantCluster>> {
    let labels = meta.labels.as_ref()?;
    let (name, namespace) = (
        labels.get(LABEL_TENANT_NAME)?,
        labels.get(LABEL_TENANT_NAMESPACE)?,
    );
    Some(ObjectRef::new(name).within(namespace))
}

/// One watch on Secrets per tenant namespace, as metadata only.
pub struct SecretWatches {
    client: Client,
    wake: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    tasks: Mutex<HashMap<String, JoinHandle<()>>>,
}

impl SecretWatches {
    /// No watches yet.
    #[must_use]
    pub fn new(client: Client, wake: mpsc::UnboundedSender<ObjectRef<TenantCluster>>) -> Self {
        Self {
            client,
            wake,
            tasks: Mutex::default(),
        }
    }

    /// Starts the watches of a tenant cluster, unless they run: all Secrets of the tenant
    /// namespace, and the one kubeconfig Secret in the user's.
    pub fn ensure(&self, uid: &str, tenant_namespace: &str, cluster: &ObjectRef<TenantCluster>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.get(uid).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let parts =
            Api::<PartialObjectMeta<Secret>>::namespaced(self.client.clone(), tenant_namespace);
        let user = cluster.namespace.clone().unwrap_or_default();
        let users = Api::<PartialObjectMeta<Secret>>::namespaced(self.client.clone(), &user);
        let name = format!(
            "metadata.name={}",
            api::names::kubeconfig_secret(&cluster.name)
        );
        let selected = watcher::Config::default().labels(NOT_OF_MACHINES);
        let parts = watcher(parts, selected);
        let users = watcher(users, watcher::Config::default().fields(&name));
        let (wake, cluster) = (self.wake.clone(), cluster.clone());
        let task = tokio::spawn(async move {
            let mut events =
                futures::stream::select(changes(parts).boxed(), changes(users).boxed());
            while events.next().await.is_some() {
                if wake.send(cluster.clone()).is_err() {
                    return;
                }
            }
        });
        tasks.insert(uid.to_owned(), task);
    }

    /// Ends the watches of a tenant cluster.
    pub fn forget(&self, uid: &str) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = tasks.remove(uid) {
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
        tasks.values().for_each(JoinHandle::abort);
    }
}

fn changes(
    events: impl Stream<Item = Result<Event<PartialObjectMeta<Secret>>, watcher::Error>> + Send,
) -> impl Stream<Item = ()> + Send {
    events.default_backoff().filter_map(|event| async move {
        match event {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => Some(()),
            Ok(Event::Init | Event::InitApply(_)) => None,
            Err(error) => {
                tracing::debug!(error = kit::errors::chain(&error), "watch is interrupted");
                None
            }
        }
    })
}
