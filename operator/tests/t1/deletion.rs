//! Whatever is deleted first, and whatever is down meanwhile, nothing of a tenant cluster stays.
//!
//! Invariant: every test ends with [`nothing_is_left`].

use anyhow::{Result, ensure};
use api::{ConditionType, TenantCluster, condition};
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;
use testkit::fakes::tenant_api::Mode;
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::kubevirt::KubeVirt;
use crate::support::pools::said;
use crate::support::site::tenant_namespace;
use crate::support::{Operator, PATIENCE, Site};

async fn running(prefix: &str) -> Result<Option<(Site, Operator, TenantCluster)>> {
    let Some(site) = Site::new(prefix).await? else {
        return Ok(None);
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    Ok(Some((site, operator, cluster)))
}

/// No TenantCluster, no tenant namespace, nothing of ours in the user's namespace, and not a key in
/// etcd that names the tenant namespace.
async fn nothing_is_left(site: &Site, cluster: &TenantCluster) -> Result<()> {
    let ns = tenant_namespace(cluster);
    wait_gone(&site.clusters(), &cluster.name_any(), PATIENCE).await?;
    wait_gone(&site.objects(kinds::NAMESPACE, ""), &ns, PATIENCE).await?;
    for (kind, object) in site.user_parts().await? {
        wait_gone(
            &site.objects(kind, &site.users),
            &object.name_any(),
            PATIENCE,
        )
        .await?;
    }
    let keys = site.api.etcd().keys("/registry/").await?;
    // Events live for an hour by design.
    let left: Vec<_> = keys
        .iter()
        .filter(|key| key.contains(&ns) && !key.starts_with("/registry/events/"))
        .collect();
    ensure!(left.is_empty(), "left in etcd: {left:?}");
    Ok(())
}

async fn remove(site: &Site, kind: Kind, namespace: &str, name: &str) -> Result<()> {
    site.objects(kind, namespace)
        .delete(name, &Default::default())
        .await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_tenant_cluster_takes_everything_along() -> Result<()> {
    let Some((site, _operator, cluster)) = running("delete").await? else {
        return Ok(());
    };
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_users_namespace_takes_everything_along() -> Result<()> {
    let Some((site, _operator, cluster)) = running("users-first").await? else {
        return Ok(());
    };
    remove(&site, kinds::NAMESPACE, "", &site.users).await?;
    nothing_is_left(&site, &cluster).await?;
    wait_gone(&site.objects(kinds::NAMESPACE, ""), &site.users, PATIENCE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_namespace_that_somebody_deletes_is_said_to_be_lost_and_no_empty_one_takes_its_place()
-> Result<()> {
    let Some((site, operator, cluster)) = running("tenant-first").await? else {
        return Ok(());
    };
    let ns = tenant_namespace(&cluster);
    let namespaces = site.objects(kinds::NAMESPACE, "");
    remove(&site, kinds::NAMESPACE, "", &ns).await?;
    for reason in ["NamespaceDeleted", "DataLost"] {
        site.wait("demo", |cluster| {
            let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
            let mut degraded = conditions.iter().filter(|c| c.type_ == "Degraded");
            degraded.any(|c| c.status == "True" && c.reason == reason)
        })
        .await?;
        site.wait_event("demo", reason).await?;
    }
    for _ in 0..3 {
        operator.reconcile(&site, "demo").await?;
    }
    let cluster_now = site.clusters().get("demo").await?;
    let conditions = cluster_now.status.unwrap_or_default().conditions;
    ensure!(
        !condition::is_true(&conditions, ConditionType::Ready),
        "{conditions:?}"
    );
    ensure!(namespaces.get_opt(&ns).await?.is_none(), "it was made anew");
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_goes_while_its_namespace_is_going() -> Result<()> {
    let Some((site, _operator, cluster)) = running("both").await? else {
        return Ok(());
    };
    remove(&site, kinds::NAMESPACE, "", &tenant_namespace(&cluster)).await?;
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_secrets_do_not_keep_a_tenant_cluster_from_going() -> Result<()> {
    let Some((site, _operator, cluster)) = running("secrets-first").await? else {
        return Ok(());
    };
    let ns = tenant_namespace(&cluster);
    for name in [
        "ca",
        "etcd-ca",
        "front-proxy-ca",
        "operator-client",
        "apiserver",
    ] {
        remove(&site, kinds::SECRET, &ns, name).await?;
    }
    remove(&site, kinds::SECRET, &site.users, "demo-kubeconfig").await?;
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_that_went_first_do_not_keep_a_tenant_cluster_from_going() -> Result<()> {
    let Some((site, operator, cluster)) = running("bindings-first").await? else {
        return Ok(());
    };
    drop(operator);
    let ns = tenant_namespace(&cluster);
    site.make_pod(&ns, "etcd-extra").await?;
    for namespace in [&ns, &site.users] {
        remove(&site, kinds::ROLE_BINDING, namespace, "covey-operator").await?;
    }
    site.delete("demo").await?;
    let _operator = Operator::start(&site)?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_tenant_api_and_missing_pods_do_not_hold_a_deletion_up() -> Result<()> {
    let Some((site, _operator, cluster)) = running("down").await? else {
        return Ok(());
    };
    ensure!(
        site.tenants.set(&tenant_namespace(&cluster), Mode::Down),
        "no stand-in"
    );
    site.kubelet.set(testkit::fakes::kubelet::Mode::Failing);
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

/// With a pool of two that is ready, and whoever plays its virtual machines.
async fn with_pool(prefix: &str) -> Result<Option<(Site, Operator, TenantCluster, KubeVirt)>> {
    let Some((site, operator, cluster)) = running(prefix).await? else {
        return Ok(None);
    };
    let kubevirt = KubeVirt::start(&site);
    site.create_pool("workers", 2).await?;
    site.wait_pool_ready("workers").await?;
    Ok(Some((site, operator, cluster, kubevirt)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_tenant_api_does_not_hold_up_machines_whose_tenant_cluster_goes() -> Result<()> {
    let Some((site, _operator, cluster, _kubevirt)) = with_pool("pools-down").await? else {
        return Ok(());
    };
    ensure!(
        site.tenants.set(&tenant_namespace(&cluster), Mode::Down),
        "no stand-in"
    );
    let machines = site.machines_of("workers").await?;
    site.delete("demo").await?;
    for machine in machines {
        wait_gone(&site.machines(), &machine.name_any(), PATIENCE).await?;
    }
    nothing_is_left(&site, &cluster).await?;
    // The pool is the user's; it says what it lacks, and goes at once.
    let lacks = |pool: &api::NodePool| {
        let pool = serde_json::to_value(pool).unwrap_or_default();
        said(&pool, "Degraded") == ("True".to_owned(), "ClusterNotFound".to_owned())
    };
    site.wait_pool("workers", lacks).await?;
    site.remove_pool("workers").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_that_waits_for_a_silent_api_goes_with_its_tenant_cluster() -> Result<()> {
    let Some((site, _operator, cluster, _kubevirt)) = with_pool("pool-waits").await? else {
        return Ok(());
    };
    ensure!(
        site.tenants.set(&tenant_namespace(&cluster), Mode::Down),
        "no stand-in"
    );
    site.pools().delete("workers", &Default::default()).await?;
    site.delete("demo").await?;
    wait_gone(&site.pools(), "workers", PATIENCE).await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_the_users_namespace_takes_pools_and_machines_along() -> Result<()> {
    let Some((site, _operator, cluster, _kubevirt)) = with_pool("pools-users").await? else {
        return Ok(());
    };
    remove(&site, kinds::NAMESPACE, "", &site.users).await?;
    nothing_is_left(&site, &cluster).await?;
    wait_gone(&site.objects(kinds::NAMESPACE, ""), &site.users, PATIENCE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_a_lost_tenant_namespace_go_with_the_tenant_cluster() -> Result<()> {
    let Some((site, _operator, cluster, _kubevirt)) = with_pool("pools-lost").await? else {
        return Ok(());
    };
    remove(&site, kinds::NAMESPACE, "", &tenant_namespace(&cluster)).await?;
    site.wait("demo", |cluster| {
        let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
        let mut degraded = conditions.iter().filter(|c| c.type_ == "Degraded");
        degraded.any(|c| c.status == "True" && c.reason == "DataLost")
    })
    .await?;
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn paused_tenant_cluster_can_be_deleted() -> Result<()> {
    let Some((site, _operator, cluster)) = running("paused").await? else {
        return Ok(());
    };
    site.change("demo", &json!({ "spec": { "paused": true } }))
        .await?;
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_that_is_deleted_at_once_leaves_nothing() -> Result<()> {
    let Some(site) = Site::new("at-once").await? else {
        return Ok(());
    };
    let _operator = Operator::start(&site)?;
    let cluster = site.create("demo").await?;
    site.wait("demo", |cluster| !cluster.finalizers().is_empty())
        .await?;
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finalizer_that_somebody_takes_off_comes_back() -> Result<()> {
    let Some((site, _operator, cluster)) = running("finalizer").await? else {
        return Ok(());
    };
    site.change("demo", &json!({ "metadata": { "finalizers": null } }))
        .await?;
    site.wait("demo", |cluster| !cluster.finalizers().is_empty())
        .await?;
    site.delete("demo").await?;
    nothing_is_left(&site, &cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn finalizer_that_is_taken_off_during_a_deletion_leaves_nothing_behind() -> Result<()> {
    let Some((site, _operator, cluster)) = running("forced").await? else {
        return Ok(());
    };
    site.delete("demo").await?;
    // As people do who are in a hurry. (Before the operator has seen the deletion nothing would go:
    // data is deleted on the word of a TenantCluster only.)
    let going = |found: Option<&DynamicObject>| {
        found.is_none_or(|n| n.metadata.deletion_timestamp.is_some())
    };
    let namespaces = site.objects(kinds::NAMESPACE, "");
    wait_for(&namespaces, &tenant_namespace(&cluster), going, PATIENCE).await?;
    site.change("demo", &json!({ "metadata": { "finalizers": null } }))
        .await?;
    nothing_is_left(&site, &cluster).await
}
