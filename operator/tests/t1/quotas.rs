//! Quotas: what the webhook refuses, what the leader does not start although it was let in, and what
//! the status says is used.
//!
//! Invariant: a quota is of the whole management cluster, so each carries the label of its site, and no
//! other operator sees it.

use anyhow::{Context as _, Result, ensure};
use api::{TenantQuota, names};
use kit_objects::kinds;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::fixtures::{ask_until, wait_for, wait_gone};

use crate::admission::Guarded;
use crate::support::kubevirt::KubeVirt;
use crate::support::pools::said;
use crate::support::site::{apply, is_settled, tenant_namespace};
use crate::support::{Operator, PATIENCE, Site};

/// The quota of a site.
pub(crate) struct Quota {
    api: Api<TenantQuota>,
    name: String,
}

impl Quota {
    pub(crate) async fn lay(site: &Site, most: &Value) -> Result<Self> {
        let name = format!("quota-of-{}", site.users);
        let mut spec = json!({ "namespaces": [site.users] });
        for (field, most) in most.as_object().context("a map")? {
            spec[field] = most.clone();
        }
        let quota = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantQuota", "spec": spec,
            "metadata": { "name": name, "labels": { names::LABEL_TENANT_NAMESPACE: site.users } },
        });
        apply(&site.admin, &quota).await?;
        let api = Api::all(site.admin.clone());
        Ok(Self { api, name })
    }

    /// Waits until the status says that so much is used.
    pub(crate) async fn wait_used(&self, field: &str, amount: &Value) -> Result<Value> {
        let is = |quota: Option<&TenantQuota>| {
            let status = quota.and_then(|quota| quota.status.as_ref());
            let used = status.and_then(|status| serde_json::to_value(&status.used).ok());
            used.is_some_and(|used| used[field] == *amount)
        };
        let found = wait_for(&self.api, &self.name, is, PATIENCE).await;
        let found = found.with_context(|| format!("{field} is not {amount}"))?;
        Ok(serde_json::to_value(found)?)
    }

    async fn change(&self, most: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": most }));
        let params = PatchParams::default();
        self.api.patch(&self.name, &params, &patch).await?;
        Ok(())
    }

    pub(crate) async fn remove(self) -> Result<()> {
        let params = DeleteParams::background();
        self.api.delete(&self.name, &params).await?;
        wait_gone(&self.api, &self.name, PATIENCE).await
    }
}

