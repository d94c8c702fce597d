//! Deletes one object.
//!
//! Invariant: only the one that was seen, by its UID.

use kit_client::write::{self, Deletion};
use kit_objects::kinds;
use kube::api::PropagationPolicy;

use crate::controllers::tenant_cluster::plan::types::Target;

/// Deletes one object, in the management cluster or inside a tenant cluster.
pub(super) async fn delete(client: &kube::Client, target: &Target) -> Result<(), write::Error> {
    let kind = kinds::ALL.iter().find(|kind| kind.kind == target.key.kind);
    let kind = *kind.ok_or_else(|| write::Error::UnknownKind {
        api_version: String::new(),
        kind: target.key.kind.clone(),
    })?;
    let deletion = Deletion {
        kind,
        namespace: kind.namespaced.then_some(target.key.namespace.as_str()),
        name: &target.key.name,
        uid: &target.uid,
        resource_version: target.resource_version.as_deref(),
        propagation: match target.with_dependents {
            true => PropagationPolicy::Foreground,
            false => PropagationPolicy::Background,
        },
    };
    write::delete(client, &deletion).await.map(drop)
}
