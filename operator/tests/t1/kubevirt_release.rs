//! KubeVirt's version, which the test plays, and what node pools say about it.
//!
//! Invariant: the KubeVirt object carries the label of the site, so that no other site sees it.

use anyhow::{Result, ensure};
use api::{NodePool, names};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::support::kubevirt::KubeVirt;
use crate::support::pools::said;
use crate::support::{Operator, Site};

const REASON: &str = "KubeVirtOutdated";

async fn put_kubevirt(site: &Site, version: &str) -> Result<()> {
    let object = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "KubeVirt",
        "metadata": { "name": "kubevirt", "namespace": site.users,
            "labels": { names::LABEL_TENANT_NAMESPACE: site.users } },
        "spec": { "configuration": {} },
    });
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", "KubeVirt"));
    let api = Api::<DynamicObject>::namespaced_with(site.admin.clone(), &site.users, &kind);
    let params = PatchParams::apply("t1").force();
    api.patch("kubevirt", &params, &Patch::Apply(object))
        .await?;
    let status = json!({ "status": { "phase": "Deployed", "observedKubeVirtVersion": version } });
    let params = PatchParams::default();
    api.patch_status("kubevirt", &params, &Patch::Merge(status))
        .await?;
    Ok(())
}

fn condition(pool: &NodePool) -> Option<String> {
    let status = pool.status.iter();
    let mut all = status.flat_map(|status| &status.conditions);
    all.find(|condition| condition.type_ == REASON)
        .map(|condition| format!("{} {}", condition.status, condition.message))
}

fn names_it(version: &'static str) -> impl Fn(&NodePool) -> bool {
    move |pool| {
        condition(pool).is_some_and(|said| said.starts_with("True") && said.contains(version))
    }
}

async fn events(site: &Site, pool: &str) -> Result<usize> {
    let api = Api::<Event>::namespaced(site.admin.clone(), &site.users);
    let all = api.list(&ListParams::default()).await?.items;
    let about = |event: &&Event| {
        let regarding = event.regarding.as_ref().and_then(|r| r.name.as_deref());
        event.reason.as_deref() == Some(REASON) && regarding == Some(pool)
    };
    Ok(all.iter().filter(about).count())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_kubevirt_is_told_once_holds_nothing_up_and_is_forgotten_when_upgraded() -> Result<()> {
    let Some(site) = Site::new("release").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let _kubevirt = KubeVirt::start(&site);
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    site.create_pool("workers", 1).await?;
    let pool = site.wait_pool_ready("workers").await?;
    ensure!(condition(&pool).is_none(), "{:?}", condition(&pool));
    let uids = |machines: Vec<api::Machine>| machines.iter().map(ResourceExt::uid).collect();
    let machines: Vec<_> = uids(site.machines_of("workers").await?);

    // Told of what runs, and of what is made from now on.
    put_kubevirt(&site, "v1.6.0").await?;
    site.wait_pool("workers", names_it("v1.6.0")).await?;
    site.wait_event("workers", REASON).await?;
    site.create_pool("more", 1).await?;
    site.wait_pool_ready("more").await?;
    site.wait_pool("more", names_it("v1.6.0")).await?;
    site.wait_event("more", REASON).await?;

    // Another one with holes is no new Event, nor is a version that nobody can read.
    put_kubevirt(&site, "v1.7.0").await?;
    for name in ["workers", "more"] {
        site.wait_pool(name, names_it("v1.7.0")).await?;
    }
    put_kubevirt(&site, "devel").await?;
    for name in ["workers", "more"] {
        operator.settle_pool(&site, "demo", name).await?;
        let pool = site.pools().get(name).await?;
        ensure!(names_it("v1.7.0")(&pool), "{:?}", condition(&pool));
        let value: Value = serde_json::to_value(&pool)?;
        ensure!(said(&value, "Degraded").0 == "False", "{value:#}");
        ensure!(events(&site, name).await? == 1);
    }
    let now: Vec<_> = uids(site.machines_of("workers").await?);
    ensure!(now == machines, "{now:?} instead of {machines:?}");

    put_kubevirt(&site, "v1.9.0").await?;
    for name in ["workers", "more"] {
        site.wait_pool(name, |pool| condition(pool).is_none())
            .await?;
    }
    Ok(())
}
