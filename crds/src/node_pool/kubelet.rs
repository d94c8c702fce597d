//! Settings of the kubelets of a node pool.
//!
//! Invariant: what is left out is the kubelet's own default, and every text and map is bounded.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// Settings of the kubelets of a node pool (`kubelet.config.k8s.io/v1beta1`). A change replaces the
/// machines as `rollout` says.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kubelet {
    /// Most pods of a node, 1 to 1000. Each needs an address of the node's share of the pod range, so
    /// with flannel and shares of a /24 there can be 253. Default: 110. Example: 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub max_pods: Option<i32>,

    /// What programs of the operating system are left of `cpu`, `memory` and `ephemeral-storage`; pods
    /// do not get it. Default: none. Example: `{"cpu": "100m", "memory": "200Mi"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 3))]
    pub system_reserved: BTreeMap<String, Quantity>,

    /// What the kubelet and the container runtime are left, in the same way. Default: none.
    /// Example: `{"cpu": "100m", "memory": "300Mi"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 3))]
    pub kube_reserved: BTreeMap<String, Quantity>,

    /// What is left of the node when pods are evicted, by signal, as an amount or as a share: of
    /// `memory.available`, `nodefs.available`, `nodefs.inodesFree`, `imagefs.available`,
    /// `imagefs.inodesFree` and `pid.available`. A signal that is left out has the kubelet's default
    /// (100Mi, 10%, 5%, 15%, 5% and none). Default: these.
    /// Example: `{"memory.available": "500Mi", "nodefs.available": "5%"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 6, "additionalProperties" = {"type": "string", "minLength": 1, "maxLength": 32}))]
    pub eviction_hard: BTreeMap<String, String>,
}

impl Kubelet {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
