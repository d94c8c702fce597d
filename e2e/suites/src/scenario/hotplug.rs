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
    let back = switch(management, Hotplug::default()).await;
    let done = result.unwrap_or_else(|panic| resume_unwind(panic))?;
    back.map(|()| done)
}

async fn switch(management: &Management, way: Hotplug) -> Result<()> {
    let gate = match way {
        Hotplug::Subresources => "HotplugVolumes",
        // KubeVirt 1.6 looks at virtual machines' templates only while the other one is off.
        Hotplug::Declarative => "DeclarativeHotplugVolumes",
    };
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", "KubeVirt"));
    let kubevirt: Api<DynamicObject> =
        Api::namespaced_with(management.client.clone(), "kubevirt", &kind);
    let gates = json!({ "spec": { "configuration": { "developerConfiguration": {
        "featureGates": ["ExpandDisks", gate],
    } } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(gates));
    let patched = kubevirt.patch("kubevirt", &params, &patch).await;
    patched.context("KubeVirt's feature gates cannot be set")?;

    let layout = &management.layout;
    let value = format!(
        "config.storage.hotplug={}",
        json!(way).as_str().unwrap_or_default()
    );
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
