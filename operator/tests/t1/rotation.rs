//! An authority is turned: by the operator on a real management API, and what each phase is for clients of a real
//! kube-apiserver and kube-controller-manager of a tenant.
//!
//! Invariant: kube-apiservers of two phases that follow each other run side by side, and both let in whoever the later
//! one lets in, but for who was dropped.

use anyhow::{Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::{RotationPhase, RotationStatus};
use kit_objects::kinds;
use serde_json::json;
use tenant_cp::names::{DROPPED, USERS_CA};

use crate::keys::ControlPlane;
use crate::support::site::tenant_namespace;
use crate::support::{Operator, Site};

const ADMIN: &str = "kubernetes-admin";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_let_in_all_the_time_and_who_has_the_old_kubeconfig_no_more_at_the_end()
-> Result<()> {
    let Some(mut plane) = ControlPlane::start().await? else {
        return Ok(());
    };
    let first = plane.material.clone();
    let prepared = plane.prepared(USERS_CA)?;
    let switched = plane.switched(&prepared, (USERS_CA, &["admin"]))?;
    let mut dropped = switched.clone();
    dropped.store.remove(USERS_CA);
    let (old, new) = (&first.store["admin"], &switched.store["admin"]);
    let machinery = &first.store["scheduler"];
    let before = plane.address();

    // Preparing: servers of before and after run side by side. That is why nothing signs anew yet.
    let middle = plane.server_of(&prepared).await?;
    for server in [before, middle.address] {
        let user = plane.user_at(server, old).await?;
        ensure!(user.as_deref() == Some(ADMIN), "{server}: {user:?}");
    }
    ensure!(plane.user_at(before, new).await?.is_none());
    // Switching: both kubeconfigs.
    let user = plane.user_at(middle.address, new).await?;
    ensure!(user.as_deref() == Some(ADMIN), "{user:?}");
    plane.manage_with(&switched)?;
    let request = (
        "second",
        "kubernetes.io/kube-apiserver-client",
        "client auth",
    );
    let by = plane
        .sign_as(request, ("jane", "developers"), &switched)
        .await?;
    ensure!(by == "users-ca-g2", "{by}");
    // Dropping: servers of both, and the old kubeconfig is let in by those that have not ended.
    let after = plane.server_of(&dropped).await?;
    for server in [middle.address, after.address] {
        let user = plane.user_at(server, new).await?;
        ensure!(user.as_deref() == Some(ADMIN), "{server}: {user:?}");
        let user = plane.user_at(server, machinery).await?;
        let wanted = Some("system:kube-scheduler");
        ensure!(user.as_deref() == wanted, "{server}: {user:?}");
    }
    let user = plane.user_at(middle.address, old).await?;
    ensure!(user.as_deref() == Some(ADMIN), "{user:?}");
    let user = plane.user_at(after.address, old).await?;
    ensure!(user.is_none(), "{user:?} is let in with what was dropped");
    Ok(())
}

fn told(cluster: &TenantCluster) -> Option<&RotationStatus> {
    cluster.status.as_ref()?.rotation.first()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_turns_the_authority_of_people_and_is_at_rest_afterwards() -> Result<()> {
    let Some(site) = Site::new("rotation").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let cluster = site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let (namespace, users) = (tenant_namespace(&cluster), site.users.clone());
    let secret = async |namespace: &str, name: &str| {
        let secrets = site.objects(kinds::SECRET, namespace);
        anyhow::Ok(secrets.get(name).await?)
    };
    let before = secret(&users, "demo-kubeconfig").await?.data;

    site.change(
        "demo",
        &json!({ "spec": { "rotation": { "usersCA": { "generation": 2 } } } }),
    )
    .await?;
    let is_over = |cluster: &TenantCluster| {
        told(cluster).is_some_and(|told| told.signs == 2 && told.phase == RotationPhase::Idle)
    };
    site.wait("demo", is_over).await?;
    operator.stop_and_settle(&site, "demo").await?;
    let dropped = secret(&namespace, "users-ca").await?;
    let annotations = dropped.metadata.annotations.unwrap_or_default();
    ensure!(annotations.contains_key(DROPPED), "{annotations:?}");
    secret(&namespace, "users-ca-g2").await?;
    let servers = secret(&namespace, "controller-manager").await?.data;
    ensure!(servers["data"].get("users-ca.key").is_none());
    ensure!(servers["data"].get("users-ca-g2.key").is_some());
    let after = secret(&users, "demo-kubeconfig").await?.data;
    ensure!(before["data"]["value"] != after["data"]["value"]);
    Ok(())
}
