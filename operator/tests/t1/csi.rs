//! The addon `csi`: it is laid and kept; switched off, it goes and volumes stay.
//!
//! Invariant: no CSI driver runs here.

use anyhow::{Context as _, Result};
use kit::apply::kinds;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use tenant_cp::desired::csi;
use testkit::fixtures::{wait_for, wait_gone};

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
    let kind_of = |name: &str| {
        let found = kinds::ALL.iter().find(|kind| kind.kind == name);
        found.copied().with_context(|| name.to_owned())
    };
    for key in csi::parts(&ns) {
        let objects = site.objects(kind_of(&key.kind)?, &ns);
        let uid = objects.get(&key.name).await?.metadata.uid;
        objects.delete(&key.name, &Default::default()).await?;
        let back =
            |found: Option<&DynamicObject>| found.is_some_and(|found| found.metadata.uid != uid);
        wait_for(&objects, &key.name, back, PATIENCE)
            .await
            .with_context(|| format!("{key} does not come back"))?;
    }
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let window = site.api.audit().window()?;
    for _ in 0..3 {
        operator.reconcile(&site, "demo").await?;
    }
    let writes = window.writes_of(&site.user())?;
    assert!(writes.is_empty(), "{writes:?}");

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
    for key in csi::parts(&ns) {
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
