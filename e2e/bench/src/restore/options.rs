//! What to measure, and what its parts have in common.
//!
//! Invariant: nothing here measures.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use suites::cluster::Tenant;
use suites::cluster::wait::wait_for;

/// Writes a second while members are replaced, rolled, added or taken away.
pub(super) const BESIDE: u32 = 20;

/// Members are replaced no sooner after one another (docs/etcd.md).
pub(super) const BETWEEN: Duration = Duration::from_secs(600);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Writes a second under which the loss is measured.
    pub rate: u32,
    /// How long; zero leaves it out.
    pub load: Duration,
    /// Restores, one after another; 0 leaves them out.
    pub restores: usize,
    /// Members of etcd of the tenant cluster that is restored.
    pub members: i32,
    /// MiB of data in it.
    pub data_mib: usize,
    /// Writes between the full snapshot and each restore.
    pub deltas: u64,
    /// Members to replace, one after another; 0 leaves them out.
    pub replacements: usize,
    /// What is done with the members of another one on purpose, by its name in the report; empty leaves it out.
    pub flows: Vec<String>,
    /// Kubernetes version of the tenant clusters.
    pub version: String,
    /// How long any one step may take.
    pub patience: Duration,
}

/// Waits until so many members are ready.
pub(super) async fn ready(tenant: &Tenant, members: i32, options: &Options) -> Result<()> {
    let sets: Api<StatefulSet> = tenant.parts();
    let what = format!("{members} members are ready");
    wait_for(&sets, "etcd", &what, options.patience, |set| {
        (set.status.as_ref()?.ready_replicas == Some(members)).then_some(())
    })
    .await
}
