//! Needs: operator
//!
//! A minor up with two replicas, and members of etcd that are replaced one by one, under a writer: nothing that
//! was acknowledged is lost, and each member is ended once.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use suites::cluster::Tenant;
use suites::scenario::{self, PATIENCE, Scenario, versions::lab_has};

use crate::writer::Writer;

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";

#[tokio::test]
async fn a_minor_up_and_a_change_of_etcd_lose_no_write() {
    scenario::run("upgrade", upgrade).await;
}

async fn upgrade(s: &Scenario) -> Result<()> {
    if !lab_has(&s.management.layout, "an upgrade", &[OLD, NEW])? {
        return Ok(());
    }
    let tenant = s
        .tenant("demo", |spec| {
            spec.version = OLD.to_owned();
            spec.control_plane.replicas = 2;
            spec.etcd.replicas = 3;
        })
        .await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    settled(&tenant).await?;
    let writer = Writer::start(admin);
    writer.more(20, Duration::from_secs(60)).await?;

    let members = tenant.pod_uids("etcd").await?;
    let upgrade = json!({ "soak": "15s" });
    tenant
        .change(&json!({ "version": NEW, "upgrade": upgrade }))
        .await?;
    settled(&tenant).await?;
    ensure!(
        tenant.pod_uids("etcd").await? == members,
        "etcd was restarted"
    );
    writer.more(20, Duration::from_secs(60)).await?;

    let servers = tenant.pod_uids("control-plane").await?;
    tenant
        .change(&json!({ "etcd": { "resources": { "requests": { "memory": "96Mi" } } } }))
        .await?;
    settled(&tenant).await?;
    let others = tenant.pod_uids("etcd").await?;
    ensure!(others.len() == 3, "{others:?}");
    ensure!(
        others.iter().all(|uid| !members.contains(uid)),
        "not all were replaced"
    );
    ensure!(
        tenant.pod_uids("control-plane").await? == servers,
        "the control plane was restarted"
    );
    let text = serde_json::to_string(&tenant.pods_of("etcd").await?)?;
    ensure!(text.matches("\"96Mi\"").count() >= 3, "{text}");
    writer.more(20, Duration::from_secs(60)).await?;
    writer.finish().await
}

/// Of the newest spec, and every pod is known to be of it.
async fn settled(tenant: &Tenant) -> Result<()> {
    let status = tenant
        .settled(PATIENCE)
        .await?
        .status
        .context("no status")?;
    let rollout = status
        .rollout
        .context("nothing of rollouts in the status")?;
    ensure!(
        rollout.etcd.is_some() && rollout.control_plane.is_some() && rollout.controllers.is_some(),
        "{rollout:?}"
    );
    Ok(())
}
