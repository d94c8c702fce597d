//! Needs: operator
//!
//! Ready is honest: at the moment the condition turns True, one single request succeeds; and once
//! the API is gone, the condition says so.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::ConditionType;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use suites::{
    cluster::parts::selector,
    scenario::{self, PATIENCE},
};

#[tokio::test]
async fn when_ready_turns_true_the_very_next_write_succeeds() {
    scenario::run("honest-ready", when_ready).await;
}

async fn when_ready(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let (cluster, _) = tenant.ready(PATIENCE).await?;
    let status = cluster.status.unwrap_or_default();
    let admin = tenant
        .admin(Duration::from_secs(1))
        .await
        .context("Ready without a kubeconfig")?;
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    let map = serde_json::from_value(json!({ "metadata": { "name": "at-once" } }))?;
    maps.create(&PostParams::default(), &map)
        .await
        .context("Ready, but a write is refused")?;
    ensure!(
        status.endpoint.is_some() && status.kubeconfig_secret.is_some(),
        "{status:?}"
    );
    Ok(())
}

#[tokio::test]
async fn when_etcd_goes_away_ready_turns_false_and_comes_back_with_it() {
    scenario::run("honest-loss", when_etcd_goes).await;
}

/// A pod that is deleted comes back by itself; one that cannot be scheduled does not. So the claim
/// is that Ready is False while etcd cannot start, and True again once it can.
async fn when_etcd_goes(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "no-pods" },
        "spec": { "hard": { "pods": "0" } },
    });
    let quotas: Api<k8s_openapi::api::core::v1::ResourceQuota> = tenant.parts();
    quotas
        .create(&PostParams::default(), &serde_json::from_value(quota)?)
        .await?;
    let pods: Api<Pod> = tenant.parts();
    let etcd = ListParams::default().labels(&selector("etcd"));
    pods.delete_collection(&DeleteParams::default().grace_period(0), &etcd)
        .await?;
    // P9 of the reliability checklist: False within 30 s; the rest is the busy machine's.
    let lost = tenant
        .condition(ConditionType::Ready, false, Duration::from_secs(90))
        .await?;
    let conditions = lost.status.unwrap_or_default().conditions;
    let ready = conditions
        .iter()
        .find(|c| c.type_ == "Ready")
        .context("no condition Ready")?;
    ensure!(
        !ready.message.is_empty() && ready.reason != "Answering",
        "{ready:?}"
    );
    quotas.delete("no-pods", &DeleteParams::default()).await?;
    tenant
        .condition(ConditionType::Ready, true, PATIENCE)
        .await?;
    Ok(())
}
