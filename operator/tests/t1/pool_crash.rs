//! As `crash`, for node pools and their Machines: the operator dies at its k-th write in either
//! cluster, of a creation, a change of size, a rollout and a deletion. Its successor knows nothing, and is the
//! one that dies next.
//!
//! Invariant: whatever it was that died, the end is the same, and no virtual machine, Secret, token or
//! node is left without its Machine. The worlds of T0 die after every write
//! (`operator/src/controllers/{machine,node_pool}/tests.rs`); here it is one in [`MODELLED`], and with
//! `COVEY_ALL=1` both sides of each.

use anyhow::{Result, ensure};
use api::TenantCluster;
use futures::future::try_join_all;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::{Crash, Deaths};
use testkit::fixtures::{minimal, wait_gone};

use crate::crash::{Hand, Writes, dies, for_deaths, same};
use crate::support::kubevirt::KubeVirt;
use crate::support::state::State;
use crate::support::{Launch, Operator, PATIENCE, Site};

/// Lives at the same time: as many threads as `.config/nextest.toml` says that these tests require.
const LANES: usize = 2;
/// It dies after one write in so many, and before the first.
const MODELLED: u64 = 3;

fn deaths() -> Deaths {
    Deaths::asked_for_beside_the_model(MODELLED)
}

/// A tenant cluster that is ready, and somebody who plays virtual machines.
struct Stage {
    site: Site,
    cluster: TenantCluster,
    hand: Hand,
    _kubevirt: KubeVirt,
}

/// Nothing inside but what Machines need: the rest is as it is, whoever dies.
fn bare(site: &Site) -> TenantCluster {
    let off = json!({ "enabled": false });
    let mut cluster = json!(minimal(&site.users, "demo"));
    cluster["spec"]["addons"] = json!({
        "coreDNS": off, "kubeProxy": off, "konnectivity": off, "cni": { "type": "none" },
    });
    serde_json::from_value(cluster).expect("invariant: it is one with other addons")
}

/// What it writes inside the tenant cluster counts too.
fn start(site: &Site) -> Result<Operator> {
    let plan = FaultPlan::none();
    site.tenants.obey(Some(&plan));
    Launch::new(site)?.plan(&plan).start(site)
}

impl Stage {
    async fn new(prefix: &str) -> Result<Option<Self>> {
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        let kubevirt = KubeVirt::start(&site);
        let operator = start(&site)?;
        site.create_as(&bare(&site)).await?;
        let cluster = site.wait_ready("demo").await?;
        operator.settle(&site, "demo").await?;
        Ok(Some(Self {
            site,
            cluster,
            hand: Hand::new(operator),
            _kubevirt: kubevirt,
        }))
    }

    async fn several(prefix: &str) -> Result<Option<Vec<Self>>> {
        let stages = (0..LANES).map(|_| Self::new(prefix));
        let stages = try_join_all(stages).await?;
        Ok(stages.into_iter().collect())
    }

    async fn settle(&self, operator: &Operator) -> Result<()> {
        let site = &self.site;
        site.wait_pool_ready("workers").await?;
        operator.settle_pool(site, "demo", "workers").await?;
        site.wait_pool_ready("workers").await.map(drop)
    }

    /// One that knows nothing of the first.
    fn successor(&self, dead: Operator) -> Result<Operator> {
        drop(dead);
        start(&self.site)
    }

    async fn state(&self) -> Result<State> {
        self.site.nothing_is_orphaned(&self.cluster).await?;
        self.site.machine_state(&self.cluster).await
    }

    async fn is_empty(&self) -> Result<()> {
        let left = self.site.machine_parts(&self.cluster).await?;
        let names: Vec<_> = left
            .iter()
            .map(|(kind, object)| (kind.kind, object.metadata.name.clone()))
            .collect();
        ensure!(names.is_empty(), "left behind: {names:?}");
        Ok(())
    }

    /// Changes the pool under an operator that dies, and to its end under another one.
    async fn changes(&self, crash: Crash, patch: &Value, wanted: &State) -> Result<bool> {
        let operator = self.hand.take().await?;
        operator.plan.arm(crash);
        self.site.change_pool("workers", patch).await?;
        let died = Box::pin(dies(&operator, self.settle(&operator))).await?;
        let operator = self.successor(operator)?;
        self.settle(&operator).await?;
        same(wanted, &self.state().await?)?;
        self.hand.give(operator).await;
        Ok(died)
    }

