//! Watches on everything that was applied for TenantClusters: any change wakes the one it belongs to.
//!
//! Invariant: every applied kind is watched but Secrets, on which there is no cluster-wide right
//! ([`super::secrets`]).

use api::TenantCluster;
use api::names::{LABEL_COMPONENT, LABEL_TENANT_NAME, LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tenant_cp::names;

use crate::pod_failures::{self, Pod};

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
    all.push(pods(client));
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

/// The TenantClusters of pods that do not run, or that are gone at last, which neither a StatefulSet nor a
/// Deployment says. That a pod runs again, those do.
fn pods(client: &Client) -> BoxStream<'static, ObjectRef<TenantCluster>> {
    let components = format!(
        "{LABEL_TENANT_UID},{LABEL_COMPONENT} in ({},{})",
        names::ETCD,
        names::CONTROL_PLANE
    );
    let config = watcher::Config::default().labels(&components);
    let api = Api::<DeserializeGuard<Pod>>::all(client.clone());
    let events = watcher(api, config).default_backoff();
    events
        .filter_map(|event| async move {
            match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                    // One that cannot be read is of somebody else's making.
                    let pod = pod.0.ok()?;
                    pod_failures::of(&pod)?;
                    owner(&pod.metadata)
                }
                Ok(Event::Delete(pod)) => owner(&pod.0.ok()?.metadata),
                Ok(_) => None,
                Err(error) => {
                    interrupted(&error);
                    None
                }
            }
        })
        .boxed()
}

fn interrupted(error: &watcher::Error) {
    tracing::warn!(error = kit::errors::chain(error), "watch is interrupted");
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
                interrupted(&error);
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
