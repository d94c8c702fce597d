//! The tenant namespace, and what lets the operator work in it.
//!
//! Invariant: a namespace that held a tenant cluster is not made a second time, and one that is not this
//! TenantCluster's is neither written to nor believed.

use api::Reason;
use api::names::LABEL_TENANT_UID;
use kit_objects::known::Known;
use serde_json::Value;
use tenant_cp::{Settings, Validated, desired};

use super::types::Part;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

pub(super) fn plan(valid: &Validated, observed: &Observed, settings: &Settings) -> Part {
    let mut part = Part::new(PartName::TenantNamespace);
    let ns = valid.tenant_namespace.as_str();
    let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
    part.problem = match observed.find("Namespace", "", ns) {
        Known::Unknown { .. } => return part,
        // Before anything ran in it, it can be made again, once it is gone.
        Known::Known(live) if is_going(live) => Some(Waiting {
            reason: Reason::NamespaceDeleted,
            message: format!(
                "the tenant namespace {ns} is being deleted by somebody; everything in it, the data \
                 of etcd included, goes with it"
            ),
        }),
        Known::Absent if observed.has_been_bootstrapped() => Some(Waiting {
            reason: Reason::DataLost,
            message: format!(
                "the tenant namespace {ns} is gone, with the data of etcd and all keys, and no empty \
                 tenant cluster is made in its place; restore it from a backup, or delete this \
                 TenantCluster and create it anew"
            ),
        }),
        Known::Known(_) | Known::Absent => None,
    };
    if part.problem.is_none() {
        let objects = desired::tenant_namespace::foundation(valid, settings, observed.workers);
        part.apply("foundation", observed, objects);
    }
    part
}

/// Whose the namespace of this name is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Whose {
    /// Its label says that it is this TenantCluster's.
    Ours,
    /// It was, and somebody took the label off.
    Unlabelled,
    /// It is not.
    Others,
}

pub(super) fn whose(observed: &Observed, live: &Value) -> Whose {
    let label = live.pointer("/metadata/labels");
    let label = label.and_then(|labels| labels.get(LABEL_TENANT_UID)?.as_str());
    let status = observed.cluster.status.as_ref();
    let ns = observed.tenant_namespace();
    let known = status.and_then(|s| s.namespace.as_deref()) == Some(ns.as_str());
    match label {
        Some(uid) if observed.cluster.identity_uid() == uid => Whose::Ours,
        None if known => Whose::Unlabelled,
        Some(_) | None => Whose::Others,
    }
}

/// Why the namespace of this name is not ours to use.
pub(super) fn taken(observed: &Observed) -> Option<Waiting> {
    let ns = observed.tenant_namespace();
    let live = observed.find("Namespace", "", &ns).there()?;
    // A label that somebody took off ours is put on again.
    (whose(observed, live) == Whose::Others).then(|| Waiting {
        reason: Reason::NamespaceTaken,
        message: format!(
            "the namespace {ns}, which is to hold this tenant cluster, is somebody else's: it lacks the \
             label {LABEL_TENANT_UID} with the UID of this TenantCluster; delete that namespace, or \
             delete this TenantCluster and create it anew"
        ),
    })
}
