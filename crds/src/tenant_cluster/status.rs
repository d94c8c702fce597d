//! The status of a TenantCluster: what the operator observed, never what it hopes for.
//!
//! Invariant: every field is written by the operator alone and only when it changes.

use crate::reason::catalogue::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backup::{BackupStatus, RestoreProgress};
use super::encryption::EncryptionStatus;
use super::hibernation::{HibernationStatus, IdleStatus};
use super::identity::TenantIdentity;
use super::rotation::RotationStatus;
use super::upgrade::UpgradeStatus;
use crate::condition::{ConditionStatus, ConditionType};

/// CEL over the whole object: `spec.network.podCIDR` appears after creation only when it repeats
/// what is in force. (`has` at every step: what is not set is absent, not null.)
pub(super) const ADDED_POD_CIDR: &str = "!has(self.spec.network.podCIDR) \
    || has(oldSelf.spec.network.podCIDR) \
    || (has(self.status) && has(self.status.network) \
    && self.status.network.podCIDR == self.spec.network.podCIDR)";
/// The same for `spec.network.serviceCIDR`.
pub(super) const ADDED_SERVICE_CIDR: &str = "!has(self.spec.network.serviceCIDR) \
    || has(oldSelf.spec.network.serviceCIDR) \
    || (has(self.status) && has(self.status.network) \
    && self.status.network.serviceCIDR == self.spec.network.serviceCIDR)";

/// What the operator observed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterStatus {
    /// Generation of the spec that this status speaks of. Absent until the first look. Example: 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `Ready`, `Progressing`, `Degraded`, and one per part, sorted by type.
    /// Example: `[{"type": "Ready", "status": "True", …}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,

    /// Version that every kube-apiserver of this tenant cluster serves, and that its other programs have
    /// after an upgrade. Absent until one answered. Example: `1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub version: Option<String>,

    /// The upgrade that is wanted or under way. Absent where the version that serves is the one that is asked for.
    /// Example: `{"from": "1.35.4", "to": "1.36.3", "phase": "Checking", "since": "2027-01-31T12:00:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeStatus>,

    /// How far rotations are: one entry for each authority or key that `spec.rotation` names or that is not in its first
    /// generation any more, sorted by name. Example: `[{"name": "usersCA", "generation": 2, "signs": 1,
    /// "believed": [1, 2], "phase": "Preparing", "since": "2027-01-31T12:00:00Z"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub rotation: Vec<RotationStatus>,

    /// How far encryption at rest is. Absent where nothing but Secrets is encrypted, or ever was.
    /// Example: `{"resources": ["configmaps", "secrets"]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<EncryptionStatus>,

    /// How far sleep is. Absent where it is awake and `spec.hibernation.enabled` is false.
    /// Example: `{"phase": "Asleep", "since": "2027-01-31T12:00:00Z", "drained": true, "quiet": true}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hibernation: Option<HibernationStatus>,

    /// Since when nobody uses it. Absent while it is used, and where `spec.hibernation.idleAfter` is not set.
    /// Example: `{"since": "2027-01-31T12:00:00Z", "counted": "1769860800.5:1234"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle: Option<IdleStatus>,

    /// Where the API answers. Absent until a load balancer gave an address; one that was lost stays
    /// here, and the condition `EndpointReady` says so.
    /// Example: `{"host": "10.96.3.7", "port": 6443}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<EndpointStatus>,

    /// The tenant namespace: namespace of the management cluster that holds all parts.
    /// Example: `covey-demo-0a1b2c3d11`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// The name and UID that all parts bear, where that is not its own: those of a control plane that ran already and that
    /// it took over. Cannot change. Absent where the parts bear its own.
    /// Example: `{"name": "standby-4f7ks", "namespace": "covey-standby", "uid": "0a1b2c3d-…"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<TenantIdentity>,

    /// Address ranges in force; given once, then kept until the tenant cluster is deleted.
    /// Example: `{"podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20", "dnsDomain":
    /// "cluster.local"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkStatus>,

    /// Addresses of the Services in the tenant namespace. Nodes and certificates know them, so a Service
    /// that is lost comes back with its own.
    /// Example: `{"controlPlane": "10.96.3.7", "konnectivity": "10.96.88.1"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<AddressesStatus>,

    /// What etcd was when it had a leader for the first time. From then on nothing is made a second time
    /// over data that is lost. Absent until then.
    /// Example: `{"members": [{"name": "etcd-0", "volumeUID": "0a1b2c3d-…"}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<EtcdStatus>,

    /// From which templates it runs, as far as every pod is known to. A newer operator has others, and
    /// tenant clusters are brought to them a few at a time. Absent until all were seen for the first time.
    /// Example: `{"templates": "9f86d081884c7d65", "etcd": {"generation": 1, "hash": "60303ae22b998861"}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,

    /// Secret in this namespace whose key `value` is the administrator's kubeconfig.
    /// Example: `demo-kubeconfig`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<String>,

    /// Every certificate and when it ends, sorted by name.
    /// Example: `[{"name": "apiserver", "notAfter": "2027-01-31T12:00:00Z"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub certificates: Vec<CertificateStatus>,

    /// What is known of its backup. Absent without one.
    /// Example: `{"lastFull": "2026-11-27T00:00:00Z", "verified": "2026-11-27T00:00:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupStatus>,

    /// The least version that the operator's configuration names, and from when on it is taken. Absent where what runs is no
    /// older. Example: `{"version": "1.35.6", "told": "2027-01-10T12:00:00Z", "from": "2027-01-31T12:00:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_version: Option<MinimumVersionStatus>,

    /// The Restore that is under way, or that is over and was not confirmed. Absent without one.
    /// Example: `{"name": "before-the-upgrade", "switched": true}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<RestoreProgress>,

    /// Hash of the objects that were last put into the tenant cluster. Example: `9f86d081884c7d65`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap_hash: Option<String>,
}

