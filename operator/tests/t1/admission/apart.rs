//! Operator and webhook are processes of their own: neither needs the other to go on.
//!
//! Invariant: what is gone is really gone while the other is asked, by what the API server says or by who
//! could have done it.

use anyhow::{Context as _, Result, ensure};
use kit_objects::kinds;
use kube::api::DynamicObject;
use serde_json::json;
use testkit::fixtures::{wait_for, wait_gone};
use tokio::net::TcpListener;

use super::Guarded;
use crate::support::site::tenant_namespace;
use crate::support::{PATIENCE, webhook};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admission_goes_on_and_begins_anew_without_an_operator() -> Result<()> {
    let Some(mut guarded) = Guarded::new("no-operator").await? else {
        return Ok(());
    };
    guarded.crash_operator();
    let window = guarded.site.api.audit().window()?;
    for round in ["first", "again"] {
        let unsupported = json!({ "spec": { "version": "1.30.1" } });
        let said = guarded.create(round, &unsupported, true).await;
        ensure!(
            said.as_ref().is_err_and(|s| s.contains("is not supported")),
            "{said:?}"
        );
        let right = guarded.create(round, &json!({}), false).await;
        right.map_err(anyhow::Error::msg)?;
        // A new process, with nothing but what is stored.
        let address = guarded.stop_webhook().await?;
        let listener = TcpListener::bind(address).await.context("its port")?;
        guarded.webhook = Some(webhook::Running::start(&guarded.site, listener).await?);
        guarded.wait_answer().await?;
    }
    // Nobody reconciled meanwhile, and the webhook wrote nothing at all.
    let (operator, webhook) = (guarded.site.user(), webhook::user(&guarded.site));
    window.assert_no_writes(&operator)?;
    window.assert_no_writes(&webhook)?;
    let cluster = guarded.site.clusters().get("first").await?;
    ensure!(cluster.status.is_none(), "somebody reconciled it");
    guarded.end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconciles_go_on_without_the_webhook() -> Result<()> {
    let Some(mut guarded) = Guarded::new("no-webhook").await? else {
        return Ok(());
    };
    let right = guarded.create("demo", &json!({}), false).await;
    right.map_err(anyhow::Error::msg)?;
    let cluster = guarded.site.wait_ready("demo").await?;
    guarded.stop_webhook().await?;
    let refused = guarded.create("late", &json!({}), true).await.unwrap_err();
    ensure!(refused.contains("failed calling webhook"), "{refused}");

    let site = &guarded.site;
    let deployments = site.objects(kinds::DEPLOYMENT, &tenant_namespace(&cluster));
    let name = "control-plane";
    let uid = deployments.get(name).await?.metadata.uid;
    deployments.delete(name, &Default::default()).await?;
    let back = |found: Option<&DynamicObject>| found.is_some_and(|found| found.metadata.uid != uid);
    wait_for(&deployments, name, back, PATIENCE).await?;
    site.wait_ready("demo").await?;
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    guarded.end().await
}
