//! Needs: operator
//!
//! Tenants do not need the operator to run, nor does admission: while it is away, every request is
//! answered, a pod that is lost comes back, and what is wrong with a TenantCluster is refused.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use suites::{
    cluster::{OPERATOR, OPERATOR_NAMESPACE, wait::wait_for},
    scenario::{self, PATIENCE, Scenario},
};

use crate::writer::{Asker, Writer};

#[tokio::test]
async fn tenants_answer_every_request_while_the_operator_is_away() {
    scenario::run_alone("no-operator", away).await;
}

async fn away(s: &Scenario) -> Result<()> {
    let long = std::env::var_os("COVEY_LONG").is_some();
    let outage = Duration::from_secs(if long { 300 } else { 30 });
    let (one, two) = (
        s.tenant("one", |_| {}).await?,
        s.tenant("two", |_| {}).await?,
    );
    let (first, second) = (
        one.usable(PATIENCE).await?.client,
        two.usable(PATIENCE).await?.client,
    );
    one.settled(PATIENCE).await?;
    two.settled(PATIENCE).await?;

    let operators: Api<Deployment> = Api::namespaced(s.client().clone(), OPERATOR_NAMESPACE);
    let before = operators
        .get(OPERATOR)
        .await?
        .spec
        .and_then(|spec| spec.replicas)
        .unwrap_or(2);
    scale(&operators, 0).await?;
    let result = async {
        refuses(s).await?;
        let (asker, writer) = (Asker::start(first), Writer::start(second));
        let period = outage / 10;
        for _ in 0..10 {
            // The length of the outage is what is tested; writes are proof that time passes well.
            tokio::time::sleep(period).await;
            writer.more(1, Duration::from_secs(10)).await?;
        }
        // At least five answers a second, where twenty are asked for on an idle machine.
        asker.finish(usize::try_from(outage.as_secs())? * 5).await?;
        writer.finish().await
    };
    let result = result.await;
    scale(&operators, before).await?;
    result?;
    // It takes up again: a change made now is carried out.
    let third = s.tenant("three", |_| {}).await?;
    third.settled(PATIENCE).await.map(drop)
}

/// The webhook says what is wrong, as ever.
async fn refuses(s: &Scenario) -> Result<()> {
    let clusters: Api<TenantCluster> = Api::namespaced(s.client().clone(), &s.namespace);
    let wrong = json!({ "metadata": { "name": "wrong" }, "spec": { "version": "1.30.1" } });
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let said = clusters
        .create(&params, &serde_json::from_value(wrong)?)
        .await;
    let said = said.err().context("it was let in")?.to_string();
    ensure!(said.contains("is not supported"), "{said}");
    Ok(())
}

/// Scales and waits until so many are ready.
async fn scale(operators: &Api<Deployment>, replicas: i32) -> Result<()> {
    let patch = json!({ "spec": { "replicas": replicas } });
    operators
        .patch(OPERATOR, &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    wait_for(operators, OPERATOR, "scaled", PATIENCE, |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or(0) == replicas;
        (ready && status.replicas.unwrap_or(0) == replicas).then_some(())
    })
    .await
}
