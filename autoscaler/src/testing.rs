//! Objects that tests are about.
//!
//! Invariant: a version is never used twice, so that a later object is the newer one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::{Machine, NodePool};
use proto::autoscaler::ExternalGrpcNode;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::cache::state::{Kind, WatchEvent};
use crate::settings::Settings;

pub(crate) const UID: &str = "0a1b2c3d-0000-4000-8000-000000000001";

pub(crate) fn settings() -> Settings {
    Settings {
        namespace: "covey-demo-0a1b2c3d00".to_owned(),
        user_namespace: "team".to_owned(),
        cluster_name: "demo".to_owned(),
        cluster_uid: UID.to_owned(),
        ..Settings::default()
    }
}

fn version() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    (LAST.fetch_add(1, Ordering::Relaxed) + 1).to_string()
}

/// Merges `change` into `object`, as a newer version of it.
pub(crate) fn changed<K>(object: &K, change: Value) -> K
where
    K: serde::Serialize + serde::de::DeserializeOwned,
{
    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, change);
    merge(
        &mut value,
        json!({ "metadata": { "resourceVersion": version() } }),
    );
    if value["kind"] == "NodePool" {
        tell(&mut value);
    }
    serde_json::from_value(value).unwrap()
}

/// As the operator does once it has looked at a pool.
fn tell(pool: &mut Value) {
    let read: NodePool = serde_json::from_value(pool.clone()).unwrap();
    let places = read.spec.places().into_iter();
    let told = places.map(|place| api::node_pool::LocationStatus {
        name: place.shown().to_owned(),
        template: provider_kubevirt::template::node(&read.spec, place.provider),
        ..Default::default()
    });
    let told: Vec<_> = told.collect();
    merge(pool, json!({ "status": { "locations": told } }));
}

/// As a JSON merge patch (RFC 7396).
fn merge(value: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *value = change;
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    let Some(old) = value.as_object_mut() else {
        return;
    };
    for (key, change) in change {
        match change {
            Value::Null => drop(old.remove(&key)),
            change => merge(old.entry(key).or_insert(Value::Null), change),
        }
    }
}

/// A pool of two processors and 4Gi with so many replicas, and bounds.
pub(crate) fn pool(name: &str, replicas: i32, min: i32, max: i32) -> NodePool {
    let mut pool = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "NodePool",
        "metadata": { "name": name, "namespace": "team", "uid": format!("uid-{name}"),
            "generation": 1, "resourceVersion": version() },
        "spec": { "clusterName": "demo", "replicas": replicas,
            "autoscaling": { "min": min, "max": max }, "provider": { "kubevirt": {} } },
    });
    tell(&mut pool);
    serde_json::from_value(pool).unwrap()
}

/// A machine in this phase.
pub(crate) fn machine(name: &str, pool: &str, phase: &str) -> Machine {
    let machine = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
        "metadata": { "name": name, "namespace": "team", "uid": format!("uid-{name}"),
            "resourceVersion": version() },
        "spec": { "clusterName": "demo", "clusterUID": UID, "poolName": pool,
            "version": "1.35.4", "provider": { "kubevirt": {} } },
        "status": { "phase": phase },
    });
    serde_json::from_value(machine).unwrap()
}

/// A node with these labels and annotations.
pub(crate) fn node(name: &str, labels: Value, annotations: Value) -> WatchEvent {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name,
        "uid": format!("uid-{name}"), "resourceVersion": version(),
        "labels": labels, "annotations": annotations } });
    WatchEvent::Node(Box::new(serde_json::from_value(node).unwrap()))
}

pub(crate) fn pool_event(pool: &NodePool) -> WatchEvent {
    WatchEvent::Pool(Box::new(pool.clone()))
}

pub(crate) fn machine_event(machine: &Machine) -> WatchEvent {
    WatchEvent::Machine(Box::new(machine.clone()))
}

/// A cache in which just this was listed.
pub(crate) fn cache(seen: impl IntoIterator<Item = WatchEvent>) -> Arc<Cache> {
    let cache = Cache::new(&settings());
    for kind in Kind::ALL {
        cache.begin(kind);
    }
    for seen in seen {
        cache.apply(&seen);
    }
    for kind in Kind::ALL {
        cache.end(kind);
    }
    Arc::new(cache)
}

/// A node as the client names it.
pub(crate) fn named(machine: &str) -> ExternalGrpcNode {
    ExternalGrpcNode {
        provider_id: api::names::kubevirt_provider_id(machine),
        name: machine.to_owned(),
        ..ExternalGrpcNode::default()
    }
}
