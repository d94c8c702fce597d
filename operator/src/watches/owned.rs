//! Watches on everything that was applied for TenantClusters: any change wakes the one it belongs to.
//!
//! Invariant: every applied kind is watched but Secrets, on which there is no cluster-wide right
//! ([`super::secrets`]), and tenant namespaces, which have a controller of their own. What lies
//! elsewhere than where the operator put it wakes nobody, whatever its labels say: anybody may write them.

use std::sync::Arc;

use api::TenantCluster;
use api::names::{
    LABEL_COMPONENT, LABEL_TENANT_NAME, LABEL_TENANT_NAMESPACE, LABEL_TENANT_UID, OPERATOR_BINDING,
    autoscaler_binding, tenant_namespace,
};
use api::tenant_cluster::TenantIdentity;
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kit_objects::kinds::Kind;
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::json;
use tenant_cp::{Settings, names};

use crate::parts::watched_everywhere;
use crate::pod_failures::{self, Pod};
use crate::state;
use crate::throttle::Throttle;

type Owners = BoxStream<'static, ObjectRef<TenantCluster>>;

/// All watches over the whole management cluster. `clusters` are those that there are; who has news waits
/// for no turn in `throttle`.
pub fn owned(
    client: &Client,
    clusters: &Store<TenantCluster>,
    throttle: &Throttle,
    settings: &Settings,
) -> SelectAll<Owners> {
    let mut all = SelectAll::new();
    all.extend(watched_everywhere().map(|kind| labelled(client, clusters, throttle, kind)));
    all.push(operator_bindings(client, clusters, settings));
    all.push(pods(client, clusters));
    all
}

fn labelled(
    client: &Client,
    clusters: &Store<TenantCluster>,
    throttle: &Throttle,
    kind: Kind,
) -> Owners {
    let config = watcher::Config::default().labels(LABEL_TENANT_UID);
    let (clusters, throttle) = (clusters.clone(), throttle.clone());
    let changes = changes(client, kind, config);
    let owners = changes.filter_map(move |change| {
        let owner = owner(&change.meta, &clusters);
        if let Some(owner) = owner.as_ref().filter(|_| change.is_news) {
            throttle.call(&state::key(owner));
        }
        std::future::ready(owner)
    });
    owners.boxed()
}

/// What lets the operator into namespaces. By name, because the one in a user's namespace has no
/// TenantCluster's labels: all of the namespace have it together.
fn operator_bindings(
    client: &Client,
    clusters: &Store<TenantCluster>,
    settings: &Settings,
) -> Owners {
    let config = watcher::Config::default().fields(&format!("metadata.name={OPERATOR_BINDING}"));
    let api = Api::<RoleBinding>::all(client.clone());
    let events = watcher(api, config).default_backoff();
    let (clusters, settings) = (clusters.clone(), settings.clone());
    let owners = events.flat_map(move |event| {
        let (binding, there) = match event {
            Ok(Event::Apply(binding) | Event::InitApply(binding)) => (binding, true),
            Ok(Event::Delete(binding)) => (binding, false),
            Ok(Event::Init | Event::InitDone) => return stream::iter(Vec::new()),
            Err(error) => {
                interrupted(&error);
                return stream::iter(Vec::new());
            }
        };
        let namespace = binding.metadata.namespace.as_deref().unwrap_or_default();
        let is_whole = there && is_whole(&binding, &settings);
        let mut users = users_of_binding(namespace, &clusters.state());
        users.retain(|user| !there || has_to_look(user, &binding, is_whole));
        let users = users.iter().map(|user| ObjectRef::from_obj(&**user));
        stream::iter(users.collect::<Vec<_>>())
    });
    owners.boxed()
}

/// Whether one that works by a binding has to look at it, because it is not as it was put there. That of a user's
/// namespace changes with each TenantCluster that comes or goes: were all of the namespace woken each time, a
/// hundred that are at rest would be read for each that is made. `is_whole`: [`is_whole`] of the binding.
fn has_to_look(user: &TenantCluster, binding: &RoleBinding, is_whole: bool) -> bool {
    let uid = user.metadata.uid.as_deref().unwrap_or_default();
    let mut owners = binding.metadata.owner_references.iter().flatten();
    let is_its_own = user.metadata.namespace != binding.metadata.namespace;
    is_its_own || !is_whole || !owners.any(|owner| owner.uid == uid)
}