/// From which templates a tenant cluster runs.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Hash of the operator's templates and configuration that all of it is made from.
    /// Example: `9f86d081884c7d65`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub templates: Option<String>,

    /// The StatefulSet `etcd` when all its pods were last seen to be of its template and ready.
    /// Example: `{"generation": 1, "hash": "60303ae22b998861"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<RolledOut>,

    /// The Deployment `control-plane` when all its pods were last seen to be of its template and ready, and
    /// none of another one was left. Example: `{"generation": 3, "hash": "5fda86c30d004a8b"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<RolledOut>,

    /// The same of the Deployment `controllers`. Example: `{"generation": 2, "hash": "0c3e1f5d7a9b2468"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers: Option<RolledOut>,

    /// To which templates the operator last began to bring it of itself, written before anything of it was changed.
    /// Absent where it never did. Example: `{"templates": "9f86d081884c7d65", "since": "2027-01-31T12:00:00Z"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toward: Option<RolloutBegun>,

    /// Hash of the spec, but for `maintenance`, that was last followed: a change of that alone is none that makes pods.
    /// Absent until the first look. Example: `5fda86c30d004a8b`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub asked: Option<String>,

    /// The patch of Kubernetes that the operator last took by itself, written before anything of it was changed: while
    /// `spec.version` stays as it was, or `spec.maintenance.autoPatch` is true, nothing goes back to that. Absent where it
    /// never did, or `spec.version` is as new. Example: `{"version": "1.35.6", "asked": "1.35.4"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<PatchStatus>,

    /// The newer patch of its minor that was rolled back last: the operator does not take it by itself until
    /// `spec.upgrade.retry` changes. Absent where none was. Example: `{"version": "1.35.6", "retry": 0}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_patch: Option<FailedPatch>,

    /// Whether it waits for a FleetPolicy, and stays as it is where that is gone. Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub held: bool,
}

/// A patch of Kubernetes that the operator took by itself.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PatchStatus {
    /// The version. Example: `1.35.6`.
    #[schemars(length(max = 32))]
    pub version: String,
    /// What `spec.version` said then. Example: `1.35.4`.
    #[schemars(length(max = 32))]
    pub asked: String,
}

/// A patch of Kubernetes that was rolled back.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedPatch {
    /// The version. Example: `1.35.6`.
    #[schemars(length(max = 32))]
    pub version: String,
    /// `spec.upgrade.retry` then. Example: 0.
    pub retry: i32,
}

/// The least version that the operator's configuration names, where what runs is older.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MinimumVersionStatus {
    /// The version. Example: `1.35.6`.
    #[schemars(length(max = 32))]
    pub version: String,
    /// When it was first told of here, RFC 3339, UTC. Example: `2027-01-10T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub told: String,
    /// From when on the operator takes it by itself, whatever `spec.maintenance` says, RFC 3339, UTC: at least 14 days after
    /// `told`. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub from: String,
}

/// A rollout that the operator began of itself.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutBegun {
    /// Hash of the templates. Example: `9f86d081884c7d65`.
    #[schemars(length(max = 64))]
    pub templates: String,
    /// When it began, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    #[schemars(length(max = 64))]
    pub since: String,
}

/// A workload all of whose pods were seen to be of its template.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolledOut {
    /// Its `metadata.generation` then: whatever is changed later has to be seen again. Example: 3.
    pub generation: i64,
    /// Hash of its pod template. Example: `60303ae22b998861`.
    #[schemars(length(max = 64))]
    pub hash: String,
}

impl TenantClusterStatus {
    /// Since when the tenant's API answers, as far as the status says; none while it does not. Broken
    /// addons and controllers are no silence: who waits for nodes must not wait for what runs on them.
    /// Where they broke since, it is the time of that.
    #[must_use]
    pub fn answers_since(&self) -> Option<Timestamp> {
        let mut conditions = self.conditions.iter();
        let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str())?;
        let is_true = ready.status == ConditionStatus::True.as_str();
        let answers = is_true || Reason::ANSWERS.iter().any(|reason| ready.reason == *reason);
        answers.then_some(ready.last_transition_time.0)
    }
}

