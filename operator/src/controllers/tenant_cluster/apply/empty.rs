//! Emptying of a tenant namespace that is to go: pods end, claims and instances are deleted.
//!
//! Invariant: what fails here only makes the deletion of the namespace slower.

use kit_client::untyped;
use kit_objects::kinds;
use kube::api::{DeleteParams, ListParams, PropagationPolicy};

use crate::context::Context;

/// Best effort.
pub(super) async fn empty(ctx: &Context, namespace: &str) {
    // First who would start instances anew. Without KubeVirt there is no such path.
    for kind in [kinds::VIRTUAL_MACHINE, kinds::VIRTUAL_MACHINE_INSTANCE] {
        let machines = untyped::of(kind, &ctx.client, Some(namespace));
        let deleted = machines
            .delete_collection(&DeleteParams::background(), &ListParams::default())
            .await;
        if let Err(error) = deleted {
            let error = kit_client::errors::chain(&error);
            tracing::debug!(error, "could not delete each {}", kind.kind);
        }
    }
    // Orphaned, so that nobody makes pods anew and nobody else ends them: the kubelet keeps to the
    // grace period of the first kill that it sees.
    let orphan = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Orphan),
        ..DeleteParams::default()
    };
    for kind in [kinds::DEPLOYMENT, kinds::REPLICA_SET, kinds::STATEFUL_SET] {
        let owners = untyped::of(kind, &ctx.client, Some(namespace));
        if let Err(error) = owners
            .delete_collection(&orphan, &ListParams::default())
            .await
        {
            let error = kit_client::errors::chain(&error);
            tracing::debug!(error, "could not delete each {}", kind.kind);
        }
    }
    let pods = untyped::of(kinds::POD, &ctx.client, Some(namespace));
    let soon = DeleteParams {
        grace_period_seconds: Some(1),
        ..DeleteParams::default()
    };
    if let Err(error) = pods.delete_collection(&soon, &ListParams::default()).await {
        tracing::debug!(
            error = kit_client::errors::chain(&error),
            "could not end the pods"
        );
    }
    let claims = untyped::of(kinds::PERSISTENT_VOLUME_CLAIM, &ctx.client, Some(namespace));
    if let Err(error) = claims
        .delete_collection(&DeleteParams::default(), &ListParams::default())
        .await
    {
        tracing::debug!(
            error = kit_client::errors::chain(&error),
            "could not delete the claims"
        );
    }
}
