//! Needs: operator, autoscaler, node
//!
//! A pool that grows from zero for a Deployment, on real machines, and is given back when
//! nobody needs it, driven by the protocol of the Cluster Autoscaler.
//!
//! The stock Cluster Autoscaler has no image in the lab; its pod waits for one, and the condition
//! AutoscalerReady says that the addon does not work. Nothing here needs it.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use api::{ConditionType, condition, node_pool::Autoscaling};
use autoscaler_client::Generation;
use suites::{
    cluster::wait::wait_for,
    scenario::{
        self, PATIENCE, Scenario,
        autoscaler::{Player, connect, deployment, group_of},
        workers::{NODES, PODS, Workers},
    },
};

const NODES_NEEDED: i32 = 2;

#[tokio::test]
async fn a_pool_grows_from_zero_for_pods_and_is_given_back() {
    scenario::run("autoscaler", grows_and_shrinks).await;
}

fn say(text: String) {
    eprintln!("autoscaler: {text}");
}

/// A tenant cluster with the addon and an empty pool of small machines.
async fn empty(s: &Scenario) -> Result<Workers> {
    s.workers(|cluster, nodes| {
        cluster.addons.autoscaler.enabled = true;
        // As a pod of kube-system it would keep a node for ever.
        cluster.addons.core_dns.enabled = false;
        nodes.replicas = 0;
        nodes.autoscaling = Some(Autoscaling {
            min: 0,
            max: 5,
            scale_down_delay: None,
            utilization_threshold: None,
            priority: 0,
            capacity: Default::default(),
            architecture: None,
        });
        if let Some(kubevirt) = nodes.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
            kubevirt.cpu = 1;
        }
    })
    .await
}

async fn grows_and_shrinks(s: &Scenario) -> Result<()> {
    let workers = empty(s).await?;
    honest(&workers).await?;
    let link = connect(&s.management, &workers.tenant, Generation::New, PATIENCE).await?;
    let mut player = Player::new(link, workers.tenant.admin(PATIENCE).await?);
    group_of(player.protocol(), &workers.pool.name, PATIENCE).await?;

    let kubectl = &workers.kubectl;
    let begun = Instant::now();
    let phase = |what: &str, begun: Instant| say(format!("{what} after {:.1?}", begun.elapsed()));
    kubectl.apply(&deployment("load", NODES_NEEDED)).await?;
    let pool = &workers.pool;
    let grown = async {
        let machines = usize::try_from(NODES_NEEDED)?;
        let made = |all: &std::collections::BTreeMap<_, _>| (all.len() == machines).then_some(());
        pool.machines_are("two Machines are there", PATIENCE, made)
            .await?;
        phase("0 -> 2: Machines", begun);
        pool.settled(NODES_NEEDED, NODES).await?;
        phase("0 -> 2: nodes Ready", begun);
        let ready = ["rollout", "status", "deployment/load", "--timeout=230s"];
        kubectl.run_within(PODS, &ready).await?;
        phase("0 -> 2: pods run", begun);
        Ok(())
    };
    player.during(&say, grown).await?;
    let size = pool.api().get(&pool.name).await?.spec.replicas;
    ensure!(size == NODES_NEEDED, "the pool has {size} replicas");

    let begun = Instant::now();
    kubectl.run(&["delete", "deployment", "load"]).await?;
    let given_back = async {
        let gone = |all: &std::collections::BTreeMap<_, _>| all.is_empty().then_some(());
        pool.machines_are("no Machine is left", NODES, gone).await
    };
    player.during(&say, given_back).await?;
    phase("2 -> 0: Machines gone", begun);
    pool.settled(0, PODS).await?;
    let nodes = kubectl.run(&["get", "nodes", "-o", "name"]).await?;
    ensure!(nodes.trim().is_empty(), "nodes are left: {nodes}");
    let left = suites::cluster::pool::remains(&workers.tenant).await?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

/// Without an image of the stock Cluster Autoscaler the addon is not said to work.
async fn honest(workers: &Workers) -> Result<()> {
    let tenant = &workers.tenant;
    let type_ = ConditionType::AutoscalerReady;
    let clusters = tenant.api();
    let said = wait_for(&clusters, &tenant.name, "it is told", PATIENCE, |cluster| {
        let status = cluster.status.as_ref()?;
        let mut all = status.conditions.iter();
        all.find(|c| c.type_ == type_.as_str())?;
        Some(condition::is_true(&status.conditions, type_))
    });
    let ready = said.await.context("nobody says whether the addon works")?;
    ensure!(!ready, "the addon is said to work without the stock client");
    Ok(())
}
