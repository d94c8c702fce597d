//! The tenant namespace, and what lets the operator work in it.
//!
//! Invariant: a namespace that held a tenant cluster is not made a second time, and one that is not this
//! TenantCluster's is neither written to nor believed.

use api::Reason;
use api::names::LABEL_TENANT_UID;
use tenant_cp::{Settings, Validated, desired};

use super::types::Part;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

pub(super) fn plan(valid: &Validated, observed: &Observed, settings: &Settings) -> Part {
    let mut part = Part::new(PartName::TenantNamespace);
    let ns = valid.tenant_namespace.as_str();
    let live = observed.object("Namespace", "", ns);
    let going = live.is_some_and(|live| !live["metadata"]["deletionTimestamp"].is_null());
    part.problem = match live {
        // Before anything ran in it, it can be made again, once it is gone.
        _ if going => Some(Waiting {
            reason: Reason::NamespaceDeleted,
            message: format!(
                "the tenant namespace {ns} is being deleted by somebody; everything in it, the data \
                 of etcd included, goes with it"
            ),
        }),
        None if observed.has_been_bootstrapped() => Some(Waiting {
            reason: Reason::DataLost,
            message: format!(
                "the tenant namespace {ns} is gone, with the data of etcd and all keys, and no empty \
                 tenant cluster is made in its place; restore it from a backup, or delete this \
                 TenantCluster and create it anew"
            ),
        }),
        _ => None,
    };
    if part.problem.is_none() {
        let objects = desired::tenant_namespace::foundation(valid, settings, observed.workers);
        part.apply("foundation", observed, objects);
    }
    part
}

/// Why the namespace of this name is not ours to use.
pub(super) fn taken(observed: &Observed) -> Option<Waiting> {
    let ns = observed.tenant_namespace();
    let label = observed
        .object("Namespace", "", &ns)?
        .pointer("/metadata/labels")
        .and_then(|labels| labels.get(LABEL_TENANT_UID))
        .and_then(|uid| uid.as_str());
    let status = observed.cluster.status.as_ref();
    // A label that somebody took off ours is put on again.
    let known = status.and_then(|s| s.namespace.as_deref()) == Some(ns.as_str());
    let ours = match label {
        Some(uid) => observed.cluster.metadata.uid.as_deref() == Some(uid),
        None => known,
    };
    (!ours).then(|| Waiting {
        reason: Reason::NamespaceTaken,
        message: format!(
            "the namespace {ns}, which is to hold this tenant cluster, is somebody else's: it lacks the \
             label {LABEL_TENANT_UID} with the UID of this TenantCluster; delete that namespace, or \
             delete this TenantCluster and create it anew"
        ),
    })
}
