//! Control planes that wait: taken over as they run, by one each, and made anew.
//!
//! Invariant: nothing that runs is made a second time, and nothing that one has goes with another.

use std::ops::RangeInclusive;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::names::LABEL_STANDBY;
use kit_objects::kinds;
use kube::ResourceExt as _;
use kube::api::ListParams;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::Crash;
use testkit::fixtures::{self, wait_for, wait_gone};

use crate::crash::dies;
use crate::support::site::{is_settled, tenant_namespace};
use crate::support::{Launch, Operator, PATIENCE, Site};

fn name(slot: u16) -> String {
    format!("standby-{}-{slot}", fixtures::VERSION.replace('.', "-"))
}

fn keeping(site: &Site, count: u16, plan: &FaultPlan) -> Result<Operator> {
    let mut launch = Launch::new(site)?.plan(plan);
    let wanted = json!({ fixtures::VERSION: count });
    launch.settings.standby = serde_json::from_value(wanted)?;
    launch.start(site)
}

/// UIDs and generations of what runs in a tenant namespace.
async fn workloads(site: &Site, ns: &str) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for kind in [kinds::DEPLOYMENT, kinds::STATEFUL_SET] {
        let listed = site.objects(kind, ns).list(&ListParams::default()).await?;
        let of = |o: &kube::api::DynamicObject| {
            json!([o.name_any(), o.metadata.uid, o.metadata.generation])
        };
        found.extend(listed.items.iter().map(of));
    }
    Ok(found)
}

fn borne(cluster: &TenantCluster) -> Result<String> {
    let identity = cluster.taken_over();
    Ok(identity.context("it took nothing over")?.uid.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_plane_that_waits_is_taken_over_as_it_runs_and_another_one_waits() -> Result<()> {
    let Some(site) = Site::with_standby("standby").await? else {
        return Ok(());
    };
    let operator = keeping(&site, 1, &FaultPlan::none())?;
    let waits = site.wait_ready(&name(0)).await?;
    ensure!(waits.labels().contains_key(LABEL_STANDBY));
    let ns = tenant_namespace(&waits);
    let ran = workloads(&site, &ns).await?;
    ensure!(!ran.is_empty());

    site.create("demo").await?;
    let taken = site.wait_ready("demo").await?;
    ensure!(borne(&taken)? == waits.uid().unwrap_or_default());
    ensure!(taken.tenant_namespace() == ns);
    ensure!(taken.status.as_ref().and_then(|s| s.namespace.clone()) == Some(ns.clone()));
    let runs = workloads(&site, &ns).await?;
    ensure!(runs == ran, "{runs:?} in place of {ran:?}");
    let own = api::names::tenant_namespace("demo", &taken.uid().unwrap_or_default());
    let namespaces = site.objects(kinds::NAMESPACE, "");
    ensure!(
        namespaces.get_opt(&own).await?.is_none(),
        "{own} was made, too"
    );
    site.wait_event("demo", "TookOver").await?;

    // The one that it was made for goes alone, and another one comes to wait.
    let is_next = |c: &TenantCluster| c.uid() != waits.uid() && is_settled(c);
    let next = site.wait(&name(0), is_next).await?;
    ensure!(tenant_namespace(&next) != ns);
    let still = namespaces.get(&ns).await?;
    ensure!(still.metadata.deletion_timestamp.is_none(), "{ns} goes");
    ensure!(workloads(&site, &ns).await? == ran);

    // A change of its own is carried out, and looked at by whoever bears it.
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": 2 } } }),
    )
    .await?;
    let is_wide = |c: &TenantCluster| is_settled(c) && c.metadata.generation >= Some(2);
    site.wait("demo", is_wide).await?;
    let deployments = site.objects(kinds::DEPLOYMENT, &ns);
    let replicas = deployments.get("control-plane").await?.data["spec"]["replicas"].clone();
    ensure!(replicas == 2, "{replicas}");

    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    wait_gone(&namespaces, &ns, PATIENCE).await?;
    let rests = site.clusters().get(&name(0)).await?;
    ensure!(rests.uid() == next.uid() && rests.metadata.deletion_timestamp.is_none());
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_come_at_once_one_takes_over_and_the_other_is_made() -> Result<()> {
    let Some(site) = Site::with_standby("standby-two").await? else {
        return Ok(());
    };
    let operator = keeping(&site, 1, &FaultPlan::none())?;
    let waits = site.wait_ready(&name(0)).await?;
    futures::try_join!(site.create("one"), site.create("two"))?;
    let both = [site.wait_ready("one").await?, site.wait_ready("two").await?];
    let took: Vec<_> = both.iter().filter_map(|c| c.taken_over()).collect();
    ensure!(took.len() == 1, "{took:?}");
    ensure!(Some(&took[0].uid) == waits.metadata.uid.as_ref());
    ensure!(both[0].tenant_namespace() != both[1].tenant_namespace());
    let networks = both
        .iter()
        .map(|c| c.status.as_ref().and_then(|s| s.network.clone()));
    let networks: Vec<_> = networks.collect();
    ensure!(networks[0] != networks[1], "{networks:?}");
    operator.stop().await?;

    // Nobody is to wait any more.
    let operator = keeping(&site, 0, &FaultPlan::none())?;
    wait_gone(&site.clusters(), &name(0), PATIENCE).await?;
    for cluster in ["one", "two"] {
        let cluster = site.wait_ready(cluster).await?;
        ensure!(cluster.metadata.deletion_timestamp.is_none());
    }
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_as_it_takes_one_over_takes_over_no_other() -> Result<()> {
    Box::pin(takes_over_no_other("standby-dies", 1..=4, 4)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_after_it_took_one_over_takes_over_no_other() -> Result<()> {
    Box::pin(takes_over_no_other("standby-died", 5..=8, 1)).await
}

/// It dies at each of these writes since somebody asked for one; the last ones come when that one is Ready and the next one
/// is to wait. `least`: how many of them there are at least.
async fn takes_over_no_other(prefix: &str, writes: RangeInclusive<u64>, least: u64) -> Result<()> {
    let Some(site) = Site::with_standby(prefix).await? else {
        return Ok(());
    };
    let mut died = 0;
    for write in writes {
        let plan = FaultPlan::none();
        let first = keeping(&site, 1, &plan)?;
        let waits = site.wait_ready(&name(0)).await?;
        first.settle(&site, &name(0)).await?;
        let demo = format!("demo-{write}");
        plan.arm(Crash::After(write));
        site.create(&demo).await?;
        let comes_up = async { site.wait_ready(&demo).await.map(drop) };
        died += u64::from(Box::pin(dies(&first, comes_up)).await?);
        drop(first);
        let next = keeping(&site, 1, &FaultPlan::none())?;
        let taken = site.wait_ready(&demo).await?;
        let bears = borne(&taken)?;
        ensure!(
            bears == waits.uid().unwrap_or_default(),
            "after {write} writes: {bears}"
        );
        let other = |c: Option<&TenantCluster>| c.is_some_and(|c| c.uid() != waits.uid());
        wait_for(&site.clusters(), &name(0), other, PATIENCE).await?;
        let namespaces = site.objects(kinds::NAMESPACE, "");
        let ns = namespaces.get(&tenant_namespace(&waits)).await?;
        ensure!(
            ns.metadata.deletion_timestamp.is_none(),
            "after {write} writes"
        );
        next.stop().await?;
    }
    ensure!(died >= least, "it died only {died} times");
    Ok(())
}
