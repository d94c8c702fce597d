//! Where pods of tenant namespaces run, and what users may choose of it, as plain data.
//!
//! Invariant: what is left out changes no pod and allows no choice; of machines' pods nothing is said
//! here ([`super::providers`]).

use std::collections::BTreeMap;

use api::tenant_cluster::Spread;
use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Serialize};

/// Pods of control planes, of etcd and of addons in tenant namespaces. A change replaces these pods in
/// all tenant clusters, some at a time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct TenantPods {
    /// Labels of the management cluster's nodes that may run them. Default: all nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that they tolerate. Default: none.
    pub tolerations: Vec<Toleration>,
    /// Whether two of a kind may share a node, where users do not say. Default: `Preferred`, where
    /// there is no other.
    pub spread: Spread,
    /// PriorityClass, where users name none. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// RuntimeClass, where users name none. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// What users may choose.
    pub allowed: SchedulingPolicy,
}

/// What users may choose of where their tenant cluster's pods run, and of what these are called.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SchedulingPolicy {
    /// Keys of labels that they may ask of nodes. Default: none.
    pub node_labels: Vec<String>,
    /// Keys of taints that they may tolerate. Default: none.
    pub taints: Vec<String>,
    /// PriorityClasses. Default: none but the platform's.
    pub priority_classes: Vec<String>,
    /// RuntimeClasses. Default: none but the platform's.
    pub runtime_classes: Vec<String>,
    /// Keys of labels of pods of control planes and etcd; one that ends in `/` stands for all with this prefix.
    /// Default: none.
    pub pod_labels: Vec<String>,
    /// Keys of annotations of these pods, in the same way. Others in the management cluster may act on them
    /// (networks, meshes). Default: none.
    pub pod_annotations: Vec<String>,
}
