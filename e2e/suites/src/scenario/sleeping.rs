//! Puts a tenant cluster to sleep, and has it waked by a client.
//!
//! Invariant: a client is one that knows nothing of sleep: it asks, and waits for its answer.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use api::TenantCluster;
use api::tenant_cluster::HibernationPhase;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, api::ListParams};
use serde_json::json;

use crate::cluster::tenant::Tenant;
use crate::cluster::wait::wait_for;

/// After which time a client asks again where it had no answer.
const AGAIN: Duration = Duration::from_secs(30);

/// How far a tenant cluster is; none where it is awake and is to be.
#[must_use]
pub fn phase(cluster: &TenantCluster) -> Option<HibernationPhase> {
    let status = cluster.status.as_ref()?.hibernation.as_ref()?;
    Some(status.phase)
}

/// Puts it to sleep, and gives how long that took.
///
/// # Errors
/// When it takes longer than `patience`, or something of it still runs.
pub async fn put_to_sleep(tenant: &Tenant, patience: Duration) -> Result<Duration> {
    let begun = Instant::now();
    tenant
        .change(&json!({ "hibernation": { "enabled": true } }))
        .await?;
    let is_asleep =
        |cluster: &TenantCluster| (phase(cluster) == Some(HibernationPhase::Asleep)).then_some(());
    wait_for(&tenant.api(), &tenant.name, "sleeps", patience, is_asleep).await?;
    let took = begun.elapsed();
    let pods = tenant.parts::<Pod>().list(&ListParams::default()).await?;
    let runs = |pod: &&Pod| {
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        !["Succeeded", "Failed"].contains(&phase.unwrap_or_default())
    };
    let running: Vec<_> = pods.items.iter().filter(runs).collect();
    ensure!(running.is_empty(), "runs asleep: {running:?}");
    Ok(took)
}

/// Wakes it up for good: `enabled` is false again.
///
/// # Errors
/// When it takes longer than `patience`.
pub async fn keep_awake(tenant: &Tenant, patience: Duration) -> Result<()> {
    tenant
        .change(&json!({ "hibernation": { "enabled": false } }))
        .await?;
    let is_awake = |cluster: &TenantCluster| phase(cluster).is_none().then_some(());
    wait_for(&tenant.api(), &tenant.name, "is awake", patience, is_awake).await?;
    tenant.settled(patience).await.map(drop)
}

/// What a client that asks for a ConfigMap has of one that sleeps.
#[derive(Clone, Debug)]
pub struct Woken {
    /// What it asked for.
    pub found: ConfigMap,
    /// How long its answer took, requests that failed included.
    pub took: Duration,
    /// What was said to those that failed.
    pub refused: Vec<String>,
}

/// Asks for a ConfigMap in `default`, with a connection of its own, until there is an answer.
///
/// # Errors
/// When there is none within `patience`.
pub async fn ask(tenant: &Tenant, name: &str, patience: Duration) -> Result<Woken> {
    // As a program that is just started: it has no connection of before.
    let client = tenant.admin(patience).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let (begun, mut refused) = (Instant::now(), Vec::new());
    loop {
        let answer = tokio::time::timeout(AGAIN, maps.get(name)).await;
        match answer
            .context("no answer")
            .and_then(|got| got.map_err(anyhow::Error::from))
        {
            Ok(found) => {
                return Ok(Woken {
                    found,
                    took: begun.elapsed(),
                    refused,
                });
            }
            Err(error) => refused.push(format!("{error:#}")),
        }
        if begun.elapsed() >= patience {
            bail!("it never answers: {refused:?}");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
