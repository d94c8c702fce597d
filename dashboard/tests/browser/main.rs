//! The pages in a real browser: looked at in both schemes and two widths, judged by axe, and played through with keys
//! and without JavaScript. `play.mjs` is what happens there; this file has what it plays with.
//!
//! Invariant: where chromium or what npm installs is missing it says `SKIPPED`, and with `COVEY_TEST_BROWSER=1` it fails.
//! Pictures stand in `dashboard/tests/browser/pictures/`, which nobody commits.

#![allow(clippy::panic, clippy::unwrap_used)] // clippy does not see that helpers are tests too

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::{Host, Machine, Restore, Snapshot, TenantCluster};
use dashboard::router::router;
use dashboard::sessions::Sessions;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Event;
use kit::shutdown::Shutdown;
use kit::tls_reload::{Certificate, Settings, serve};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{Config, Event as Watched, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use tokio::process::Command;

#[path = "../support/mod.rs"]
mod support;

use support::{EDIT, VIEW, person, say, seeded};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser")
}

/// The browser, or why there is none.
fn browser() -> Result<PathBuf, String> {
    let browser = Path::new("/usr/bin/chromium");
    if !browser.exists() {
        return Err("there is no /usr/bin/chromium: apt-get install chromium".to_owned());
    }
    let modules = folder().join("node_modules/playwright-core");
    if !modules.exists() {
        return Err("npm ci in dashboard/tests/browser was not run".to_owned());
    }
    Ok(browser.to_owned())
}

/// Objects of every kind that has a page.
async fn all_kinds(client: &Client, namespace: &str) -> Result<()> {
    let create = PostParams::default();
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), namespace);
    let uid = clusters.get("demo").await?.uid().unwrap();
    let machines: Api<Machine> = Api::namespaced(client.clone(), namespace);
    for (name, phase, reason) in [
        ("demo-workers-aaaaa", "Running", "NodeReady"),
        ("demo-workers-bbbbb", "Booting", "Booting"),
    ] {
        let machine = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name, "labels": {api::names::LABEL_NODE_POOL: "demo-workers"}},
            "spec": {"clusterName": "demo", "clusterUID": uid, "poolName": "demo-workers", "version": "1.35.4", "provider": {"kubevirt": {}}}});
        machines
            .create(&create, &serde_json::from_value(machine)?)
            .await?;
        let status = if phase == "Running" { "True" } else { "False" };
        let status = json!({"phase": phase, "conditions": [condition("Ready", status, reason, "the virtual machine runs, no node yet")]});
        set(&machines, name, status).await?;
    }
    let hosts: Api<Host> = Api::namespaced(client.clone(), namespace);
    let host = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Host", "metadata": {"name": "edge-1"},
        "spec": {"address": "192.0.2.10", "user": "root", "sshKeySecretName": "edge", "hostKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"]}});
    hosts
        .create(&create, &serde_json::from_value(host)?)
        .await?;
    let status = json!({"phase": "Quarantined", "conditions": [condition("Clean", "False", "Quarantined", "it did not answer when it was to be cleaned")]});
    set(&hosts, "edge-1", status).await?;
    let snapshots: Api<Snapshot> = Api::namespaced(client.clone(), namespace);
    let snapshot = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot", "metadata": {"name": "demo-1"}, "spec": {"clusterName": "demo"}});
    snapshots
        .create(&create, &serde_json::from_value(snapshot)?)
        .await?;
    let status = json!({"bytes": 8_478_720, "taken": "2026-11-27T00:00:00Z", "conditions": [condition("Ready", "True", "SnapshotTaken", "")]});
    set(&snapshots, "demo-1", status).await?;
    let restores: Api<Restore> = Api::namespaced(client.clone(), namespace);
    let restore = json!({"apiVersion": "covey.dev/v1alpha1", "kind": "Restore", "metadata": {"name": "demo-back"}, "spec": {"clusterName": "demo", "dryRun": true}});
    restores
        .create(&create, &serde_json::from_value(restore)?)
        .await?;
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let event = json!({"metadata": {"name": "demo.1", "namespace": namespace}, "type": "Warning", "reason": "AddonsNotReady", "message": "coreDNS: 0 of 2 pods are ready",
        "involvedObject": {"apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": "demo", "namespace": namespace},
        "lastTimestamp": "2026-11-27T11:55:00Z", "reportingComponent": "", "reportingInstance": ""});
    events
        .create(&create, &serde_json::from_value(event)?)
        .await?;
    Ok(())
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-11-27T11:00:00Z", "observedGeneration": 1})
}

async fn set<K>(api: &Api<K>, name: &str, status: Value) -> Result<()>
where
    K: serde::de::DeserializeOwned + Clone + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// In the place of an operator: a TenantCluster that says nothing of itself becomes ready.
async fn operate(client: Client, namespace: String) -> Result<()> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let mut events = watcher(clusters, Config::default()).boxed();
    while let Some(event) = events.next().await {
        let (Watched::Apply(cluster) | Watched::InitApply(cluster)) = event? else {
            continue;
        };
        if cluster
            .status
            .is_none_or(|status| status.conditions.is_empty())
        {
            let name = cluster.metadata.name.unwrap_or_default();
            say(&client, &namespace, &name, true).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn pages_are_fit_to_be_seen_heard_and_used() -> Result<()> {
    let browser = match browser() {
        Ok(browser) => browser,
        Err(why) => {
            let is_required = std::env::var_os("COVEY_TEST_BROWSER").is_some_and(|v| v == "1");
            ensure!(!is_required, "{why}");
            // What is printed would be captured: nobody would see it.
            let _ = writeln!(std::io::stderr(), "SKIPPED pages in a browser: {why}");
            return Ok(());
        }
    };
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let (namespace, client) = (api.namespace("team").await?, api.admin()?);
    seeded(&client, &namespace, "demo", false).await?;
    seeded(&client, &namespace, "web", true).await?;
    all_kinds(&client, &namespace).await?;
    let (jane, joe) = (
        person(api, &namespace, "jane", EDIT).await?,
        person(api, &namespace, "joe", VIEW).await?,
    );

    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let certificate = Certificate::from_pem(
        key.cert.pem().as_bytes(),
        key.signing_key.serialize_pem().as_bytes(),
    )?;
    let upstream = dashboard::upstream::Api::new(&api.url(), api.ca().as_bytes())?;
    let service = router(&Sessions::new(100), Arc::new(upstream), false);
    let (shutdown, config) = (Shutdown::new(), certificate.server_config()?);
    let address = "127.0.0.1:0".parse()?;
    let server = serve(address, config, service, Settings::default(), &shutdown).await?;
    let operates = tokio::spawn(operate(client, namespace.clone()));

    let mut play = Command::new("node")
        .arg(folder().join("play.mjs"))
        .current_dir(folder())
        .env(
            "ADDRESS",
            format!("https://localhost:{}", server.address.port()),
        )
        .env("BROWSER", browser)
        .env("NAMESPACE", namespace)
        .env("JANE", jane)
        .env("JOE", joe)
        .env("PICTURES", folder().join("pictures"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("node cannot be run")?;
    let ended = play.wait().await?;
    operates.abort();
    shutdown.trigger();
    ensure!(ended.success(), "what was played went wrong: {ended}");
    Ok(())
}
