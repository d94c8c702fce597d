//! Needs: operator
//!
//! A tenant cluster goes completely, whatever is deleted first and whatever is down meanwhile.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolume, Pod, ResourceQuota, Secret};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::json;
use suites::{
    cluster::{
        Tenant,
        parts::selector,
        wait::{wait_for, wait_gone, wait_list},
    },
    scenario::{self, PATIENCE, Scenario},
};

/// The quota of [`down`]; with it gone the part comes back.
pub(crate) const NO_PODS: &str = "no-pods";

#[tokio::test]
async fn the_tenant_cluster_goes_first() {
    scenario::run("del-cluster", async |s| {
        let tenant = running(s).await?;
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

#[tokio::test]
async fn the_users_namespace_goes_first() {
    scenario::run("del-user-ns", async |s| {
        let tenant = running(s).await?;
        let namespaces: Api<Namespace> = Api::all(s.client().clone());
        namespaces
            .delete(&s.namespace, &DeleteParams::default())
            .await?;
        nothing_is_left(s, &tenant).await?;
        wait_gone(&namespaces, &s.namespace, None, PATIENCE).await
    })
    .await;
}

/// The tenant cluster stays wanted, so a new and empty one is made, and says so; then it is deleted.
#[tokio::test]
async fn the_tenant_namespace_goes_first() {
    scenario::run("del-tenant-ns", async |s| {
        let tenant = running(s).await?;
        let namespaces: Api<Namespace> = Api::all(s.client().clone());
        let name = tenant.tenant_namespace();
        let uid = namespaces.get(&name).await?.metadata.uid;
        namespaces.delete(&name, &DeleteParams::default()).await?;
        wait_for(
            &tenant.api(),
            &tenant.name,
            "says that it was lost",
            PATIENCE,
            |cluster| {
                let conditions = &cluster.status.as_ref()?.conditions;
                conditions
                    .iter()
                    .find(|c| c.reason == "NamespaceDeleted")
                    .map(drop)
            },
        )
        .await?;
        wait_gone(&namespaces, &name, uid.as_deref(), PATIENCE).await?;
        // At once, and not once the new one runs: deletion meets whatever stage it is in.
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

#[tokio::test]
async fn it_goes_while_etcd_is_down() {
    scenario::run("del-etcd-down", async |s| {
        let tenant = running(s).await?;
        down(&tenant, "etcd").await?;
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

#[tokio::test]
async fn it_goes_while_the_control_plane_is_down() {
    scenario::run("del-api-down", async |s| {
        let tenant = running(s).await?;
        down(&tenant, "control-plane").await?;
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

#[tokio::test]
async fn its_kubeconfig_and_authority_go_first() {
    scenario::run("del-secrets", async |s| {
        let tenant = running(s).await?;
        let users: Api<Secret> = Api::namespaced(s.client().clone(), &s.namespace);
        let kubeconfig = api::names::kubeconfig_secret(&tenant.name);
        users.delete(&kubeconfig, &DeleteParams::default()).await?;
        let own: Api<Secret> = tenant.parts();
        for name in ["ca", "etcd-ca", "front-proxy-ca"] {
            own.delete(name, &DeleteParams::default()).await?;
        }
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

/// It goes also when it never came to anything: before its first pod starts.
#[tokio::test]
async fn it_goes_at_any_moment_of_its_creation() {
    scenario::run("del-early", async |s| {
        for number in 0..4_u32 {
            let tenant = s.tenant(&format!("demo-{number}"), |_| {}).await?;
            if number > 0 {
                // As soon as it has so many Secrets: 0, 4, 8, 12 of them.
                let namespaces: Api<Namespace> = Api::all(s.client().clone());
                let name = tenant.tenant_namespace();
                wait_for(&namespaces, &name, "is made", PATIENCE, |_| Some(())).await?;
                let secrets: Api<Secret> = tenant.parts();
                wait_list(
                    &secrets,
                    Config::default(),
                    "some Secrets",
                    PATIENCE,
                    |all| (all.len() >= (number as usize - 1) * 5).then_some(()),
                )
                .await?;
            }
            tenant.delete().await?;
            nothing_is_left(s, &tenant).await?;
        }
        Ok(())
    })
    .await;
}

async fn running(s: &Scenario) -> Result<Tenant> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    Ok(tenant)
}

/// No pod of the part runs, and none can be made.
pub(crate) async fn down(tenant: &Tenant, part: &str) -> Result<()> {
    let quota = json!({ "metadata": { "name": NO_PODS }, "spec": { "hard": { "pods": "0" } } });
    let quotas: Api<ResourceQuota> = tenant.parts();
    let quota = serde_json::from_value(quota)?;
    match quotas.create(&PostParams::default(), &quota).await {
        // Another part is down already.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created?),
    }
    let selector = selector(part);
    let pods: Api<Pod> = tenant.parts();
    let those = ListParams::default().labels(&selector);
    ensure!(
        !pods.list(&those).await?.items.is_empty(),
        "no pod is {part}"
    );
    pods.delete_collection(&DeleteParams::default().grace_period(0), &those)
        .await?;
    let config = Config::default().labels(&selector);
    wait_list(&pods, config, &format!("{part} is down"), PATIENCE, |all| {
        all.is_empty().then_some(())
    })
    .await
}

pub(crate) async fn nothing_is_left(s: &Scenario, tenant: &Tenant) -> Result<()> {
    tenant.gone(PATIENCE).await?;
    let secrets: Api<Secret> = Api::namespaced(s.client().clone(), &s.namespace);
    let kubeconfig = api::names::kubeconfig_secret(&tenant.name);
    wait_gone(&secrets, &kubeconfig, None, PATIENCE).await?;
    let namespace = tenant.tenant_namespace();
    let volumes: Api<PersistentVolume> = Api::all(s.client().clone());
    wait_list(
        &volumes,
        Config::default(),
        "volumes are gone",
        PATIENCE,
        |all| {
            let ours = |volume: &PersistentVolume| {
                let claim = volume
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.claim_ref.as_ref());
                claim.and_then(|claim| claim.namespace.as_deref()) == Some(namespace.as_str())
            };
            (!all.values().any(ours)).then_some(())
        },
    )
    .await
}
