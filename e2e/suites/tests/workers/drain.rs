//! Needs: operator, node
//!
//! A node that goes is cordoned and drained first: a disruption budget is honoured, and holds the
//! node up no longer than the pool's drain timeout says.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::{ConditionType, machine::MachinePhase};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, api::ListParams, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::{pool::remains, wait::wait_list},
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS, Workers},
        workload::Workload,
    },
};

const WEB: Workload<'_> = Workload {
    name: "web",
    replicas: 1,
    config_map: None,
    stays: 0,
};

#[tokio::test]
async fn a_disruption_budget_holds_a_drain_until_it_allows_it_or_time_is_up() {
    scenario::run("drain", drain).await;
}

async fn drain(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|_, nodes| nodes.drain_timeout = "30m".into())
        .await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let machine = machines.keys().next().context("no Machine")?;
    guarded(&workers).await?;
    let pod = WEB.pods(&workers.kubectl).await?.remove(0);

    workers.pool.patch(json!({ "replicas": 0 })).await?;
    held(&workers, &pod).await?;
    let inside = workers.tenant.admin(PATIENCE).await?;
    let node = Api::<Node>::all(inside.clone()).get(machine).await?;
    let cordoned = node.spec.and_then(|spec| spec.unschedulable);
    ensure!(cordoned == Some(true), "the node is not cordoned");
    let pods: Api<Pod> = Api::namespaced(inside.clone(), "default");
    let there = pods.get(&pod).await?;
    ensure!(
        there.metadata.deletion_timestamp.is_none(),
        "the pod goes although its budget forbids it"
    );
    let instance = workers.pool.instances().get(machine).await?;
    ensure!(
        instance.metadata.deletion_timestamp.is_none(),
        "the virtual machine goes before its node is drained"
    );

    // The budget goes, the pod, the machine, and with it the node.
    workers.kubectl.run(&["delete", "pdb", "web"]).await?;
    workers.pool.settled(0, NODES).await?;
    no_worker(&workers).await?;

    // The last node is back, the budget too, and nobody ever lets the pod go.
    let hurry = json!({ "replicas": 1, "drainTimeout": "20s" });
    workers.pool.patch(hurry).await?;
    workers.pool.settled(1, NODES).await?;
    guarded(&workers).await?;
    let asked = jiff::Timestamp::now();
    workers.pool.patch(json!({ "replicas": 0 })).await?;
    let pod = WEB.pods(&workers.kubectl).await?.remove(0);
    held(&workers, &pod).await?;
    workers.pool.settled(0, NODES).await?;
    let waited = Duration::try_from(jiff::Timestamp::now().duration_since(asked))?;
    ensure!(
        waited >= Duration::from_secs(20),
        "the budget was honoured for {waited:?} only"
    );
    no_worker(&workers).await
}

/// A pod that nobody may evict.
async fn guarded(workers: &Workers) -> Result<()> {
    WEB.deploy(&workers.kubectl, PODS).await?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    workers.kubectl.apply(&budget.to_string()).await?;
    // Until the budget has been looked at, it forbids everything; then it says so.
    let path = "jsonpath={.status.currentHealthy}";
    let get = ["get", "pdb", "web", "-o", path];
    let seen = workers.kubectl.until(PATIENCE, &get, |text| text == "1");
    seen.await.map(drop)
}

/// The Machine says that it drains, and which pod holds it up: so an eviction was refused.
async fn held(workers: &Workers, pod: &str) -> Result<()> {
    let what = format!("drains and names the pod {pod}");
    workers
        .pool
        .machines_are(&what, PATIENCE, |all| {
            let status = all.values().next()?.status.as_ref()?;
            let drained = ConditionType::Drained.as_str();
            let said = status.conditions.iter().find(|c| c.type_ == drained)?;
            let held = said.status == "False" && said.message.contains(pod);
            (held && status.phase == Some(MachinePhase::Draining)).then_some(())
        })
        .await
}

async fn no_worker(workers: &Workers) -> Result<()> {
    let left = remains(&workers.tenant).await?;
    ensure!(left.is_empty(), "left: {left:?}");
    let nodes: Api<Node> = Api::all(workers.tenant.admin(PATIENCE).await?);
    wait_list(
        &nodes,
        Config::default(),
        "no node is left",
        PATIENCE,
        |all| all.is_empty().then_some(()),
    )
    .await?;
    // The tenant cluster itself goes on without any node.
    workers.tenant.settled(PATIENCE).await?;
    let all = nodes.list(&ListParams::default()).await?;
    ensure!(all.items.is_empty(), "a node came back");
    Ok(())
}
