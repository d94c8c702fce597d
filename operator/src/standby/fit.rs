//! Which control planes that wait are just what a TenantCluster asks for. No I/O.
//!
//! Invariant: whoever takes one over asks for the same pods as run already, so nothing of it is rolled out.

use std::sync::Arc;

use api::TenantCluster;
use api::condition::is_true;
use api::tenant_cluster::{TenantClusterSpec, TenantClusterStatus, TenantIdentity};
use api::{ConditionType, names};
use kube::ResourceExt as _;
use serde_json::{Value, json};
use tenant_cp::Settings;

/// Fields of the spec that say nothing of the pods of a control plane or of etcd. Of `addons` one does, which is compared by
/// itself; and of `version` the `v` in front says nothing.
pub(crate) const APART: [&str; 5] = ["addons", "maintenance", "nodes", "upgrade", "version"];

/// Whether it is one that waits for somebody, or did.
#[must_use]
pub fn is_standby(cluster: &TenantCluster, settings: &Settings) -> bool {
    cluster.labels().contains_key(names::LABEL_STANDBY)
        && cluster.namespace() == Some(settings.standby_namespace())
}

/// Whether nothing was made for a TenantCluster yet, as far as its status says.
#[must_use]
pub fn is_unmade(status: Option<&TenantClusterStatus>) -> bool {
    status.is_none_or(|status| {
        status.identity.is_none()
            && status.network.is_none()
            && status.etcd.is_none()
            && status.bootstrap_hash.is_none()
    })
}

/// What of a spec the pods of the control plane and of etcd, their keys and their addresses are made from.
pub(super) fn of_control_plane(spec: &TenantClusterSpec) -> Value {
    let mut all = json!(spec);
    if let Some(fields) = all.as_object_mut() {
        for field in APART {
            fields.remove(field);
        }
    }
    let version = spec.version.trim_start_matches('v');
    json!([all, version, spec.addons.konnectivity])
}

/// Whose identity `cluster` may take over, the oldest first. `all`: every TenantCluster.
#[must_use]
pub fn candidates(
    cluster: &TenantCluster,
    all: &[Arc<TenantCluster>],
    settings: &Settings,
) -> Vec<TenantIdentity> {
    if is_standby(cluster, settings) || !is_unmade(cluster.status.as_ref()) {
        return Vec::new();
    }
    let wanted = of_control_plane(&cluster.spec);
    let mut fitting: Vec<_> = all
        .iter()
        .filter(|other| is_standby(other, settings) && waits(other))
        .filter(|other| of_control_plane(&other.spec) == wanted)
        .filter(|other| !is_taken(other, all))
        .collect();
    fitting.sort_by_key(|other| (other.creation_timestamp(), other.name_any()));
    fitting.into_iter().map(|other| other.identity()).collect()
}

/// Whether it is at rest and answers.
fn waits(standby: &TenantCluster) -> bool {
    let Some(status) = &standby.status else {
        return false;
    };
    let version = standby.spec.version.trim_start_matches('v');
    standby.metadata.deletion_timestamp.is_none()
        && !standby.spec.paused
        && is_true(&status.conditions, ConditionType::Ready)
        && status.version.as_deref() == Some(version)
        && status.upgrade.is_none()
        && status.rotation.is_empty()
        && status.network.is_some()
        && status.etcd.is_some()
}

/// Whether another TenantCluster bears its identity.
pub(super) fn is_taken(standby: &TenantCluster, all: &[Arc<TenantCluster>]) -> bool {
    all.iter().any(|other| {
        other
            .taken_over()
            .is_some_and(|identity| identity.uid == standby.identity_uid())
    })
}

/// The status of whoever takes an identity over: what is so of the parts is so still; what was said of the TenantCluster is
/// said anew.
#[must_use]
pub fn inherited(of: TenantClusterStatus, identity: TenantIdentity) -> TenantClusterStatus {
    TenantClusterStatus {
        identity: Some(identity),
        observed_generation: None,
        conditions: Vec::new(),
        kubeconfig_secret: None,
        idle: None,
        ..of
    }
}