fn is_refused(object: &impl serde::Serialize) -> bool {
    let object = serde_json::to_value(object).unwrap_or_default();
    said(&object, "Degraded") == ("True".to_owned(), "QuotaExceeded".to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_were_created_together_one_starts_and_the_other_waits_for_room() -> Result<()> {
    let Some(site) = Site::new("quota-race").await? else {
        return Ok(());
    };
    let quota = Quota::lay(&site, &json!({ "clusters": 1 })).await?;
    // No webhook stands before this site: both get in.
    site.create("one").await?;
    site.create("two").await?;
    let operator = Operator::start(&site)?;
    let mut told = None;
    for name in ["one", "two"] {
        let seen = site
            .wait(name, |cluster| is_refused(cluster) || is_settled(cluster))
            .await?;
        if is_refused(&seen) {
            ensure!(told.replace(name).is_none(), "both are refused");
        }
    }
    let refused = told.context("both started")?;
    let running = if refused == "one" { "two" } else { "one" };
    site.wait_event(refused, "QuotaExceeded").await?;
    let seen = site.clusters().get(refused).await?;
    let status = seen.status.clone().unwrap_or_default();
    ensure!(status.network.is_none(), "it was given addresses");
    let namespaces = site.objects(kinds::NAMESPACE, "");
    let its = namespaces.get_opt(&tenant_namespace(&seen)).await?;
    ensure!(its.is_none(), "it has a tenant namespace");

    let used = quota.wait_used("clusters", &json!(1)).await?;
    ensure!(said(&used, "Exceeded").0 == "False", "{used}");
    // Nothing more is written while nothing changes. The one that runs is Ready before its Service has been
    // told to lead to ready pods alone.
    operator.settle(&site, running).await?;
    operator.settle(&site, refused).await?;
    let window = site.api.audit().window()?;
    operator.reconcile(&site, refused).await?;
    let writes = window.writes_of(&site.user())?;
    ensure!(writes.is_empty(), "{refused} is refused: {writes:#?}");

    // It starts by itself once there is room: nobody looks at it again but for that.
    site.delete(running).await?;
    site.wait_ready(refused).await?;
    quota.wait_used("clusters", &json!(1)).await?;
    site.delete(refused).await?;
    quota.wait_used("clusters", &json!(0)).await?;
    quota.remove().await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_beyond_the_quota_keeps_its_machines_and_gets_no_more() -> Result<()> {
    let Some(site) = Site::new("quota-pool").await? else {
        return Ok(());
    };
    let quota = Quota::lay(&site, &json!({ "machines": 2 })).await?;
    let operator = Operator::start(&site)?;
    let _kubevirt = KubeVirt::start(&site);
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    site.create_pool("workers", 2).await?;
    site.wait_pool_ready("workers").await?;
    let used = quota.wait_used("machines", &json!(2)).await?;
    ensure!(used["status"]["used"]["clusters"] == 1, "{used}");

    site.create_pool("more", 1).await?;
    site.wait_pool("more", is_refused).await?;
    ensure!(
        site.machines_of("more").await?.is_empty(),
        "it has machines"
    );
    let larger = json!({ "spec": { "replicas": 3 } });
    site.change_pool("workers", &larger).await?;
    site.wait_pool("workers", is_refused).await?;
    site.wait_event("workers", "QuotaExceeded").await?;
    ensure!(site.machines_of("workers").await?.len() == 2, "not two");

    // Lowered, it stops nothing and says so.
    quota.change(&json!({ "machines": 1 })).await?;
    let exceeded = |quota: Option<&TenantQuota>| {
        let quota = serde_json::to_value(quota).unwrap_or_default();
        said(&quota, "Exceeded").0 == "True"
    };
    wait_for(&quota.api, &quota.name, exceeded, PATIENCE).await?;
    ensure!(site.machines_of("workers").await?.len() == 2, "not two");

    quota.change(&json!({ "machines": 4 })).await?;
    site.wait_pool_ready("workers").await?;
    site.wait_pool_ready("more").await?;
    quota.wait_used("machines", &json!(4)).await?;
    for pool in ["workers", "more"] {
        site.remove_pool(pool).await?;
    }
    quota.wait_used("machines", &json!(0)).await?;
    site.delete("demo").await?;
    quota.wait_used("clusters", &json!(0)).await?;
    quota.remove().await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_webhook_refuses_what_is_beyond_a_quota() -> Result<()> {
    let Some(guarded) = Guarded::new("quota-said").await? else {
        return Ok(());
    };
    let quota = Quota::lay(&guarded.site, &json!({ "clusters": 1, "storage": "4Gi" })).await?;
    quota.wait_used("clusters", &json!(0)).await?;
    let paused = json!({ "spec": { "paused": true } });
    guarded
        .create("one", &paused, false)
        .await
        .map_err(anyhow::Error::msg)?;
    // What was let in a moment ago is seen a moment later.
    let said = ask_until("a second one is refused", PATIENCE, || async {
        Ok(match guarded.create("two", &paused, true).await {
            Err(said) => Ok(said),
            Ok(()) => Err("it is let in".to_owned()),
        })
    })
    .await?;
    let sentence = format!(
        "spec: TenantQuota {} allows 1 tenant clusters in its namespaces: 1 are used by others and 1 \
         are asked for; ask for less, delete what is not needed any more, or ask an administrator to \
         raise spec.clusters of the quota",
        quota.name
    );
    ensure!(said.contains(&sentence), "{said}");
    let larger = |size: &str| json!({ "spec": { "etcd": { "storage": { "size": size } } } });
    let said = guarded.change("one", &larger("8Gi")).await;
    let said = said.err().context("etcd grows beyond the quota")?;
    ensure!(said.contains("allows 4Gi of storage"), "{said}");
    let fits = guarded.change("one", &larger("4Gi")).await;
    fits.map_err(anyhow::Error::msg)?;
    guarded.site.delete("one").await?;
    quota.wait_used("clusters", &json!(0)).await?;
    quota.remove().await?;
    guarded.end().await
}
