//! The stock csi-provisioner beside the driver, with the flags and rights that the operator gives it: what
//! it publishes of capacity. One API plays both clusters.
//!
//! Invariant: it has the rights of the addon and no other.

use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use lab::programs::Program;
use serde_json::json;
use tenant_cp::addons::csi;

use crate::support::{Driver, Environment, Fakes, PATIENCE};

/// One that runs.
struct Provisioner(Child);

impl Drop for Provisioner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until what is published of a class is this.
async fn published(environment: &Environment, class: &str, wanted: &str) -> Result<()> {
    let all: Api<CSIStorageCapacity> = Api::namespaced(environment.admin.clone(), "kube-system");
    let changes = watcher(all, Config::default()).default_backoff();
    let mut changes = changes.applied_objects().boxed();
    let mut last = None;
    let seen = async {
        while let Some(capacity) = changes.next().await {
            let capacity = capacity?;
            if capacity.storage_class_name != class {
                continue;
            }
            let there = capacity.capacity.as_ref();
            if there.is_some_and(|amount| amount.0 == wanted) {
                return Ok(());
            }
            last = Some(capacity);
        }
        anyhow::bail!("the watch ended")
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    seen.with_context(|| format!("{class} has not {wanted}, but {last:?}"))?
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_class_that_waits_for_its_pod_has_capacity_by_the_quota_or_without_limit()
-> Result<()> {
    let program = testkit::programs::reference_or_skip(Program::CSI, "csi-provisioner")?;
    let Some(program) = program else {
        return Ok(());
    };
    let Some(environment) = Environment::new("capacity").await? else {
        return Ok(());
    };
    let _fakes = Fakes::start(&environment);
    let driver = Driver::start(&environment).await?;
    let offer = environment.settings().offer;
    let mut sidecars = csi::sidecars(&offer);
    let sidecar = sidecars.find(|s| s.name == "csi-provisioner");
    let sidecar = sidecar.context("there is one")?;
    for object in csi::tenant_objects(&offer) {
        if object.name == sidecar.role() {
            environment.apply(&object.value).await?;
        }
    }
    let uid = &environment.uid;
    let (node, waits, typo) = (
        format!("node-{uid}"),
        format!("waits-{uid}"),
        format!("typo-{uid}"),
    );
    let class = |name: &str, class: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": name },
            "provisioner": csi::DRIVER, "parameters": { "class": class },
            "volumeBindingMode": "WaitForFirstConsumer",
        })
    };
    for object in [
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node } }),
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": node },
            "spec": { "drivers": [{ "name": csi::DRIVER, "nodeID": node }] },
        }),
        class(&waits, "fast"),
        class(&typo, "of-nobody"),
    ] {
        environment.apply(&object).await?;
    }
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let yaml = environment.management.kubeconfig_as(&sidecar.user(), &[])?;
    std::fs::write(&kubeconfig, yaml)?;
    let log = std::fs::File::create(folder.path().join("log"))?;
    let child = Command::new(program)
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--csi-address={}", driver.socket().display()))
        .args(sidecar.args)
        // Nobody waits a minute here.
        .args(["--capacity-poll-interval=1s", "--kube-api-capacity-qps=50"])
        .env("NAMESPACE", "kube-system")
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()?;
    let _provisioner = Provisioner(child);
    let works = async {
        // Nobody says how much there is.
        let everything = i64::MAX.to_string();
        published(&environment, &waits, &everything).await?;
        published(&environment, &typo, &everything).await?;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": { "name": "storage", "namespace": environment.ns },
            "spec": { "hard": { "requests.storage": "5Gi" } },
        });
        environment.apply(&quota).await?;
        published(&environment, &waits, "5Gi").await?;
        published(&environment, &typo, &everything).await
    };
    let done: Result<()> = works.await;
    let said = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
    done.with_context(|| format!("csi-provisioner says: {}", said()))
}
