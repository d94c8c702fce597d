//! Needs: operator, ccm, csi, vm, lab-agent
//!
//! The management cluster's API is away for five minutes while a pod writes: the tenant's API
//! answers, no record is lost, and nothing has been replaced when it is back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use suites::scenario::{
    self, Scenario,
    kubectl::Kubectl,
    stateful::{kept, stateful, written},
    workers::PODS,
};

use super::{claim, pod, ready, two_nodes};

/// How long the API is away.
const AWAY: Duration = Duration::from_secs(300);
/// How often the tenant's API is asked meanwhile.
const PERIOD: Duration = Duration::from_secs(20);
/// nftables of the management cluster's host: whoever asks its API is refused, at once.
const TABLE: &str = "inet covey-outage";
const REFUSE: &str = "{ chain input { type filter hook input priority -10; \
                      tcp dport 6443 reject with tcp reset; }; }";

#[tokio::test]
async fn a_pod_goes_on_writing_while_the_management_api_is_away() {
    scenario::run_alone("outage", outage).await;
}

async fn outage(s: &Scenario) -> Result<()> {
    let workers = two_nodes(s).await?;
    let kubectl = &workers.kubectl;
    kubectl.apply(&stateful(Some(5))).await?;
    ready(kubectl, "web-0").await?;
    let machines: Vec<_> = workers.pool.list().await?.into_keys().collect();
    let before = identity(kubectl).await?;

    s.on_host("nft", &[&format!("table {TABLE} {REFUSE}")])?;
    let result = writes(s, kubectl).await;
    s.on_host("nft", &[&format!("delete table {TABLE}")])?;
    result?;

    // All is as it was, and works: what is asked for now is done.
    let after = identity(kubectl).await?;
    ensure!(after == before, "{before} became {after}");
    let records = written(kubectl, PODS).await?;
    kept(kubectl, PODS, &records).await?;
    kubectl.apply(&claim("late", "Filesystem", "64Mi")).await?;
    kubectl.apply(&pod("late", "late")).await?;
    ready(kubectl, "late").await?;
    let now: Vec<_> = workers.pool.settled(2, PODS).await?.into_keys().collect();
    ensure!(now == machines, "{machines:?} became {now:?}");
    eprintln!("{} records", records.len());
    Ok(())
}

/// The pod and its restarts.
async fn identity(kubectl: &Kubectl) -> Result<String> {
    let path = "jsonpath={.metadata.uid} {.status.containerStatuses[*].restartCount}";
    kubectl.run(&["get", "pod", "web-0", "-o", path]).await
}

/// Until the time is over: the management API does not answer, the tenant's does, and records are
/// added.
async fn writes(s: &Scenario, kubectl: &Kubectl) -> Result<()> {
    let begun = Instant::now();
    let mut count = written(kubectl, PODS).await?.len();
    while begun.elapsed() < AWAY {
        // The length of the outage is what is tested.
        tokio::time::sleep(PERIOD).await;
        ensure!(
            s.manage(&["get", "configmaps"]).await.is_err(),
            "the management API answers"
        );
        let now = written(kubectl, PODS).await?.len();
        ensure!(now > count, "{now} records, {count} before");
        count = now;
    }
    Ok(())
}
