//! What one reconcile saw: a plain value, so that a plan can be tested on any world.
//!
//! Invariant: nothing here is fetched lazily; whatever a plan may depend on is a field.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::TenantCluster;
use api::tenant_cluster::NetworkStatus;
use serde_json::Value;
use tenant_cp::certificates::Material;
use tenant_cp::object::Key;
use tenant_cp::validate::Problem;

use super::plan::tenant_objects::Pods;
use crate::rollouts::queue::Answer;

/// Everything that a plan may depend on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The TenantCluster, read just now.
    pub cluster: TenantCluster,
    /// Address ranges: those in force, or those that are free now.
    pub network: Result<NetworkStatus, Problem>,
    /// All other TenantClusters, in any order.
    pub others: Vec<Arc<TenantCluster>>,
    /// Live objects: the tenant namespace, what is in it, and ours in the user's namespace.
    pub objects: BTreeMap<Key, Value>,
    /// Keys and certificates: read from the Secrets, or issued in this reconcile and not yet
    /// written.
    pub material: Material,
    /// Whether this tenant cluster may start its pods.
    pub start: Answer,
    /// Whether there are node pools or machines, so that there are (or will be) nodes.
    pub workers: bool,
    /// Whether the objects inside the tenant cluster have to be listed again.
    pub list_due: bool,
    /// What the tenant's API said when it was last asked in this reconcile.
    pub tenant: Tenant,
}

/// What the tenant's API said.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tenant {
    /// Not asked in this reconcile.
    #[default]
    NotAsked,
    /// It did not answer an authenticated request.
    Silent {
        /// Why, for people.
        message: String,
    },
    /// It answered an authenticated request.
    Answers {
        /// Version it serves, e.g. `1.35.4`.
        version: String,
        /// What is known of the objects inside.
        seen: Seen,
        /// Pods of those workloads that were asked about.
        pods: BTreeMap<Key, Pods>,
    },
}

/// What is known of the objects inside the tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Seen {
    /// They were not listed.
    #[default]
    Nothing,
    /// We have no right to list them.
    Hidden,
    /// All of them were applied just now.
    Applied,
    /// Everything that is labelled as ours.
    Objects(BTreeMap<Key, Value>),
}

impl Observed {
    /// A live object.
    #[must_use]
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&Key::new(kind, namespace, name))
    }

    /// Text at a JSON pointer of a live object.
    #[must_use]
    pub fn text(&self, kind: &str, namespace: &str, name: &str, pointer: &str) -> Option<&str> {
        self.object(kind, namespace, name)?
            .pointer(pointer)?
            .as_str()
    }

    /// Number at a JSON pointer of a live object; 0 where there is none, as Kubernetes leaves
    /// zero counts out.
    #[must_use]
    pub fn number(&self, kind: &str, namespace: &str, name: &str, pointer: &str) -> i64 {
        self.object(kind, namespace, name)
            .and_then(|o| o.pointer(pointer))
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    /// Takes in what the API server answered to a write.
    pub fn absorb(&mut self, key: Key, live: Value) {
        self.objects.insert(key, live);
    }
}
