//! Whether the operator looks inside a tenant cluster: something of ours is spoilt there, and is put right.

use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use super::wait::wait_for;

/// Spoils CoreDNS's configuration and waits until the operator has written it anew.
///
/// # Errors
/// When it takes longer.
pub async fn spoil_and_wait(admin: &Client, timeout: Duration) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "kube-system");
    let spoil = Patch::Merge(json!({ "data": { "Corefile": "spoilt" } }));
    maps.patch("coredns", &PatchParams::default(), &spoil)
        .await?;
    wait_for(&maps, "coredns", "is put right", timeout, |map| {
        let corefile = map.data.as_ref()?.get("Corefile")?;
        (corefile != "spoilt").then_some(())
    })
    .await
}
