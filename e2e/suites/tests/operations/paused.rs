//! Needs: operator
//!
//! `paused: true` means hands off: what a user changes in the meantime stays, and is put right
//! once it is false again. Deletion works meanwhile.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use suites::{
    cluster::{Tenant, wait::wait_for},
    scenario::{self, PATIENCE, Scenario},
};

#[tokio::test]
async fn a_paused_tenant_is_left_alone_and_put_right_afterwards() {
    scenario::run("paused", paused).await;
}

async fn paused(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    pause(&tenant, true).await?;
    let reason = |reason: &'static str| {
        move |cluster: &api::TenantCluster| {
            let status = cluster.status.as_ref()?;
            let condition = status
                .conditions
                .iter()
                .find(|c| c.type_ == "Progressing")?;
            let current = status.observed_generation == cluster.metadata.generation;
            (current && condition.reason == reason).then(|| condition.message.clone())
        }
    };
    let message = wait_for(
        &tenant.api(),
        "demo",
        "is paused",
        PATIENCE,
        reason("Paused"),
    )
    .await?;
    ensure!(message.contains("set it to false"), "{message}");

    let budgets: Api<PodDisruptionBudget> = tenant.parts();
    let patch = json!({ "spec": { "maxUnavailable": 0 } });
    let log = s.management.audit_log();
    let mark = log.mark()?;
    budgets
        .patch("etcd", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    // Another change that the operator must look at and answer proves that it had its chance.
    let other = s.tenant("other", |_| {}).await?;
    other.settled(PATIENCE).await?;
    let ns = tenant.tenant_namespace();
    let touched: Vec<_> = log.since(mark)?;
    let touched: Vec<_> = touched
        .iter()
        .filter(|r| r.is_operators() && r.is_write() && r.namespace == ns)
        .collect();
    ensure!(touched.is_empty(), "wrote although paused: {touched:?}");

    pause(&tenant, false).await?;
    wait_for(&budgets, "etcd", "is as it was", PATIENCE, |budget| {
        let allowed = budget.spec.as_ref()?.max_unavailable.clone()?;
        (serde_json::to_value(allowed).ok()? == json!(1)).then_some(())
    })
    .await?;
    tenant.settled(PATIENCE).await?;

    pause(&tenant, true).await?;
    tenant.delete().await?;
    tenant.gone(PATIENCE).await.context("deletion while paused")
}

async fn pause(tenant: &Tenant, value: bool) -> Result<()> {
    tenant.change(&json!({ "paused": value })).await
}
