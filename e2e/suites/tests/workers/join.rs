//! Needs: operator, node
//!
//! Workers of every supported version join, also one minor behind their control plane, and their
//! pods answer.

use anyhow::{Result, ensure};
use suites::scenario::{
    self, Scenario,
    versions::lab_has,
    workers::{NODES, PODS},
    workload::Workload,
};

#[tokio::test]
async fn a_worker_of_1_34_joins_its_control_plane() {
    scenario::run("join-134", async |s| joins(s, "1.34.4", None).await).await;
}

#[tokio::test]
async fn a_worker_of_1_35_joins_its_control_plane() {
    scenario::run("join-135", async |s| joins(s, "1.35.4", None).await).await;
}

#[tokio::test]
async fn a_worker_may_be_a_minor_behind_its_control_plane() {
    scenario::run("join-skew", async |s| {
        joins(s, "1.35.4", Some("1.34.4")).await
    })
    .await;
}

#[tokio::test]
async fn a_worker_of_1_36_joins_its_control_plane() {
    scenario::run("join-136", async |s| joins(s, "1.36.3", None).await).await;
}

async fn joins(s: &Scenario, version: &str, worker: Option<&str>) -> Result<()> {
    let versions = [version, worker.unwrap_or(version)];
    if !lab_has(&s.management.layout, "a worker that joins", &versions)? {
        return Ok(());
    }
    let workers = s
        .workers(|cluster, nodes| {
            cluster.version = version.to_owned();
            nodes.version = worker.map(str::to_owned);
        })
        .await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let expected = worker.unwrap_or(version);
    ensure!(
        machines.values().all(|m| m.spec.version == expected),
        "{machines:?}"
    );
    let kubectl = &workers.kubectl;
    let path = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
    let kubelets = kubectl.run(&["get", "nodes", "-o", path]).await?;
    ensure!(kubelets == format!("v{expected}"), "kubelets: {kubelets}");

    let web = Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    };
    let pods = web.deploy(kubectl, PODS).await?;
    let pod = &pods[0];
    kubectl.dns_is_there(PODS).await?;
    let exec = ["exec", pod, "--", "wget", "-q", "-O", "-", "http://web/"];
    let said = kubectl.run(&exec).await?;
    ensure!(said.trim() == format!("hello from {pod}"), "{said}");
    let log = kubectl.run(&["logs", pod]).await?;
    ensure!(log.contains("GET /"), "{log}");
    workers.tenant.settled(PODS).await.map(drop)
}
