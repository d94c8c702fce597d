//! Nodes and ServiceCIDRs of the management cluster, as far as their ranges depend on them.
//!
//! Invariant: a field that is not named here is dropped while an answer is read.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1 as networking;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;

/// A node.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Node)]
pub struct Node {
    /// Name.
    pub metadata: ObjectMeta,
    /// Its pods' ranges.
    #[serde(default)]
    pub spec: NodeSpec,
    /// Its own addresses.
    #[serde(default)]
    pub status: NodeStatus,
}

/// What a node's pods have addresses of.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// One range of each family.
    #[serde(default, rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
}

/// Where a node is.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeStatus {
    /// Addresses, and names.
    #[serde(default)]
    pub addresses: Vec<NodeAddress>,
}

/// An address of a node, or its name.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NodeAddress {
    /// The address.
    #[serde(default)]
    pub address: String,
}

/// A range of Services.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = networking::ServiceCIDR)]
pub struct ServiceCidr {
    /// Name.
    pub metadata: ObjectMeta,
    /// The ranges.
    #[serde(default)]
    pub spec: ServiceCidrSpec,
}

/// The ranges of a ServiceCIDR.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ServiceCidrSpec {
    /// One of each family.
    #[serde(default)]
    pub cidrs: Vec<String>,
}
