//! The status of a Host: what the operator saw of the machine, and who has it.
//!
//! Invariant: every field is written by the operator alone and only when it changes; a Host has a claim from
//! before anything is done for a Machine until it is proven that nothing of that is left.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// What the operator saw.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Where the machine is in its life. Example: `Available`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<HostPhase>,

    /// Which Machine has it; absent while none has. It stays until the machine is proven clean.
    /// Example: `{"machineName": "workers-x2k9p", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<HostClaim>,

    /// What the machine is. Absent until it was seen. Example: `{"architecture": "amd64", "cpu": 8, …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<HostFacts>,

    /// The node that the machine is already and that is taken over as it runs. Absent where it is none, or is not to
    /// be taken over. Example: `{"name": "workers-x2k9p", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<HostNode>,

    /// Since when no Machine has it and it is known to be clean; who was unused longest is taken first.
    /// Example: `2026-11-26T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_since: Option<Time>,

    /// `Reachable`, `Verified`, `Clean`, sorted by type.
    /// Example: `[{"type": "Clean", "status": "True", …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Which Machine has a host. Example: `{"machineName": "workers-x2k9p", …}`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostClaim {
    /// Name of the Machine, in the same namespace. Example: `workers-x2k9p`.
    #[schemars(length(max = 63))]
    pub machine_name: String,

    /// UID of the Machine: one of the same name that is made anew is another one.
    /// Example: `0a1b2c3d-1111-4222-8333-444455556666`.
    #[serde(rename = "machineUID")]
    #[schemars(length(max = 64))]
    pub machine_uid: String,

    /// UID of the TenantCluster that the Machine belongs to.
    /// Example: `5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11`.
    #[serde(rename = "tenantClusterUID")]
    #[schemars(length(max = 64))]
    pub tenant_cluster_uid: String,

    /// Address by which the tenant cluster knows the node, for as long as the Machine has it, whatever becomes of
    /// the spec. Absent in claims of older operators. Example: `192.0.2.10`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub node_address: Option<String>,

    /// `true`: that is its address in the overlay of the tenant cluster, which the machine is given before its kubelet
    /// starts. Absent where it is not. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_overlay: bool,
}

/// A node that runs on a machine, by the machine's own word. Example: `{"name": "workers-x2k9p", …}`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostNode {
    /// Name of the node, as its kubelet's certificate has it. Example: `workers-x2k9p`.
    #[schemars(length(max = 253))]
    pub name: String,

    /// SHA-256 of each certificate (DER, in hexadecimal) that its kubelet believes the API by, at most 8.
    /// Example: `["5c0f…"]`.
    #[schemars(length(max = 8), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub ca_fingerprints: Vec<String>,

    /// Whose the machine is by the file that is on it; what is replaced by a takeover, and nothing else is. Absent
    /// where there is none. Example: `{"machineUID": "0a1b2c3d-1111-4222-8333-444455556666", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<HostOwner>,
}

/// Whose a machine is by the file that is on it. Example: `{"machineUID": "0a1b2c3d-…", …}`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostOwner {
    /// UID of the installation of Covey, which is that of its Namespace `kube-system`.
    /// Example: `3b1f8c52-6d0e-4f0b-9c57-2f4f0c1d9e10`.
    #[serde(rename = "installationUID")]
    #[schemars(length(max = 512))]
    pub installation_uid: String,

    /// UID of the TenantCluster. Example: `5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11`.
    #[serde(rename = "tenantClusterUID")]
    #[schemars(length(max = 512))]
    pub tenant_cluster_uid: String,

    /// UID of the Machine. Example: `0a1b2c3d-1111-4222-8333-444455556666`.
    #[serde(rename = "machineUID")]
    #[schemars(length(max = 512))]
    pub machine_uid: String,
}

/// What a machine is, as far as that stays. Example: `{"architecture": "amd64", "cpu": 8, …}`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostFacts {
    /// Its `/etc/machine-id`: one with another is another machine, or one that was installed anew.
    /// Example: `0a1b2c3d4e5f60718293a4b5c6d7e8f9`.
    #[serde(rename = "machineID")]
    #[schemars(length(max = 64))]
    pub machine_id: String,

    /// SHA-256 fingerprint of the host key that it showed, as `ssh-keygen -lf` prints it.
    /// Example: `ssh-ed25519 SHA256:uNiVztksCsDhcc0u9e8BrrQXVUpKZIDTMczCvj3tD2s`.
    #[schemars(length(max = 128))]
    pub host_key: String,

    /// What its processors are, as Kubernetes calls it; as the machine says it where that is none that a node
    /// can have. Example: `amd64`.
    #[schemars(length(max = 64))]
    pub architecture: String,

    /// Processors. Example: 8.
    pub cpu: i64,

    /// Memory in bytes, without what firmware and kernel keep. Example: `15990Mi`.
    pub memory: Quantity,

    /// Distribution and its version. Example: `debian 12`.
    #[schemars(length(max = 512))]
    pub os: String,

    /// Version of the kernel. Example: `6.1.0-28-amd64`.
    #[schemars(length(max = 512))]
    pub kernel: String,

    /// Whether it has cgroup v2 alone. Example: true.
    pub cgroup2: bool,

    /// Whether it has `/dev/net/tun`. Example: true.
    pub tun: bool,

    /// Version of the kubelet that is installed; absent where none is. Example: `1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub kubelet: Option<String>,
}

/// Where a machine is in its life. Example: `Available`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum HostPhase {
    /// Not looked at yet, or not usable: the conditions say why.
    #[default]
    Unverified,
    /// A Machine may take it.
    Available,
    /// It is a node already, and a Machine of that node's name may take it over as it runs.
    Adoptable,
    /// A Machine has taken it; nothing was done on it yet.
    Claimed,
    /// It becomes a node.
    Joining,
    /// It is a node.
    Joined,
    /// Everything of the node is being undone.
    Resetting,
    /// Nobody may take it, and nothing on it is touched but to undo what its claim has made: the conditions
    /// say why.
    Quarantined,
}
