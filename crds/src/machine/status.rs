//! The status of a Machine: what the operator observed, never what it hopes for.
//!
//! Invariant: every field is written by the operator alone and only when it changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::node_pool::provider::KernelBoot;

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// Where the machine is in its life, for people; programs read the conditions.
    /// Example: `Running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,

    /// `Ready`, `VirtualMachineReady`, `NodeReady`, `KubeletRenewed`, `Drained`, sorted by type.
    /// Example: `[{"type": "Ready", "status": "True", …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// What the provider and the node call the machine; known before it boots.
    /// Example: `kubevirt://workers-x2k9p`.
    #[serde(
        default,
        rename = "providerID",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 512))]
    pub provider_id: Option<String>,

    /// What is asked of the provider: decided once, and stored before it is asked for the first time, so that each
    /// further try asks for the same. Absent until then. Example: `{"type": "kubevirt-2cpu-4096Mi", "image":
    /// "registry.example.com/worker:v1.35.4"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<MachineRequest>,

    /// Since when the provider may make the machine without anybody having seen it: stored before it is asked.
    /// A Machine that is deleted in that state is kept until the machine could not appear any more. Absent before
    /// that, and once the machine was seen. Example: `2026-11-26T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_pending_since: Option<Time>,

    /// SHA-256 of the public key that its bootstrap token was used for, in hexadecimal: it is used once. Absent until
    /// its kubelet asked for its certificate. Example:
    /// `9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub client_key: Option<String>,

    /// Name of the node; absent until it joined. Example: `workers-x2k9p`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub node_name: Option<String>,

    /// UID of the virtual machine's instance that joined. Another instance has an empty disk, so
    /// the machine is then replaced. Absent until it joined.
    /// Example: `5d2f1c1e-8a52-4b2e-9f0b-0d9f6c1b7a11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub instance: Option<String>,

    /// Addresses that the provider reports. Example: `[{"type": "InternalIP", "address":
    /// "10.0.1.7"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,

    /// How often it was started anew because a Restore took its node away. Absent where none did.
    /// Example: `{"restore": "0a1b2c3d-0022-4000-8000-000000000001", "count": 1, "last": "2026-11-26T20:05:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<Restarts>,

    /// Its node in the overlay. Absent where the tenant cluster has none.
    /// Example: `{"address": "198.18.3.7", …}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<OverlayMember>,

    /// When its kubelet was last told in place whom to believe, and got a client certificate of a key of then: it counts
    /// as made at that time, for rotations. Absent where it has what it joined with. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<Time>,

    /// How far that is, where it is under way or was given up. Absent otherwise.
    /// Example: `{"since": "2027-01-31T11:00:00Z", "attempt": 1, "begun": "2027-01-31T12:00:00Z", "phase": "Running"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<KubeletRenewal>,
}

/// How far a machine's kubelet is told of a rotation in place: a short pod on its node writes files and ends the kubelet,
/// which starts anew and asks for a certificate with a token of this machine. Stored before anything of a try is made.
/// Example: `{"since": "2027-01-31T11:00:00Z", "attempt": 1, "begun": "2027-01-31T12:00:00Z", "phase": "Running"}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletRenewal {
    /// Since when nodes are to have been told: what asked for it. Example: `2027-01-31T11:00:00Z`.
    pub since: Time,
    /// Which try it is, from 1. Example: 1.
    pub attempt: u32,
    /// When this try was begun. Example: `2027-01-31T12:00:00Z`.
    pub begun: Time,
    /// How far it is. Example: `Running`.
    #[serde(default)]
    pub phase: KubeletRenewalPhase,
    /// SHA-256 of the public key that the token of this try was used for, in hexadecimal: it is used once. Absent until then.
    /// Example: `9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub key: Option<String>,
    /// Name of the CertificateSigningRequest with that key. Absent until then. Example: `node-csr-x2k9p`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub request: Option<String>,
    /// Why the try failed. Absent where it did not. Example: `the pod was refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub failure: Option<String>,
}

/// How far telling a kubelet is. Example: `Running`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum KubeletRenewalPhase {
    /// Its pod runs, or is about to.
    #[default]
    Running,
    /// The kubelet has its new certificate; what was made for it is taken away.
    Done,
    /// The try failed; what was made for it is taken away.
    Failing,
    /// Nobody asks for it any more; what was made for it is taken away.
    Cancelled,
    /// It failed twice: the node pool replaces the machine.
    GivenUp,
}

/// How often a machine was started anew because a Restore took its node away: its kubelet registers a node once, when it
/// starts. Stored before the provider is asked. Example: `{"restore": "0a1b2c3d-0022-4000-8000-000000000001", "count": 1,
/// "last": "2026-11-26T20:05:00Z"}`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restarts {
    /// UID of the Restore. Example: `0a1b2c3d-0022-4000-8000-000000000001`.
    #[schemars(length(max = 64))]
    pub restore: String,
    /// How often, for this one. Example: 1.
    pub count: u32,
    /// When last. Example: `2026-11-26T20:05:00Z`.
    pub last: Time,
}

/// A machine's node in the overlay of its tenant cluster. Example: `{"address": "198.18.3.7", …}`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverlayMember {
    /// Its address, for the Machine's life; no other Machine of the tenant cluster has it.
    /// Example: `198.18.3.7`.
    #[schemars(length(max = 45))]
    pub address: String,

    /// Its public key: the first one that its node said and that no other Machine has. No other key is accepted for
    /// it. Absent until then. Example: `mEsjdF1jHh8T0p0l1o0eVnR8yq2uY2n3ZqTj0G8o5Vw=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 44))]
    pub public_key: Option<String>,
}

/// What is asked of a provider for one machine. Example: `{"image": "registry.example.com/worker:v1.35.4"}`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineRequest {
    /// Size of the machine, as its node is labelled with it; absent where it has no name.
    /// Example: `kubevirt-2cpu-4096Mi`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub type_: Option<String>,

    /// Image that it starts from. Example: `registry.example.com/worker:v1.35.4`.
    #[schemars(length(max = 512))]
    pub image: String,

    /// Kernel that it boots; absent where the image's own boot loader decides that.
    /// Example: `{"image": "registry.example.com/worker:v1.35.4"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_boot: Option<KernelBoot>,

    /// Account that it is made in, as the provider says it: what another one does not have proves nothing. Absent where
    /// the provider has no accounts. Example: `ssh-key-4711`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub account: Option<String>,
}

/// Where a machine is in its life, for people; programs read the conditions. Example: `Running`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum MachinePhase {
    /// It waits for the tenant cluster or for its turn; nothing has been made.
    #[default]
    Pending,
    /// The virtual machine is being made.
    Creating,
    /// The virtual machine runs; its node has not asked to join.
    Booting,
    /// The node is there and not ready yet.
    Joining,
    /// The node has been ready; whether it is, the conditions say.
    Running,
    /// Pods are leaving the node.
    Draining,
    /// The virtual machine is going away.
    Deleting,
    /// It will not become a node any more, and is replaced.
    Failed,
}

impl MachinePhase {
    /// The text of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Creating => "Creating",
            Self::Booting => "Booting",
            Self::Joining => "Joining",
            Self::Running => "Running",
            Self::Draining => "Draining",
            Self::Deleting => "Deleting",
            Self::Failed => "Failed",
        }
    }
}

/// One address of a machine.
#[derive(
    Clone, Debug, Default, Deserialize, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "camelCase")]
pub struct MachineAddress {
    /// As in a Node's status: `InternalIP`, `ExternalIP`, `Hostname`. Example: `InternalIP`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address. Example: `10.0.1.7`.
    pub address: String,
}