    /// The states after two changes in turn, for comparison, and how many writes the longer one has.
    async fn baselines(&self, patches: [&Value; 2]) -> Result<([State; 2], u64)> {
        let operator = self.hand.take().await?;
        let (mut states, mut most) = (Vec::new(), 0);
        for patch in patches {
            let before = operator.plan.writes();
            self.site.change_pool("workers", patch).await?;
            self.settle(&operator).await?;
            most = most.max(operator.plan.writes() - before);
            states.push(self.state().await?);
        }
        self.hand.give(operator).await;
        let [b, a] = [states.pop(), states.pop()].map(Option::unwrap_or_default);
        Ok(([a, b], most))
    }

    /// Makes the pool; gives how many writes that took.
    async fn with_pool(&self, replicas: i32) -> Result<u64> {
        let operator = self.hand.take().await?;
        let before = operator.plan.writes();
        self.site.create_pool("workers", replicas).await?;
        self.settle(&operator).await?;
        let writes = operator.plan.writes() - before;
        self.hand.give(operator).await;
        Ok(writes)
    }

    /// Takes the pool away again, and rests.
    async fn without_pool(&self, operator: &Operator) -> Result<()> {
        self.site.remove_pool("workers").await?;
        operator.settle(&self.site, "demo").await?;
        self.is_empty().await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creation_of_a_pool_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let Some(stages) = Stage::several("pool-create").await? else {
        return Ok(());
    };
    let counted = stages[0].with_pool(2).await?;
    let baseline = stages[0].state().await?;
    let operator = stages[0].hand.take().await?;
    stages[0].without_pool(&operator).await?;
    stages[0].hand.give(operator).await;

    // Finalizer and two Machines; for each: token twice, user data twice, virtual machine, labels.
    let writes = Writes::at_least(15).counted(counted);
    let name = "creation of a pool";
    for_deaths(deaths(), name, stages, writes, async |stage, crash| {
        let operator = stage.hand.take().await?;
        operator.plan.arm(crash);
        stage.site.create_pool("workers", 2).await?;
        let died = Box::pin(dies(&operator, stage.settle(&operator))).await?;
        let operator = stage.successor(operator)?;
        stage.settle(&operator).await?;
        same(&baseline, &stage.state().await?)?;
        stage.without_pool(&operator).await?;
        stage.hand.give(operator).await;
        Ok(died)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scaling_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let Some(stages) = Stage::several("pool-scale").await? else {
        return Ok(());
    };
    let (one, two) = (
        json!({ "spec": { "replicas": 1 } }),
        json!({ "spec": { "replicas": 2 } }),
    );
    try_join_all(stages.iter().map(|stage| stage.with_pool(2))).await?;
    let (baselines, counted) = stages[0].baselines([&one, &two]).await?;
    // The Machine, its virtual machine, its node, cordoned and deleted, user data, finalizer.
    let writes = Writes::at_least(6).counted(counted);
    for_deaths(deaths(), "scaling", stages, writes, async |stage, crash| {
        let down = Box::pin(stage.changes(crash, &one, &baselines[0])).await?;
        let up = Box::pin(stage.changes(crash, &two, &baselines[1])).await?;
        Ok(down || up)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let Some(stages) = Stage::several("pool-roll").await? else {
        return Ok(());
    };
    let memory = |size: &str| json!({ "spec": { "provider": { "kubevirt": { "memory": size } } } });
    let (more, less) = (memory("2Gi"), memory("1Gi"));
    try_join_all(stages.iter().map(|stage| stage.with_pool(1))).await?;
    let (baselines, counted) = stages[0].baselines([&more, &less]).await?;
    let writes = Writes::at_least(13).counted(counted);
    for_deaths(deaths(), "rollout", stages, writes, async |stage, crash| {
        let first = Box::pin(stage.changes(crash, &more, &baselines[0])).await?;
        let second = Box::pin(stage.changes(crash, &less, &baselines[1])).await?;
        Ok(first || second)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_of_a_pool_leaves_nothing_wherever_the_operator_dies() -> Result<()> {
    let Some(stages) = Stage::several("pool-delete").await? else {
        return Ok(());
    };
    // Both Machines, as in scaling, and the pool's finalizer.
    let (name, writes) = ("deletion of a pool", Writes::at_least(13));
    for_deaths(deaths(), name, stages, writes, async |stage, crash| {
        stage.with_pool(2).await?;
        let site = &stage.site;
        let operator = stage.hand.take().await?;
        operator.plan.arm(crash);
        site.pools()
            .delete("workers", &DeleteParams::background())
            .await?;
        let gone = async || wait_gone(&site.pools(), "workers", PATIENCE).await;
        let died = dies(&operator, gone()).await?;
        let operator = stage.successor(operator)?;
        gone().await?;
        stage.is_empty().await?;
        stage.hand.give(operator).await;
        Ok(died)
    })
    .await
}
