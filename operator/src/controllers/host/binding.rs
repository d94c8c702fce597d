//! The operator's binding in a namespace that has no TenantCluster any more.
//!
//! The last TenantCluster gave it to the Hosts that Machines had
//! (`controllers::tenant_cluster::plan::handover`). Where no Machine has one any more, nothing there is to be reset,
//! and it goes.
//! Invariant: it stays while there is a TenantCluster, or a Host with a claim; what is deleted is what was read; who has
//! none reads no key there, whatever the API would answer: its authorizer hears of the deletion later than whoever
//! deleted it, and what it lets pass until then would be the last word on a machine for a long time.

use api::{Host, TenantCluster, names};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};
use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kube::api::PropagationPolicy;
use kube::{Api, Resource as _, ResourceExt};

use crate::context::Context;

/// Why it is there still.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("Hosts are another replica's work now")]
    Fence(#[source] NotLeader),
    /// It could not be read.
    #[error("read the RoleBinding of the operator in the namespace of the Host")]
    Read(#[source] Box<kube::Error>),
    /// It could not be deleted.
    #[error("delete the RoleBinding of the operator, which nobody needs any more")]
    Delete(#[source] write::Error),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            // Whoever leads now does it.
            Self::Fence(_) => Class::Transient,
            Self::Read(source) => source.class(),
            Self::Delete(source) => source.class(),
        }
    }
}

/// Whether the operator has a binding in the Host's namespace, which is taken away where nobody needs it.
pub(super) async fn is_kept(ctx: &Context, host: &Host) -> Result<bool, Error> {
    let namespace = host.namespace().unwrap_or_default();
    if is_needed(ctx, host, &namespace) {
        // There, or about to be.
        return Ok(true);
    }
    let bindings = Api::<RoleBinding>::namespaced(ctx.client.clone(), &namespace);
    let found = bindings.get_opt(names::OPERATOR_BINDING).await;
    let found = found.map_err(|error| Error::Read(Box::new(error)))?;
    let binding = match found {
        Some(binding) if is_of_hosts(&binding) => binding,
        found => return Ok(found.is_some()),
    };
    ctx.leadership.ensure().map_err(Error::Fence)?;
    let deletion = Deletion {
        kind: kinds::ROLE_BINDING,
        namespace: Some(&namespace),
        name: names::OPERATOR_BINDING,
        uid: &binding.uid().unwrap_or_default(),
        // A TenantCluster that came meanwhile owns it: then it is a conflict.
        resource_version: binding.metadata.resource_version.as_deref(),
        propagation: PropagationPolicy::Background,
    };
    let deleted = write::delete(&ctx.client, &deletion).await;
    deleted.map_err(Error::Delete)?;
    Ok(false)
}

fn is_needed(ctx: &Context, host: &Host, namespace: &str) -> bool {
    let is_here = |of: Option<String>| of.as_deref() == Some(namespace);
    let clusters = ctx.stores.clusters.state();
    let claim = host.status.as_ref().and_then(|s| s.claim.as_ref());
    claim.is_some()
        || clusters.iter().any(|cluster| is_here(cluster.namespace()))
        || !ctx.stores.claimed_hosts(namespace).is_empty()
        || !ctx.stores.cloud_machines(namespace).is_empty()
}

/// Whether it was handed over: a TenantCluster among its owners may be one that no store has yet.
fn is_of_hosts(binding: &RoleBinding) -> bool {
    let owners = binding.metadata.owner_references.as_deref();
    let owners = owners.unwrap_or_default();
    let is_ours = binding.labels().get(names::LABEL_MANAGED_BY);
    is_ours.is_some_and(|by| by == names::MANAGED_BY)
        && owners.iter().any(|owner| owner.kind == Host::kind(&()))
        && owners
            .iter()
            .all(|owner| owner.kind != TenantCluster::kind(&()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn binding(labels: &Value, owners: &[&str]) -> RoleBinding {
        let owner = |kind: &&str| json!({ "apiVersion": "covey.dev/v1alpha1", "kind": kind, "name": "a", "uid": "u" });
        let owners: Vec<_> = owners.iter().map(owner).collect();
        let role =
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r" });
        let metadata = json!({ "labels": labels, "ownerReferences": owners });
        serde_json::from_value(json!({ "metadata": metadata, "roleRef": role })).unwrap()
    }

    #[test]
    fn only_a_binding_of_ours_that_was_handed_over_to_hosts_is_taken_away() {
        let ours = json!({ names::LABEL_MANAGED_BY: names::MANAGED_BY });
        assert!(is_of_hosts(&binding(&ours, &["Host", "Host"])));
        for other in [
            binding(&ours, &["TenantCluster"]),
            binding(&ours, &["Host", "TenantCluster"]),
            binding(&ours, &[]),
            binding(&json!({}), &["Host"]),
        ] {
            assert!(!is_of_hosts(&other), "{other:?}");
        }
    }
}
