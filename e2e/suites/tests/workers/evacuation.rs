//! Needs: operator, vm
//!
//! A node of the management cluster is drained: the tenant's node on it is drained first, then its
//! virtual machine goes, and another takes its place.
//!
//! The lab has one node, so `kubectl drain` is told to look at the machine's pod alone, and the
//! node is opened again once that is gone.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, runtime::watcher::Config};
use suites::{
    cluster::{
        pool::launcher,
        wait::{wait_for, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS},
        workload::Workload,
    },
};

#[tokio::test]
async fn draining_a_management_node_drains_the_tenants_node_first() {
    scenario::run_alone("evacuation", evacuation).await;
}

async fn evacuation(s: &Scenario) -> Result<()> {
    let workers = s.workers(|_, _| {}).await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let machine = machines.keys().next().context("no Machine")?;
    let web = Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    };
    let pod = web.deploy(&workers.kubectl, PODS).await?.remove(0);
    let launcher = launcher(&workers.tenant, machine).await?;
    let under = launcher.spec.and_then(|spec| spec.node_name);
    let under = under.context("the machine's pod is on no node")?;

    let pods: Api<Pod> = Api::namespaced(workers.tenant.admin(PATIENCE).await?, "default");
    let instances = workers.pool.instances();
    let order = async {
        // As seen by watches: when the pod began to go, and when the instance did.
        let leaves = wait_for(&pods, &pod, "is evicted", PODS, |pod| {
            pod.metadata.deletion_timestamp.clone()
        });
        let ends = wait_for(&instances, machine, "goes", PODS, |instance| {
            instance.metadata.deletion_timestamp.clone()
        });
        let (left, ended) = tokio::try_join!(leaves, ends)?;
        ensure!(
            left.0 <= ended.0,
            "the virtual machine went at {:?}, the pod only at {:?}",
            ended.0,
            left.0
        );
        anyhow::Ok(())
    };
    let selector = format!("--pod-selector={}={machine}", api::names::LABEL_MACHINE);
    let timeout = format!("--timeout={}s", PODS.as_secs());
    let drain = ["drain", &under, &selector, "--delete-emptydir-data"];
    let drain = [&drain[..], &["--ignore-daemonsets", "--force", &timeout]].concat();
    let result = async {
        let (drained, order) = tokio::join!(s.manage(&drain), order);
        drained.context("kubectl drain")?;
        order
    }
    .await;
    // Whatever happened, the lab's only node is to work again.
    s.manage(&["uncordon", &under]).await?;
    result?;

    let machines = workers.pool.settled(1, NODES).await?;
    ensure!(
        !machines.contains_key(machine),
        "the same Machine is still there"
    );
    let nodes: Api<k8s_openapi::api::core::v1::Node> =
        Api::all(workers.tenant.admin(PATIENCE).await?);
    let what = "the old node is gone";
    wait_list(&nodes, Config::default(), what, PATIENCE, |all| {
        (all.len() == 1 && !all.contains_key(machine)).then_some(())
    })
    .await?;
    // The Deployment's pod runs on the new one.
    let rolled = ["rollout", "status", "deployment/web"];
    let limit = PODS + Duration::from_secs(10);
    workers.kubectl.run_within(limit, &rolled).await.map(drop)
}
