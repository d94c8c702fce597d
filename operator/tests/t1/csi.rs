//! The addon `csi`: it is laid and kept; switched off, it goes and volumes stay.
//!
//! Invariant: no CSI driver runs here.

use anyhow::Result;
use kit_objects::kinds;
use serde_json::{Value, json};
use tenant_cp::addons::addon::Addon as _;
use tenant_cp::addons::csi;
use testkit::fixtures::wait_gone;

use crate::support::parts::{come_back, kind_of};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Operator, PATIENCE, Site};

const DRIVER: &str = "/apis/storage.k8s.io/v1/csidrivers/csi.covey.dev";

fn switch(on: bool) -> Value {
    json!({ "spec": { "addons": { "csi": { "enabled": on } } } })
}

async fn wait_driver(site: &Site, ns: &str, there: bool) -> Result<()> {
    let wanted = |found: Option<&Value>| found.is_some() == there;
    site.tenants.wait(ns, DRIVER, wanted, PATIENCE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_is_laid_and_comes_back_and_goes_without_the_volumes() -> Result<()> {
    let Some(site) = Site::new("csi").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    let ns = tenant_namespace(&site.wait_ready("demo").await?);
    operator.settle(&site, "demo").await?;
    let keys = async || anyhow::Ok(site.state("demo").await?.into_keys().collect::<Vec<_>>());
    let (before, inside) = (keys().await?, site.tenants.paths(&ns));
    site.change("demo", &switch(true)).await?;
    wait_driver(&site, &ns, true).await?;
    site.wait_ready("demo").await?;
    come_back(&site, &operator, &csi::Csi.parts(&ns, "", "")).await?;

    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": "vol-1", "namespace": ns },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    });
    apply(&site.admin, &volume).await?;
    site.change("demo", &switch(false)).await?;
    wait_driver(&site, &ns, false).await?;
    for key in csi::Csi.parts(&ns, "", "") {
        wait_gone(&site.objects(kind_of(&key.kind)?, &ns), &key.name, PATIENCE).await?;
    }
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let volumes = site.objects(kinds::PERSISTENT_VOLUME_CLAIM, &ns);
    let kept = volumes.get("vol-1").await?;
    assert!(kept.metadata.deletion_timestamp.is_none());
    volumes.delete("vol-1", &Default::default()).await?;
    wait_gone(&volumes, "vol-1", PATIENCE).await?;
    assert_eq!(keys().await?, before);
    assert_eq!(site.tenants.paths(&ns), inside);
    Ok(())
}
