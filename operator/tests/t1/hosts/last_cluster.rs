//! The last TenantCluster of a namespace goes while a Machine has a Host.
//!
//! Invariant: nobody but the garbage collector and the operator takes the operator's binding away, and what is waited
//! for comes whoever of API server, garbage collector and operator is slow.

use anyhow::{Result, ensure};
use api::host::HostPhase;
use api::names::{self, OPERATOR_BINDING};
use api::{ConditionType, Host, TenantCluster};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use testkit::fixtures::{wait_for, wait_gone};

use super::joining::joins;
use super::{World, condition, phase};
use crate::support::PATIENCE;
use crate::support::site::apply;

fn is_given_back(host: &Host) -> bool {
    let claim = host.status.as_ref().and_then(|s| s.claim.as_ref());
    claim.is_none() && phase(host).is_some()
}

/// A reset ends once the file is gone. Gives the API of bindings in the user's namespace.
async fn hold(world: &World) -> Result<Api<RoleBinding>> {
    world.real.shell("touch /run/hold").await?;
    let waits = "while [ -e /run/hold ]; do sleep 0.2; done";
    world.real.program("kubeadm", waits).await?;
    let site = &world.site;
    Ok(Api::namespaced(site.admin.clone(), &site.users))
}

fn is_owned_by(binding: Option<&RoleBinding>, kind: &str) -> bool {
    let owners = binding.and_then(|binding| binding.metadata.owner_references.as_ref());
    owners.is_some_and(|owners| owners.iter().all(|owner| owner.kind == kind))
}

/// A joined Host, the last TenantCluster goes as it is deleted so, and the machine is clean at the end.
async fn goes(prefix: &str, deletion: &DeleteParams) -> Result<()> {
    let Some(world) = World::new(prefix).await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    joins(&world).await?;
    ends(&world, deletion).await?;
    operator.stop().await
}

async fn ends(world: &World, deletion: &DeleteParams) -> Result<()> {
    let site = &world.site;
    let bindings = hold(world).await?;
    site.clusters().delete("demo", deletion).await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    // Its Machine may go later than the TenantCluster does.
    let is_reset = |host: &Host| phase(host) == Some(HostPhase::Resetting);
    world.wait("a", is_reset).await?;
    let held = bindings.get(OPERATOR_BINDING).await?;
    let owners = held.metadata.owner_references.unwrap_or_default();
    ensure!(
        owners.iter().all(|owner| owner.kind == "Host"),
        "{owners:?}"
    );
    world.real.shell("rm /run/hold").await?;
    world.wait("a", is_given_back).await?;
    let left = world
        .real
        .shell("ls /etc/kubernetes /var/log/pods /var/lib/covey/owner.json 2> /dev/null || true")
        .await?;
    ensure!(left.is_empty(), "{left}");
    // Nobody's: the operator does not keep the right to read Secrets here.
    wait_gone(&bindings, OPERATOR_BINDING, PATIENCE).await?;
    let alone = |host: &Host| condition(host, ConditionType::Reachable).0 == "LoginFailed";
    world.wait("a", alone).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_is_given_back_clean_although_the_last_tenant_cluster_is_gone_before_its_reset_ends()
-> Result<()> {
    goes("host-last", &DeleteParams::background()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn host_is_given_back_clean_where_the_garbage_collector_takes_the_binding_first() -> Result<()>
{
    goes("host-fore", &DeleteParams::foreground()).await
}

/// An API server hears of the deletion of a binding a moment later than whoever deleted it; here it never does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_to_read_keys_that_was_given_up_is_not_used_although_it_is_granted_still()
-> Result<()> {
    let Some(world) = World::new("host-late").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    joins(&world).await?;
    let site = &world.site;
    let granted = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "granted-still", "namespace": site.users },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": operator::rbac::USER_NAMESPACE_ROLE },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": site.user() }],
    });
    apply(&site.admin, &granted).await?;
    ends(&world, &DeleteParams::background()).await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binding_goes_with_the_last_tenant_cluster_that_outlives_the_reset_of_its_hosts()
-> Result<()> {
    let Some(world) = World::new("host-first").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    let site = &world.site;
    joins(&world).await?;
    let bindings = Api::<RoleBinding>::namespaced(site.admin.clone(), &site.users);
    let finalizers = |all: &[&str]| json!({ "metadata": { "finalizers": all } });
    let held = finalizers(&[names::FINALIZER, "example.com/hold"]);
    site.change("demo", &held).await?;
    site.delete("demo").await?;
    world.wait("a", is_given_back).await?;
    world.available("a").await?;
    let is_let_go = |cluster: &TenantCluster| cluster.finalizers() == ["example.com/hold"];
    site.wait("demo", is_let_go).await?;
    let kept = bindings.get(OPERATOR_BINDING).await?;
    ensure!(is_owned_by(Some(&kept), "Host"), "{kept:?}");
    site.change("demo", &finalizers(&[])).await?;
    wait_gone(&bindings, OPERATOR_BINDING, PATIENCE).await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_that_comes_while_a_host_is_reset_takes_the_binding_over() -> Result<()> {
    let Some(world) = World::new("host-next").await? else {
        return Ok(());
    };
    let operator = world.operator()?;
    let site = &world.site;
    joins(&world).await?;
    let bindings = hold(&world).await?;
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    wait_for(
        &bindings,
        OPERATOR_BINDING,
        |b| is_owned_by(b, "Host"),
        PATIENCE,
    )
    .await?;
    site.create("next").await?;
    let is_taken_over = |binding: Option<&RoleBinding>| is_owned_by(binding, "TenantCluster");
    wait_for(&bindings, OPERATOR_BINDING, is_taken_over, PATIENCE).await?;
    world.real.shell("rm /run/hold").await?;
    world.available("a").await?;
    let kept = bindings.get(OPERATOR_BINDING).await?;
    ensure!(is_owned_by(Some(&kept), "TenantCluster"), "{kept:?}");
    operator.stop().await
}
