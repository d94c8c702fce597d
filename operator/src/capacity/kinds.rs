//! Nodes, pods and quotas of the management cluster, as far as room depends on them.
//!
//! Invariant: a field that is not named here is dropped while an answer is read, so a page of a list
//! costs what it says about capacity, and not what a whole pod does.

use std::collections::BTreeMap;

use api::Quantity;
use k8s_openapi::api::core::v1 as core;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;

/// A node.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Node)]
pub struct Node {
    /// Name and labels.
    pub metadata: ObjectMeta,
    /// Who may run there.
    #[serde(default)]
    pub spec: NodeSpec,
    /// What there is.
    #[serde(default)]
    pub status: NodeStatus,
}

/// Who may run on a node.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeSpec {
    /// It was cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    /// Who does not tolerate them stays away.
    #[serde(default)]
    pub taints: Vec<core::Taint>,
}

/// What a node has.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeStatus {
    /// What pods may have of it.
    #[serde(default)]
    pub allocatable: Allocatable,
}

/// What all pods of a node may have together.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Allocatable {
    /// Cores.
    pub cpu: Option<Quantity>,
    /// Bytes.
    pub memory: Option<Quantity>,
    /// Bytes of the node's own disk.
    #[serde(rename = "ephemeral-storage")]
    pub ephemeral_storage: Option<Quantity>,
    /// How many pods.
    pub pods: Option<Quantity>,
}

/// A pod.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Pod)]
pub struct Pod {
    /// Its UID.
    pub metadata: ObjectMeta,
    /// What it asks for.
    #[serde(default)]
    pub spec: PodSpec,
    /// Whether it is over.
    #[serde(default)]
    pub status: PodStatus,
}

/// What a pod asks for, and where it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// Where it runs, or is about to.
    pub node_name: Option<String>,
    /// They run together.
    #[serde(default)]
    pub containers: Vec<Container>,
    /// They run before these, one after another; those that start again run beside them.
    #[serde(default)]
    pub init_containers: Vec<Container>,
    /// What its runtime needs on top.
    #[serde(default)]
    pub overhead: Amounts,
    /// What the pod asks for as a whole (KEP-2837); it goes before what its containers ask for.
    #[serde(default)]
    pub resources: Resources,
}

/// What a container asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Requests.
    #[serde(default)]
    pub resources: Resources,
    /// `Always`: an init container that runs on.
    pub restart_policy: Option<String>,
}

/// Requests; limits are of no interest to a scheduler.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Resources {
    /// What is reserved.
    #[serde(default)]
    pub requests: Amounts,
}

/// What machines run out of.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Amounts {
    /// Cores.
    pub cpu: Option<Quantity>,
    /// Bytes.
    pub memory: Option<Quantity>,
    /// Bytes of the node's own disk.
    #[serde(rename = "ephemeral-storage")]
    pub ephemeral_storage: Option<Quantity>,
}

/// Whether a pod is over.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PodStatus {
    /// `Succeeded` and `Failed` are the end.
    pub phase: Option<String>,
}

/// A quota of a namespace.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::ResourceQuota)]
pub struct ResourceQuota {
    /// Name and namespace.
    pub metadata: ObjectMeta,
    /// Whose resources it counts.
    #[serde(default)]
    pub spec: QuotaSpec,
    /// What there is of it, as its controller counted.
    #[serde(default)]
    pub status: QuotaStatus,
}

/// Whose resources a quota counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaSpec {
    /// Only of what is in each of these.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The same, with values.
    pub scope_selector: Option<core::ScopeSelector>,
}

/// What there is of a quota.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct QuotaStatus {
    /// The most there may be.
    #[serde(default)]
    pub hard: BTreeMap<String, Quantity>,
    /// What there is.
    #[serde(default)]
    pub used: BTreeMap<String, Quantity>,
}
