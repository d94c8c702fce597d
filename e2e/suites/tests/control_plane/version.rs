//! Needs: operator
//!
//! The version of a running tenant cluster changes: one that does not start is told and set back while the
//! old one serves, and what is inside follows the version that serves.

use anyhow::{Context as _, Result, ensure};
use api::ConditionType;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::{Api, Client};
use serde_json::json;
use suites::cluster::Tenant;
use suites::cluster::wait::wait_for;
use suites::scenario::{self, PATIENCE, Scenario, versions::lab_has};

const OLD: &str = "1.35.4";
const NEW: &str = "1.36.3";
/// Nobody publishes it.
const MISSING: &str = "1.36.99";

#[tokio::test]
async fn a_version_is_changed_and_one_that_does_not_start_is_set_back() {
    scenario::run("version", version).await;
}

async fn version(s: &Scenario) -> Result<()> {
    if !lab_has(&s.management.layout, "a change of version", &[OLD, NEW])? {
        return Ok(());
    }
    let tenant = s
        .tenant("demo", |spec| spec.version = OLD.to_owned())
        .await?;
    let inside = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    let etcd = tenant.pod_uids("etcd").await?;
    let before = tenant.pod_uids("control-plane").await?;

    ask_for(&tenant, MISSING).await?;
    let told = tenant
        .condition(ConditionType::Degraded, true, PATIENCE)
        .await?;
    let now = told.status.unwrap_or_default();
    let mut degraded = now.conditions.iter().filter(|c| c.type_ == "Degraded");
    ensure!(
        degraded.any(|c| c.reason == "ImagePullFailed"),
        "{:?}",
        now.conditions
    );
    ensure!(now.version.as_deref() == Some(OLD), "{:?}", now.version);
    ensure!(
        kube_proxy(&inside).await?.ends_with(OLD),
        "it followed what does not serve"
    );
    let pods = tenant.pod_uids("control-plane").await?;
    ensure!(
        before.iter().all(|uid| pods.contains(uid)),
        "the old pod is gone"
    );

    ask_for(&tenant, OLD).await?;
    tenant.settled(PATIENCE).await?;
    ensure!(
        tenant.pod_uids("control-plane").await? == before,
        "nothing was to be restarted"
    );

    ask_for(&tenant, NEW).await?;
    let serves_new = |cluster: &api::TenantCluster| {
        let version = cluster.status.as_ref()?.version.as_deref()?;
        (version == NEW).then_some(())
    };
    wait_for(
        &tenant.api(),
        &tenant.name,
        "serves the new version",
        PATIENCE,
        serves_new,
    )
    .await?;
    tenant.settled(PATIENCE).await?;
    let served = inside.apiserver_version().await?.git_version;
    ensure!(served == format!("v{NEW}"), "{served}");
    ensure!(
        kube_proxy(&inside).await?.ends_with(NEW),
        "it did not follow"
    );
    ensure!(
        tenant.pod_uids("etcd").await? == etcd,
        "etcd was not to be restarted"
    );
    Ok(())
}

async fn ask_for(tenant: &Tenant, version: &str) -> Result<()> {
    // For a minor the new kube-apiserver serves the one before for so long.
    let upgrade = json!({ "soak": "15s" });
    let change = json!({ "version": version, "upgrade": upgrade });
    tenant.change(&change).await
}

/// The image of kube-proxy inside the tenant cluster.
async fn kube_proxy(inside: &Client) -> Result<String> {
    let daemon_sets: Api<DaemonSet> = Api::namespaced(inside.clone(), "kube-system");
    let spec = daemon_sets
        .get("kube-proxy")
        .await?
        .spec
        .context("no spec")?;
    let pod = spec.template.spec.context("no pod")?;
    let container = pod.containers.into_iter().next().context("no container")?;
    container.image.context("no image")
}
