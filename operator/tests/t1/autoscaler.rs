//! The addon `autoscaler`: it is laid and kept; switched off, and deleted with its tenant cluster, it
//! leaves nothing, in the user's namespace neither.
//!
//! Invariant: neither an adapter nor a Cluster Autoscaler runs here.

use anyhow::Result;
use api::{ConditionType, NodePool};
use kit_objects::kinds;
use kit_objects::object::Key;
use kube::ResourceExt;
use serde_json::{Value, json};
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::autoscaler;
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::parts::{come_back, kind_of};
use crate::support::site::tenant_namespace;
use crate::support::{Operator, PATIENCE, Site};

const PRIORITIES: &str =
    "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-priority-expander";

fn switch(on: bool) -> Value {
    json!({ "spec": { "addons": { "autoscaler": { "enabled": on } } } })
}

async fn wait_priorities(site: &Site, ns: &str, there: bool) -> Result<()> {
    let wanted = |found: Option<&Value>| found.is_some() == there;
    site.tenants.wait(ns, PRIORITIES, wanted, PATIENCE).await
}

/// A tenant cluster with it, and where its parts are.
async fn switched_on(site: &Site, operator: &Operator) -> Result<(String, Vec<Key>)> {
    let ns = tenant_namespace(&site.wait_ready("demo").await?);
    site.change("demo", &switch(true)).await?;
    wait_priorities(site, &ns, true).await?;
    site.wait_ready("demo").await?;
    operator.settle(site, "demo").await?;
    let parts = autoscaler::Autoscaler.parts(&ns, &site.users, "demo");
    Ok((ns, parts))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn autoscaler_is_laid_and_comes_back_and_goes_with_its_binding() -> Result<()> {
    let Some(site) = Site::new("autoscaler").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let keys = async || anyhow::Ok(site.state("demo").await?.into_keys().collect::<Vec<_>>());
    let ns = tenant_namespace(&cluster);
    let (before, inside) = (keys().await?, site.tenants.paths(&ns));
    let (ns, parts) = switched_on(&site, &operator).await?;
    come_back(&site, &operator, &parts).await?;

    site.change("demo", &switch(false)).await?;
    wait_priorities(&site, &ns, false).await?;
    for key in parts {
        let objects = site.objects(kind_of(&key.kind)?, &key.namespace);
        wait_gone(&objects, &key.name, PATIENCE).await?;
    }
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    assert_eq!(keys().await?, before);
    assert_eq!(site.tenants.paths(&ns), inside);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn autoscalers_binding_goes_with_the_tenant_cluster() -> Result<()> {
    let Some(site) = Site::new("autoscaler-del").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let (ns, parts) = switched_on(&site, &operator).await?;
    let bindings = site.objects(kinds::ROLE_BINDING, &site.users);
    let name = api::names::autoscaler_binding("demo");
    assert!(bindings.get_opt(&name).await?.is_some());
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    wait_gone(&site.objects(kinds::NAMESPACE, ""), &ns, PATIENCE).await?;
    for key in parts {
        let objects = site.objects(kind_of(&key.kind)?, &key.namespace);
        wait_gone(&objects, &key.name, PATIENCE).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_pool_says_who_sets_its_replicas() -> Result<()> {
    let Some(site) = Site::new("autoscaler-pool").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    site.create_pool("workers", 0).await?;
    let says = async |reason: Option<&'static str>| {
        let said = move |pool: Option<&NodePool>| {
            let status = pool.and_then(|pool| pool.status.as_ref());
            let mut found = status.into_iter().flat_map(|status| &status.conditions);
            let type_ = ConditionType::Autoscaling.as_str();
            let condition = found.find(|c| c.type_ == type_);
            condition.map(|c| c.reason.as_str()) == reason
        };
        wait_for(&site.pools(), "workers", said, PATIENCE).await
    };
    let bounds = json!({ "spec": { "autoscaling": { "min": 0, "max": 3 } } });
    site.change_pool("workers", &bounds).await?;
    says(Some("AddonOff")).await?;
    site.change("demo", &switch(true)).await?;
    says(Some("OwnedByAutoscaler")).await?;
    site.change("demo", &switch(false)).await?;
    says(Some("AddonOff")).await?;
    let none = json!({ "spec": { "autoscaling": null } });
    site.change_pool("workers", &none).await?;
    says(None).await?;
    let pool = site.pools().get("workers").await?;
    assert_eq!(
        (pool.name_any().as_str(), pool.spec.replicas),
        ("workers", 0)
    );
    operator.stop().await
}
