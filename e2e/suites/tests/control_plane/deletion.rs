//! Needs: operator
//!
//! Deleting a TenantCluster removes everything that was made for it.

use anyhow::{Result, ensure};
use k8s_openapi::api::{
    core::v1::{PersistentVolume, Secret},
    rbac::v1::RoleBinding,
};
use kube::{Api, api::ListParams, runtime::watcher::Config};
use suites::{
    cluster::wait::{wait_gone, wait_list},
    scenario::{self, PATIENCE},
};

#[tokio::test]
async fn deletion_leaves_nothing_behind() {
    scenario::run("deletion", deletion).await;
}

async fn deletion(s: &scenario::Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    let namespace = tenant.tenant_namespace();
    let volumes: Api<PersistentVolume> = Api::all(s.client().clone());
    let ours = |volume: &PersistentVolume| {
        let claim = volume
            .spec
            .as_ref()
            .and_then(|spec| spec.claim_ref.as_ref());
        claim.and_then(|claim| claim.namespace.as_deref()) == Some(namespace.as_str())
    };
    let before = volumes.list(&ListParams::default()).await?;
    ensure!(
        before.iter().any(ours),
        "etcd has no volume, so the test proves nothing"
    );

    tenant.delete().await?;
    tenant.gone(PATIENCE).await?;
    let secrets: Api<Secret> = Api::namespaced(s.client().clone(), &s.namespace);
    let kubeconfig = api::names::kubeconfig_secret("demo");
    wait_gone(&secrets, &kubeconfig, None, PATIENCE).await?;
    let bindings: Api<RoleBinding> = Api::namespaced(s.client().clone(), &s.namespace);
    wait_gone(&bindings, api::names::OPERATOR_BINDING, None, PATIENCE).await?;
    wait_list(
        &volumes,
        Config::default(),
        "volumes are gone",
        PATIENCE,
        |all| (!all.values().any(ours)).then_some(()),
    )
    .await
}
