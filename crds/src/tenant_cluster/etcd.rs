//! The etcd of a tenant cluster.
//!
//! Invariant: what would leave data behind cannot change.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pod_metadata::PodMetadata;
use super::resources::Resources;
use super::scheduling::Scheduling;
use crate::quantity::Quantity;

/// The etcd of this tenant cluster alone.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.replicas == 3 || (has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName) && (!has(self.storage.storageClassName) || self.storage.storageClassName == oldSelf.storage.storageClassName))").field_path(".storage.storageClassName").message("etcd.storage.storageClassName can change only while etcd.replicas is 3, because data moves from member to member; set etcd.replicas to 3 with it, and back once it has moved"),
    validation = Rule::new("!has(self.copyOf) || self.bootstrap == 'Restore'").field_path(".copyOf").message("etcd.copyOf is for a TenantCluster that begins with a backup: set etcd.bootstrap: Restore with it"),
    validation = Rule::new("has(self.copyOf) == has(oldSelf.copyOf) && (!has(self.copyOf) || self.copyOf == oldSelf.copyOf)").field_path(".copyOf").message("etcd.copyOf cannot change; make another TenantCluster with it")
)]
pub struct Etcd {
    /// Number of members: 1, or 3 to survive the loss of one. A change adds one after the other, each without a vote
    /// until it has all of the data, or takes the last ones away, one after the other; their volumes are kept.
    /// Requests go on. It may be set back on the way. Default: 1.
    /// Example: 3.
    #[serde(default = "default_members")]
    #[x_kube(
        validation = Rule::new("self == 1 || self == 3").message("etcd.replicas must be 1 or 3")
    )]
    pub replicas: i32,

    /// What it begins with. `Restore`: nothing starts before a Restore in the same namespace, with this TenantCluster's
    /// name and `from.clusterUID`, has brought the data of another one; it never begins empty. Cannot change.
    /// Default: `New`. Example: `Restore`.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self == oldSelf").message("etcd.bootstrap cannot change: make another TenantCluster with it")
    )]
    pub bootstrap: Bootstrap,

    /// UID of the TenantCluster of the same namespace that this one is a copy of: the Restore brings its data, and it may
    /// live on beside this one. The copy has authorities, service account keys and an encryption key of its own, and
    /// neither nodes, volumes nor load balancers of the other one. It has the other one's address ranges, so the two can
    /// never be linked. Only with `bootstrap: Restore`; without it what is restored becomes the other one, which has to be
    /// gone then. Cannot change. Default: no copy.
    /// Example: `0a1b2c3d-0011-4000-8000-000000000001`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 64),
        regex(pattern = "^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?$")
    )]
    pub copy_of: Option<String>,

    /// Volume of each member. Default: 2Gi of the default StorageClass.
    /// Example: `{"size": "8Gi", "storageClassName": "fast"}`.
    #[serde(default)]
    pub storage: Storage,

    /// CPU and memory of each member. Default: what the operator is configured with.
    /// Example: `{"requests": {"memory": "256Mi"}}`.
    #[serde(default)]
    pub resources: Resources,

    /// Most bytes of the database (`--quota-backend-bytes`), 512Mi to 8Gi; with that many only reads and
    /// deletions go on. The volume has to hold 512Mi more, for log and snapshots; where it is more than half
    /// of the volume, a full database cannot be defragmented. A change restarts one member after the other.
    /// Default: half the volume, within these bounds. Example: `1536Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_backend_bytes: Option<Quantity>,

    /// Whether a member of three whose volume is lost or damaged is replaced by itself, by an empty one that
    /// the two others fill. Its old volume, where there is one, is kept. Default: true. Example: false.
    #[serde(default = "default_auto_replace")]
    pub auto_replace: bool,

    /// An etcd of its own for Events, without a volume: they neither fill nor slow down the one that has everything else,
    /// and are in no backup. The kube-apiservers use it once it has been ready for 30 seconds, and keep Events with
    /// everything else while it is not: each time they are replaced one by one. Where its pod moves or ends, Events of
    /// before are gone. Default: Events are kept with everything else. Example: `{"size": "2Gi"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EtcdEvents>,

    /// Labels and annotations of the members' pods, as far as the platform allows them. A change replaces one
    /// pod after the other. Default: Covey's own. Example: `{"labels": {"example.com/cost-centre": "shop"}}`.
    #[serde(default, skip_serializing_if = "PodMetadata::is_default")]
    pub pod_metadata: PodMetadata,

    /// Where the members run in the management cluster. Their volumes may be bound to a node or a
    /// zone already; a member that may not run there waits. Default: as the platform says.
    /// Example: `{"spread": "Required"}`.
    #[serde(default, skip_serializing_if = "Scheduling::is_default")]
    pub scheduling: Scheduling,
}

impl Default for Etcd {
    fn default() -> Self {
        Self {
            replicas: default_members(),
            bootstrap: Bootstrap::default(),
            copy_of: None,
            storage: Storage::default(),
            resources: Resources::default(),
            quota_backend_bytes: None,
            auto_replace: default_auto_replace(),
            events: None,
            pod_metadata: PodMetadata::default(),
            scheduling: Scheduling::default(),
        }
    }
}

/// What an etcd begins with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Bootstrap {
    /// Nothing: a new cluster.
    #[default]
    New,
    /// What a Restore brings.
    Restore,
}

fn default_members() -> i32 {
    1
}

fn default_auto_replace() -> bool {
    true
}

/// The etcd that has Events alone.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EtcdEvents {
    /// Most bytes that it has on the disk of its node, 1Gi or more; half of it, and 8Gi at most, is for its database, the
    /// rest for log and snapshots. A change makes it anew, without the Events of before. Default: `1Gi`. Example: `2Gi`.
    #[serde(default = "default_events_size")]
    pub size: Quantity,

    /// CPU and memory of it. Default: what the operator is configured with for a member of etcd.
    /// Example: `{"requests": {"memory": "256Mi"}}`.
    #[serde(default)]
    pub resources: Resources,
}

impl Default for EtcdEvents {
    fn default() -> Self {
        Self {
            size: default_events_size(),
            resources: Resources::default(),
        }
    }
}

fn default_events_size() -> Quantity {
    Quantity::from("1Gi")
}

/// Volume of each etcd member.
#[derive(Clone, Debug, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Size in bytes with the suffixes of Kubernetes, 1Gi or more. May grow where the class allows
    /// it, and be set back while the volumes did not; they never shrink. Default: `2Gi`. Example: `8Gi`.
    #[serde(default = "default_storage_size")]
    pub size: Quantity,

    /// StorageClass in the management cluster. With three members it may change: one after the other gets an empty
    /// volume of the new class and is given the data, ten minutes apart; old volumes are kept, and requests go on.
    /// Where it is removed volumes stay as they are. Default: its default class.
    /// Example: `fast`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub storage_class_name: Option<String>,
}

impl Default for Storage {
    fn default() -> Self {
        Self {
            size: default_storage_size(),
            storage_class_name: None,
        }
    }
}

fn default_storage_size() -> Quantity {
    Quantity::from("2Gi")
}