/// Whether a binding has all that one in a user's namespace is to have, whoever owns it.
fn is_whole(binding: &RoleBinding, settings: &Settings) -> bool {
    let namespace = binding.metadata.namespace.as_deref().unwrap_or_default();
    let wanted = tenant_cp::desired::tenant_namespace::user_binding(namespace, settings).value;
    let labels = json!(binding.metadata.labels);
    let mut wanted_labels = wanted["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten();
    json!(binding.subjects) == wanted["subjects"]
        && json!(binding.role_ref) == wanted["roleRef"]
        && wanted_labels.all(|(key, value)| labels[key] == *value)
}

/// The TenantClusters of pods that do not run, or that are gone at last, which neither a StatefulSet nor a
/// Deployment says. That a pod runs again, those do.
fn pods(client: &Client, clusters: &Store<TenantCluster>) -> Owners {
    let components = format!(
        "{LABEL_TENANT_UID},{LABEL_COMPONENT} in ({},{},{},{})",
        names::ETCD,
        names::ETCD_EVENTS,
        names::CONTROL_PLANE,
        names::CONTROLLERS
    );
    let config = watcher::Config::default().labels(&components);
    let api = Api::<DeserializeGuard<Pod>>::all(client.clone());
    let (events, clusters) = (watcher(api, config).default_backoff(), clusters.clone());
    let failing = events.filter_map(move |event| {
        let owner = match event {
            // One that cannot be read is of somebody else's making.
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => pod.0.ok().and_then(|pod| {
                pod_failures::of(&pod)?;
                owner(&pod.metadata, &clusters)
            }),
            Ok(Event::Delete(pod)) => pod.0.ok().and_then(|pod| owner(&pod.metadata, &clusters)),
            Ok(_) => None,
            Err(error) => {
                interrupted(&error);
                None
            }
        };
        std::future::ready(owner)
    });
    failing.boxed()
}

fn interrupted(error: &watcher::Error) {
    tracing::warn!(
        error = kit_client::errors::chain(error),
        "watch is interrupted"
    );
}

/// What a watch tells of an object.
struct Change {
    meta: ObjectMeta,
    /// Not of what is listed.
    is_news: bool,
}

/// Metadata of what changed; deletions count, what is only relisted after a reconnect counts too (it may
/// have changed meanwhile). One that is not selected any more is told as it was before.
fn changes(
    client: &Client,
    kind: Kind,
    config: watcher::Config,
) -> impl Stream<Item = Change> + Send + 'static + use<> {
    let api = Api::<PartialObjectMeta>::all_with(client.clone(), &kind.resource());
    let events = watcher(api, config).default_backoff();
    events.filter_map(|event| async move {
        match event {
            Ok(Event::Apply(o) | Event::Delete(o)) => Some(Change {
                meta: o.metadata,
                is_news: true,
            }),
            Ok(Event::InitApply(o)) => Some(Change {
                meta: o.metadata,
                is_news: false,
            }),
            Ok(Event::Init | Event::InitDone) => None,
            Err(error) => {
                interrupted(&error);
                None
            }
        }
    })
}

/// The TenantCluster that an object belongs to: the one that its labels name, where it is there and the
/// object is its tenant namespace, lies in that, or is its autoscaler's binding.
#[must_use]
pub fn owner(
    meta: &ObjectMeta,
    clusters: &Store<TenantCluster>,
) -> Option<ObjectRef<TenantCluster>> {
    let label = |key: &str| meta.labels.as_ref()?.get(key).map(String::as_str);
    let (name, namespace) = (label(LABEL_TENANT_NAME)?, label(LABEL_TENANT_NAMESPACE)?);
    let uid = label(LABEL_TENANT_UID)?;
    let own_name = meta.name.as_deref()?;
    let place = meta.namespace.as_deref().unwrap_or(own_name);
    let is_binding = place == namespace && own_name == autoscaler_binding(name);
    if place != tenant_namespace(name, uid) && !is_binding {
        return None;
    }
    let owner = ObjectRef::new(name).within(namespace);
    let identity = TenantIdentity {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        uid: uid.to_owned(),
    };
    // What lies in a user's namespace is called as the user calls it.
    let bears = |cluster: &TenantCluster| match is_binding {
        true => cluster.identity_uid() == uid,
        false => cluster.identity() == identity,
    };
    if clusters.get(&owner).is_some_and(|found| bears(&found)) {
        return Some(owner);
    }
    // Labels never change: what was taken over has those of whom it was made for.
    let all = clusters.state();
    let found = all.iter().find(|cluster| !is_binding && bears(cluster));
    found.map(|cluster| ObjectRef::from_obj(&**cluster))
}

/// The TenantClusters that work by the operator's binding in a namespace: all of a user's namespace, or the
/// one that a tenant namespace is of.
fn users_of_binding(namespace: &str, clusters: &[Arc<TenantCluster>]) -> Vec<Arc<TenantCluster>> {
    let works_by_it = |cluster: &&Arc<TenantCluster>| {
        cluster.metadata.namespace.as_deref() == Some(namespace)
            || cluster.tenant_namespace() == namespace
    };
    clusters.iter().filter(works_by_it).cloned().collect()
}

#[cfg(test)]
mod tests;
