//! Needs: operator, activator
//!
//! A tenant cluster that sleeps runs nothing and costs no write, is not waked by who only connects, and wakes for the first
//! client that asks, with all that it had.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::HibernationPhase;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, ObjectMeta, PostParams};
use kube::{Api, Resource, ResourceExt as _};
use suites::cluster::Tenant;
use suites::cluster::wait::wait_for;
use suites::scenario::sleeping::{self, phase};
use suites::scenario::{self, PATIENCE, Scenario};
use tokio::net::TcpStream;

/// What is inside.
const KEPT: &str = "kept";
/// How long after its last status.
const SETTLED: Duration = Duration::from_secs(5);
/// How long it is watched asleep.
const REST: Duration = Duration::from_secs(30);
#[tokio::test]
async fn one_that_sleeps_runs_nothing_and_wakes_for_the_first_client_that_asks() {
    scenario::run("sleep", sleep).await;
}

async fn sleep(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let maps: Api<ConfigMap> = Api::namespaced(tenant.admin(PATIENCE).await?, "default");
    let kept = ConfigMap {
        metadata: ObjectMeta {
            name: Some(KEPT.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let kept = maps.create(&PostParams::default(), &kept).await?;
    drop(maps);
    let before = everything(&tenant).await?;

    sleeping::put_to_sleep(&tenant, PATIENCE).await?;
    let log = s.management.audit_log();
    // Whatever still comes after the last status, its Event for one, is of falling asleep.
    tokio::time::sleep(SETTLED).await;
    let mark = log.mark()?;
    connect(&tenant).await?;
    // The rest is the test: nobody waits here for anything to happen.
    tokio::time::sleep(REST).await;
    let requests = log.since(mark)?;
    let ns = tenant.tenant_namespace();
    let is_about_it =
        |namespace: &str| namespace == ns.as_str() || namespace == tenant.namespace.as_str();
    let writes: Vec<_> = requests
        .iter()
        .filter(|r| r.is_operators() && r.is_write() && is_about_it(&r.namespace))
        .collect();
    ensure!(writes.is_empty(), "wrote for one that sleeps: {writes:?}");
    let now = phase(&tenant.get().await?);
    ensure!(now == Some(HibernationPhase::Asleep), "{now:?}");
    ensure!(everything(&tenant).await? == before, "something is another");

    let woken = sleeping::ask(&tenant, KEPT, PATIENCE).await?;
    ensure!(woken.found.uid() == kept.uid(), "it is another one");
    eprintln!("its first client had its answer after {:?}", woken.took);
    // How often it was held and closed is the machine's speed; that somebody waits for it is not.
    let is_shut = |said: &String| said.to_lowercase().contains("connection refused");
    ensure!(!woken.refused.iter().any(is_shut), "{:?}", woken.refused);
    let is_woken =
        |cluster: &TenantCluster| (phase(cluster) == Some(HibernationPhase::Awake)).then_some(());
    wait_for(&tenant.api(), &tenant.name, "is awake", PATIENCE, is_woken).await?;
    tenant.ready(PATIENCE).await?;
    ensure!(everything(&tenant).await? == before, "something is another");
    let said = said(&tenant, "Waking").await?;
    ensure!(
        said.len() == 1 && said[0].contains("asked its API"),
        "{said:?}"
    );
    sleeping::keep_awake(&tenant, PATIENCE).await?;
    tenant.delete().await?;
    tenant.gone(PATIENCE).await
}

/// Connects to the API and says nothing, as health checks and scans do.
async fn connect(tenant: &Tenant) -> Result<()> {
    let status = tenant.get().await?.status;
    let endpoint = status.and_then(|status| status.endpoint);
    let endpoint = endpoint.context("it has no endpoint")?;
    let port = u16::try_from(endpoint.port)?;
    let connecting = TcpStream::connect((endpoint.host.as_str(), port));
    let connected = tokio::time::timeout(PATIENCE, connecting).await;
    drop(connected.context("nobody waits in its place")??);
    Ok(())
}

/// UIDs of its claims, Secrets and Services.
async fn everything(tenant: &Tenant) -> Result<Vec<(String, Option<String>)>> {
    let mut all = uids(&tenant.parts::<PersistentVolumeClaim>()).await?;
    all.extend(uids(&tenant.parts::<Secret>()).await?);
    all.extend(uids(&tenant.parts::<Service>()).await?);
    Ok(all)
}

async fn uids<K>(api: &Api<K>) -> Result<Vec<(String, Option<String>)>>
where
    K: Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await?;
    let each = list.items.iter();
    let mut all: Vec<_> = each.map(|one| (one.name_any(), one.uid())).collect();
    all.sort();
    Ok(all)
}

/// What Events of a reason say of it.
async fn said(tenant: &Tenant, reason: &str) -> Result<Vec<String>> {
    let events: Api<Event> = Api::namespaced(tenant.management.clone(), &tenant.namespace);
    let events = events.list(&ListParams::default()).await?;
    let about = |event: &Event| {
        let regarding = event.regarding.as_ref()?.name.as_deref();
        let is_it = regarding == Some(&tenant.name) && event.reason.as_deref() == Some(reason);
        event.note.clone().filter(|_| is_it)
    };
    Ok(events.items.iter().filter_map(about).collect())
}
