//! By which of KubeVirt's ways disks are hot-plugged: the operator is told, and KubeVirt allows it.
//!
//! Invariant: it is the lab's own way again after a test, whether it passed or not.

use std::panic::{AssertUnwindSafe, resume_unwind};

use anyhow::{Context as _, Result, ensure};
use api::storage::Hotplug;
use futures::FutureExt as _;
use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use lab::{programs::kubevirt::Release, state::State};
use serde_json::json;
use tokio::process::Command;

use crate::cluster::{Management, OPERATOR_NAMESPACE};

/// Does something while disks are hot-plugged in this way. Nothing else may use the lab meanwhile.
///
/// # Errors
/// When the switch fails, or what is done.
pub async fn with<T>(
    management: &Management,
    way: Hotplug,
    work: impl AsyncFnOnce() -> Result<T>,
) -> Result<T> {
    let switched = async {
        switch(management, way).await?;
        work().await
    };
    let result = AssertUnwindSafe(switched).catch_unwind().await;
    let back = switch(management, own(management)?).await;
    let done = result.unwrap_or_else(|panic| resume_unwind(panic))?;
    back.map(|()| done)
}

/// The other way than the lab's own.
///
/// # Errors
/// When the lab has no KubeVirt.
pub fn other(management: &Management) -> Result<Hotplug> {
    Ok(match own(management)? {
        Hotplug::Subresources => Hotplug::Declarative,
        Hotplug::Declarative => Hotplug::Subresources,
    })
}

fn own(management: &Management) -> Result<Hotplug> {
    let way = json!(release(management)?.hotplug());
    serde_json::from_value(way).context("the lab hot-plugs in a way that nobody knows")
}

fn release(management: &Management) -> Result<Release> {
    let state = State::read(&management.layout);
    let release = state.and_then(|state| state.kubevirt);
    release.context("the lab has no KubeVirt")
}

async fn switch(management: &Management, way: Hotplug) -> Result<()> {
    let way = json!(way);
    let way = way.as_str().unwrap_or_default();
    let gates = release(management)?.feature_gates(way);
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", "KubeVirt"));
    let kubevirt: Api<DynamicObject> =
        Api::namespaced_with(management.client.clone(), "kubevirt", &kind);
    let gates = json!({ "spec": { "configuration": { "developerConfiguration": {
        "featureGates": gates,
    } } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(gates));
    let patched = kubevirt.patch("kubevirt", &params, &patch).await;
    patched.context("KubeVirt's feature gates cannot be set")?;

    let layout = &management.layout;
    let value = format!("config.storage.hotplug={way}");
    let mut helm = Command::new(layout.tool("helm"));
    helm.arg("--kubeconfig").arg(layout.kubeconfig());
    helm.args(["upgrade", "covey", "deploy/charts/covey", "--reuse-values"]);
    helm.args(["--namespace", OPERATOR_NAMESPACE, "--set", &value]);
    helm.args(["--wait", "--timeout", "3m"]);
    helm.current_dir(layout.checkout()).kill_on_drop(true);
    let output = helm.output().await.context("helm cannot be run")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "helm: {}", said.trim());
    Ok(())
}