/// Where the API answers.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// Address or DNS name. Example: `10.96.3.7`.
    pub host: String,
    /// Port. Example: 6443.
    pub port: i32,
}

impl EndpointStatus {
    /// As a URL, as kubeconfigs have it. Example: `https://10.96.3.7:6443`.
    #[must_use]
    pub fn url(&self) -> String {
        let Self { host, port } = self;
        match host.contains(':') {
            true => format!("https://[{host}]:{port}"),
            false => format!("https://{host}:{port}"),
        }
    }
}

/// Addresses of the Services of a control plane.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressesStatus {
    /// ClusterIP of the Service `control-plane`. Example: `10.96.3.7`.
    pub control_plane: String,
    /// ClusterIP of the Service `konnectivity`, where there is one. Example: `10.96.88.1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub konnectivity: Option<String>,
    /// Node port of the Service `control-plane`, where it has one. Example: 30443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
}

/// The identity of a tenant cluster's etcd.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdStatus {
    /// Identifier of the cluster, hexadecimal, as etcd writes it, once a member said it. Another one
    /// is another cluster. Example: `cdf818194e3a8c32`.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// Its members, sorted by name.
    /// Example: `[{"name": "etcd-0", "volumeUID": "0a1b2c3d-…", "started": true}]`.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub members: Vec<EtcdMemberStatus>,
    /// The member that is being replaced; absent where none is. Example: `{"member": "etcd-1"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<EtcdReplacement>,
    /// When a member was last begun to be replaced, or had been, RFC 3339, UTC: the next one waits ten minutes.
    /// Absent until then. Example: `2027-01-31T12:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub last_replacement: Option<String>,
    /// UIDs of volumes for whose loss a Restore was made by itself (`spec.backup.onVolumeLoss`): for the same loss none is
    /// made again. Default: none. Example: `["0a1b2c3d-1111-4222-8333-444455556666"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 3),
        inner(length(max = 64)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub restored_for: Vec<String>,
    /// Name of the golden file that its first member began with (docs/adr/0023-golden-start.md): objects of Kubernetes'
    /// own are as old as that file. Absent where it began without data, or nobody saw it. Example:
    /// `kubernetes-1.36.3-etcd-3.6-0a1b2c3d4e5f6071.db`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub golden_file: Option<String>,
}

/// A member of etcd that is being replaced.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdReplacement {
    /// Its name. Example: `etcd-1`.
    pub member: String,
    /// UID of the pod that has to be ended: it serves what is to be removed, or is older than what the member is now. Example:
    /// `0a1b2c3d-1111-4222-8333-444455556666`.
    #[serde(rename = "podUID", default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
}

/// One member of etcd.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdMemberStatus {
    /// Name of the member and of its pod. Example: `etcd-0`.
    pub name: String,
    /// UID of the PersistentVolumeClaim that holds its data. Example:
    /// `0a1b2c3d-1111-4222-8333-444455556666`.
    #[serde(rename = "volumeUID")]
    pub volume_uid: String,
    /// Name of the PersistentVolume that this claim was bound to; absent while it was to none. Example:
    /// `pvc-0a1b2c3d-1111-4222-8333-444455556666`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub volume: Option<String>,
    /// What that claim asks for: a volume has been given as much or will be, and never gets smaller.
    /// Example: `8Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<String>,
    /// Identifier of the member in its cluster, hexadecimal, once it said so. Example:
    /// `8e9e05c52164694d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether it was ever seen with a leader. From then on its volume has data, and it does not start
    /// on one that has none. Default: false. Example: true.
    #[serde(default)]
    pub started: bool,
    /// Whether it is a learner: it is given the data, and has no vote yet. Default: false. Example: true.
    #[serde(default, skip_serializing_if = "is_false")]
    pub learner: bool,
    /// The newest entry of etcd's log that it is known to have had; noted when it does not serve, and every 20,000 entries. It
    /// does not start on a volume that ends before it. Absent until then. Example: 5678.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_index: Option<i64>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields over by reference"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Address ranges in force.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// Addresses of the tenant's pods. Example: `10.128.0.0/18`.
    #[serde(rename = "podCIDR")]
    #[schemars(length(max = 128))]
    pub pod_cidr: String,
    /// Addresses of the tenant's Services. Example: `100.64.0.0/20`.
    #[serde(rename = "serviceCIDR")]
    #[schemars(length(max = 128))]
    pub service_cidr: String,
    /// DNS domain inside the tenant cluster. Example: `cluster.local`.
    pub dns_domain: String,
}

/// One certificate of the tenant cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Name as in `docs/certificates.md`. Example: `apiserver`.
    pub name: String,
    /// When it ends, RFC 3339, UTC. Example: `2027-01-31T12:00:00Z`.
    pub not_after: String,
}
