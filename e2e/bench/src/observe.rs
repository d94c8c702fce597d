//! What is counted in a tenant namespace: restarts and rollouts.
//!
//! Invariant: counts come from objects that Kubernetes itself keeps, never from the operator.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, ReplicaSet},
    core::v1::Pod,
};
use kube::{Api, ResourceExt, api::ListParams};

use suites::cluster::{Tenant, parts::restarts as restarts_of};

/// Restarts of all containers of the tenant namespace's pods.
pub(super) async fn restarts(tenant: &Tenant) -> Result<i64> {
    let pods = tenant.parts::<Pod>().list(&ListParams::default()).await?;
    let counts = pods.iter().map(|pod| i64::from(restarts_of(pod, None)));
    Ok(counts.sum())
}

/// Pod templates that were rolled out, of whichever Deployment or StatefulSet has had most: 1 after a
/// creation that wrote each of them once.
pub(super) async fn rollouts(tenant: &Tenant) -> Result<usize> {
    let all = ListParams::default();
    let replica_sets: Api<ReplicaSet> = tenant.parts();
    let revisions: Api<ControllerRevision> = tenant.parts();
    let sets = replica_sets.list_metadata(&all).await?.items;
    let revisions = revisions.list_metadata(&all).await?.items;
    let sets = sets.iter().map(ResourceExt::owner_references);
    let owners = sets.chain(revisions.iter().map(ResourceExt::owner_references));
    let mut counts = BTreeMap::<&str, usize>::new();
    for owner in owners.flatten() {
        *counts.entry(&owner.uid).or_default() += 1;
    }
    Ok(counts.into_values().max().unwrap_or_default())
}
