//! Watches on the Leases by which requests wake tenant clusters that sleep, and on the activator's pods, in the operator's
//! own namespace.
//!
//! Invariant: metadata only, and of nothing else in that namespace: what they say is read by the reconcile.

use std::fmt::Debug;

use api::{TenantCluster, names};
use futures::stream::{self, BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::hibernation;

/// TenantClusters that somebody asks to wake, and those that sleep whenever a pod of the activator comes, changes or goes.
pub fn asked(
    client: &Client,
    namespace: &str,
    clusters: &Store<TenantCluster>,
) -> BoxStream<'static, ObjectRef<TenantCluster>> {
    let leases = Api::<PartialObjectMeta<Lease>>::namespaced(client.clone(), namespace);
    let pods = Api::<PartialObjectMeta<Pod>>::namespaced(client.clone(), namespace);
    let activators = format!("{}={}", names::LABEL_COMPONENT, names::COMPONENT_ACTIVATOR);
    let (known, sleepers) = (clusters.clone(), clusters.clone());
    let woken = seen(leases, names::LABEL_TENANT_UID).flat_map(move |lease| {
        let uid = lease.labels().get(names::LABEL_TENANT_UID).cloned();
        let found = known.find(|cluster| uid.as_deref() == Some(cluster.identity_uid()));
        stream::iter(found.map(|cluster| ObjectRef::from_obj(&*cluster)))
    });
    let moved = seen(pods, &activators).flat_map(move |_| {
        let all = sleepers.state();
        let all = all
            .iter()
            .filter(|cluster| hibernation::is_left_alone(cluster));
        let all: Vec<_> = all.map(|cluster| ObjectRef::from_obj(&**cluster)).collect();
        stream::iter(all)
    });
    SelectAll::from_iter([woken.boxed(), moved.boxed()]).boxed()
}

/// What comes, changes or goes of these.
fn seen<K>(
    api: Api<PartialObjectMeta<K>>,
    labels: &str,
) -> impl Stream<Item = PartialObjectMeta<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = watcher(api, watcher::Config::default().labels(labels));
    events.default_backoff().filter_map(|event| {
        let found = match event {
            Ok(Event::Apply(object) | Event::Delete(object) | Event::InitApply(object)) => {
                Some(object)
            }
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => {
                let error = kit_client::errors::chain(&error);
                tracing::warn!(kind = K::kind(&()).as_ref(), error, "watch is interrupted");
                None
            }
        };
        std::future::ready(found)
    })
}
