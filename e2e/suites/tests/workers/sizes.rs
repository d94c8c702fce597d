//! Needs: operator, node
//!
//! A pool of two is rolled out one by one, goes to none, and comes back.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use api::{ConditionType, condition};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::{pool::remains, wait::wait_list},
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS},
    },
};

#[tokio::test]
async fn a_pool_of_two_rolls_one_by_one_goes_to_none_and_comes_back() {
    scenario::run("sizes", sizes).await;
}

async fn sizes(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|_, nodes| {
            nodes.replicas = 2;
            // So never more than two virtual machines at a time.
            nodes.rollout.max_surge = 0.into();
            nodes.rollout.max_unavailable = 1.into();
        })
        .await?;
    let pool = &workers.pool;
    let before: BTreeSet<_> = pool.settled(2, NODES).await?.into_keys().collect();

    let template = json!({ "provider": { "kubevirt": { "memory": "1600Mi" } } });
    pool.patch(template).await?;
    let mut worst = 2;
    let rolled = pool.machines_are("both were replaced", NODES * 2, |all| {
        let ready = all.values().filter(|machine| {
            let status = machine.status.as_ref();
            let conditions = status.map(|status| status.conditions.as_slice());
            let going = machine.metadata.deletion_timestamp.is_some();
            !going && condition::is_true(conditions.unwrap_or_default(), ConditionType::Ready)
        });
        let ready = ready.count();
        worst = worst.min(ready);
        let replaced = all.keys().all(|name| !before.contains(name));
        (replaced && ready == 2).then_some(())
    });
    rolled.await?;
    ensure!(worst >= 1, "for a while no node was ready");
    let after: BTreeSet<_> = pool.settled(2, NODES).await?.into_keys().collect();
    ensure!(before.is_disjoint(&after), "{before:?} became {after:?}");
    nodes_are(&workers, &after).await?;

    pool.patch(json!({ "replicas": 0 })).await?;
    pool.settled(0, NODES).await?;
    nodes_are(&workers, &BTreeSet::new()).await?;
    let left = remains(&workers.tenant).await?;
    ensure!(left.is_empty(), "a pool of none has {left:?}");
    workers.tenant.settled(PODS).await?;

    pool.patch(json!({ "replicas": 1 })).await?;
    let last: BTreeSet<_> = pool.settled(1, NODES).await?.into_keys().collect();
    ensure!(last.is_disjoint(&after), "the name {last:?} was used twice");
    nodes_are(&workers, &last).await
}

/// The tenant's nodes are exactly these.
async fn nodes_are(workers: &scenario::workers::Workers, wanted: &BTreeSet<String>) -> Result<()> {
    let nodes: Api<Node> = Api::all(workers.tenant.admin(PATIENCE).await?);
    let what = format!("nodes are {wanted:?}");
    wait_list(&nodes, Config::default(), &what, PODS, |all| {
        all.keys().eq(wanted.iter()).then_some(())
    })
    .await
}
