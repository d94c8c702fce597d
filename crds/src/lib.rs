//! The kinds of `covey.dev`: one file per kind, and the words they share.
//!
//! Invariant: no I/O, no clock, no client. What is written here is the public contract; the YAML
//! under `generated/` is derived from it by `cargo xtask crds` and compared by
//! `cargo xtask crds --check`.

#[allow(unreachable_pub)] // as below
pub mod access_grant;
pub mod activator;
#[allow(unreachable_pub)] // as below
pub mod backup_target;
pub mod condition;
pub mod duration;
#[allow(unreachable_pub)] // as below
pub mod fleet_policy;
pub mod foreign;
#[allow(unreachable_pub)] // as below
pub mod host;
pub mod instant;
pub mod int_or_percent;
#[allow(unreachable_pub)] // as below
pub mod machine;
#[allow(unreachable_pub)] // as below
pub mod machine_addresses;
pub mod names;
#[allow(unreachable_pub)] // as below
pub mod node_pool;
#[allow(unreachable_pub)] // as below
pub mod provider_config;
pub mod quantity;
pub mod reason;
#[allow(unreachable_pub)] // as below
pub mod restore;
#[allow(unreachable_pub)] // as below
pub mod snapshot;
pub mod storage;
mod taints;
#[allow(unreachable_pub)] // what KubeSchema derives is public inside a private function
pub mod tenant_cluster;
#[allow(unreachable_pub)] // as above
pub mod tenant_quota;

pub use access_grant::{AccessGrant, AccessGrantSpec, AccessGrantStatus};
pub use backup_target::{BackupTarget, BackupTargetSpec, BackupTargetStatus};
pub use condition::{
    ConditionStatus, ConditionType, keep_transition_times, remove_condition, set_condition,
};
pub use duration::Duration;
pub use fleet_policy::{FleetPolicy, FleetPolicySpec, FleetPolicyStatus};
pub use host::{Host, HostSpec, HostStatus};
pub use int_or_percent::IntOrPercent;
pub use machine::{Machine, MachineSpec, MachineStatus};
pub use machine_addresses::MachineAddresses;
pub use node_pool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use provider_config::{ProviderConfig, ProviderConfigSpec, ProviderConfigStatus};
pub use quantity::Quantity;
pub use reason::ConditionReason;
pub use reason::catalogue::Reason;
pub use restore::{Restore, RestoreSpec, RestoreStatus};
pub use snapshot::{Snapshot, SnapshotSpec, SnapshotStatus};
pub use tenant_cluster::{TenantCluster, TenantClusterSpec, TenantClusterStatus};
pub use tenant_quota::{TenantQuota, TenantQuotaSpec, TenantQuotaStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

/// The API group of every kind of ours.
pub const GROUP: &str = "covey.dev";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";

/// Every CustomResourceDefinition that the chart installs, in the order of installation.
///
/// A field that is null counts as absent: the API server drops it, unless the schema says
/// `nullable`, and then CEL's `has` would be true for it. So `nullable` is taken out everywhere.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        TenantCluster::crd(),
        NodePool::crd(),
        Machine::crd(),
        TenantQuota::crd(),
        MachineAddresses::crd(),
        Host::crd(),
        BackupTarget::crd(),
        Snapshot::crd(),
        Restore::crd(),
        ProviderConfig::crd(),
        FleetPolicy::crd(),
        AccessGrant::crd(),
    ]
    .map(without_nullable)
    .to_vec()
}

fn without_nullable(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        if let Some(root) = version
            .schema
            .as_mut()
            .and_then(|s| s.open_api_v3_schema.as_mut())
        {
            strip_nullable(root);
        }
    }
    crd
}

fn strip_nullable(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema
        .properties
        .iter_mut()
        .flat_map(|map| map.values_mut())
        .for_each(strip_nullable);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        strip_nullable(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        strip_nullable(values);
    }
}
