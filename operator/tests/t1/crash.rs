//! The operator dies at its k-th write, for every k of a change and of a deletion, and for some of a
//! creation; another one, which knows nothing, brings the same end about.
//!
//! Invariant: no k is left out, but for those of a creation that the API in memory takes
//! (`memory/creation.rs`), and that are taken here with `COVEY_ALL=1`. Runs go on until one of them ends
//! without having died, so whatever writes a life has, each of them was the last one once: carried out,
//! reply not seen. Before the first write it dies too; before each only with `COVEY_ALL=1` ([`Deaths`]
//! says why).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use kit_objects::kinds;
use kube::ResourceExt;
use serde_json::{Value, json};
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use testkit::FaultPlan;
use testkit::faults::{Crash, Deaths, Ledger};
use testkit::fixtures::{minimal, wait_for, wait_gone};
use tokio::sync::Mutex;

use crate::support::site::tenant_namespace;
use crate::support::state::{State, differences};
use crate::support::{Launch, Operator, PATIENCE, Site};

/// Lives at the same time, most of which is waiting: as many threads as `.config/nextest.toml` says
/// that these tests require.
const LANES: usize = 3;
/// The same for changes and deletions, of which there are few.
const FEW_LANES: usize = 2;
/// Of the writes of a creation it dies after one in so many: `memory/creation.rs` takes both sides of each
/// of them, on a model that is compared with the real server.
const MODELLED: u64 = 6;

/// The operator that is to die next, at rest meanwhile: it took the last one's work up, knowing
/// nothing, and was shown to have ended it. Without it, every death would cost two starts.
#[derive(Default)]
pub(crate) struct Hand(Mutex<Option<Operator>>);

impl Hand {
    pub(crate) fn new(operator: Operator) -> Self {
        Self(Mutex::new(Some(operator)))
    }

    pub(crate) async fn take(&self) -> Result<Operator> {
        let operator = self.0.lock().await.take();
        operator.context("invariant: a lane runs one life at a time")
    }

    pub(crate) async fn give(&self, operator: Operator) {
        *self.0.lock().await = Some(operator);
    }
}

/// How many writes a life has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writes {
    least: u64,
    counted: Option<u64>,
}

impl Writes {
    /// No fewer than these.
    pub(crate) const fn at_least(least: u64) -> Self {
        Self {
            least,
            counted: None,
        }
    }

    /// And so many were counted in a life without faults.
    pub(crate) const fn counted(self, writes: u64) -> Self {
        Self {
            counted: Some(writes),
            ..self
        }
    }
}

/// Runs `life` for every k on some sites side by side; it gives whether the operator died.
pub(crate) async fn for_every_k<S, F>(
    name: &str,
    sites: Vec<S>,
    writes: Writes,
    life: F,
) -> Result<()>
where
    F: AsyncFn(&S, Crash) -> Result<bool>,
{
    for_deaths(Deaths::asked_for(), name, sites, writes, life).await
}

/// The same for these deaths. Those at later writes than a life is known to have are tried one by one: side by side
/// each lane but one would live in vain.
pub(crate) async fn for_deaths<S, F>(
    deaths: Deaths,
    name: &str,
    sites: Vec<S>,
    Writes { least, counted }: Writes,
    life: F,
) -> Result<()>
where
    F: AsyncFn(&S, Crash) -> Result<bool>,
{
    ensure!(
        counted.is_none_or(|counted| counted >= least),
        "{name} has {counted:?} writes, fewer than it must have"
    );
    let begin = Instant::now();
    let ledger = Ledger::new(deaths).expecting(counted.unwrap_or(least));
    let lives = AtomicU64::new(0);
    let lane = async |site: S| {
        while let Some(crash) = ledger.next() {
            lives.fetch_add(1, Ordering::SeqCst);
            let died = life(&site, crash).await;
            let died = died.with_context(|| format!("{name}: died at the write {crash:?}"))?;
            ledger.ended(crash, died);
        }
        anyhow::Ok(())
    };
    futures::future::try_join_all(sites.into_iter().map(lane)).await?;
    let [before, after] = ledger.outlived();
    eprintln!(
        "{name}: {deaths:?}, {counted:?} writes, outlived the deaths at writes {before} and {after}, {lives:?} lives, in \
         {:.1?}",
        begin.elapsed()
    );
    let enough = match deaths {
        Deaths::BothSides => before > least && after > least,
        Deaths::Before(_) => before > least,
        // It died before the first.
        _ => before == 0 && after > least,
    };
    ensure!(enough, "{name} has fewer writes than it must have");
    Ok(())
}

async fn sites(prefix: &str, count: usize) -> Result<Option<Vec<Site>>> {
    let mut sites = Vec::new();
    for _ in 0..count {
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        sites.push(site);
    }
    Ok(Some(sites))
}

/// Waits for the operator's death (true) or for the end of `work`.
pub(crate) async fn dies(
    operator: &Operator,
    work: impl Future<Output = Result<()>>,
) -> Result<bool> {
    tokio::select! {
        biased;
        () = operator.plan.crashed() => Ok(true),
        result = work => match operator.plan.is_crashed() {
            true => Ok(true),
            false => result.map(|()| false),
        },
    }
}

async fn comes_up(site: &Site, operator: &Operator, name: &str) -> Result<()> {
    site.wait_ready(name).await?;
    operator.settle(site, name).await
}

/// What must never change once it is there: the data of the Secrets that are created once.
async fn identity(site: &Site, cluster: &TenantCluster) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    let secrets = site.objects(kinds::SECRET, &tenant_namespace(cluster));
    for name in AUTHORITIES.into_iter().chain([SERVICE_ACCOUNT, ENCRYPTION]) {
        if let Some(secret) = secrets.get_opt(name).await? {
            found.insert(name.to_owned(), secret.data["data"].clone());
        }
    }
    Ok(found)
}

async fn keeps(site: &Site, cluster: &TenantCluster, was: &BTreeMap<String, Value>) -> Result<()> {
    let now = identity(site, cluster).await?;
    for (name, data) in was {
        ensure!(now.get(name) == Some(data), "Secret {name} was made anew");
    }
    Ok(())
}

pub(crate) fn same(wanted: &State, found: &State) -> Result<()> {
    let different = differences(wanted, found);
    ensure!(
        different.is_empty(),
        "not the same end:\n{}",
        different.join("\n")
    );
    Ok(())
}

/// Deletes a TenantCluster and sees to it that nothing stays, the garbage collector's part included.
async fn goes(site: &Site, name: &str) -> Result<()> {
    site.delete(name).await?;
    gone(site, name).await
}

async fn gone(site: &Site, name: &str) -> Result<()> {
    wait_gone(&site.clusters(), name, PATIENCE).await?;
    let left = site.tenant_namespaces().await?;
    ensure!(left.is_empty(), "left behind: {left:?}");
    for (kind, object) in site.user_parts().await? {
        let objects = site.objects(kind, &site.users);
        wait_gone(&objects, &object.name_any(), PATIENCE).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creation_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let Some(sites) = sites("crash-create", LANES).await? else {
        return Ok(());
    };
    let first = &sites[0];
    let operator = Operator::start(first)?;
    first.create("demo").await?;
    comes_up(first, &operator, "demo").await?;
    let counted = operator.plan.writes();
    let baseline = first.state("demo").await?;
    goes(first, "demo").await?;
    drop(operator);

    // 29 objects, the finalizer, and the address ranges in the status.
    let deaths = Deaths::asked_for_beside_the_model(MODELLED);
    let writes = Writes::at_least(31).counted(counted);
    for_deaths(deaths, "creation", sites, writes, async |site, crash| {
        let plan = FaultPlan::none();
        plan.arm(crash);
        let operator = Launch::new(site)?.plan(&plan).start(site)?;
        let cluster = site.create("demo").await?;
        let died = dies(&operator, Box::pin(comes_up(site, &operator, "demo"))).await?;
        drop(operator);
        let was = identity(site, &cluster).await?;
        let operator = Operator::start(site)?;
        comes_up(site, &operator, "demo").await?;
        keeps(site, &cluster, &was).await?;
        same(&baseline, &site.state("demo").await?)?;
        ensure!(
            site.tenant_namespaces().await? == [tenant_namespace(&cluster)],
            "more than one"
        );
        goes(site, "demo").await?;
        Ok(died)
    })
    .await
}

fn changed() -> Value {
    json!({ "spec": { "controlPlane": {
        "replicas": 3,
        "endpoint": { "certSANs": ["api.example.com", "192.0.2.9"] },
        "apiServer": { "extraArgs": { "event-ttl": "2h" } },
    } } })
}

fn unchanged() -> Value {
    json!({ "spec": { "controlPlane": {
        "replicas": 1,
        "endpoint": { "certSANs": null },
        "apiServer": { "extraArgs": null },
    } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let Some(sites) = sites("crash-change", FEW_LANES).await? else {
        return Ok(());
    };
    let mut lanes = Vec::new();
    for site in sites {
        let operator = Operator::start(&site)?;
        lanes.push((site, Hand::new(operator)));
    }
    // Side by side, because each of them waits for its control plane.
    let baseline = async |(site, hand): &(Site, Hand)| {
        let operator = hand.take().await?;
        site.create("demo").await?;
        comes_up(site, &operator, "demo").await?;
        let plain = site.state("demo").await?;
        let before = operator.plan.writes();
        site.change("demo", &changed()).await?;
        comes_up(site, &operator, "demo").await?;
        let there = operator.plan.writes();
        let other = site.state("demo").await?;
        ensure!(plain != other, "the change changes nothing");
        site.change("demo", &unchanged()).await?;
        comes_up(site, &operator, "demo").await?;
        same(&plain, &site.state("demo").await?)?;
        let back = operator.plan.writes() - there;
        hand.give(operator).await;
        Ok((plain, other, back.max(there - before)))
    };
    let baselines = futures::future::try_join_all(lanes.iter().map(baseline)).await?;
    let (plain, other, counted) = &baselines[0];
    for (another, ..) in &baselines[1..] {
        same(plain, another)?;
    }

    // The serving certificate, the Deployment, and the status.
    let writes = Writes::at_least(3).counted(*counted);
    for_every_k("change", lanes, writes, async |(site, hand), crash| {
        let mut died = false;
        for (patch, wanted) in [(changed(), other), (unchanged(), plain)] {
            let cluster = site.clusters().get("demo").await?;
            let was = identity(site, &cluster).await?;
            let operator = hand.take().await?;
            operator.plan.arm(crash);
            site.change("demo", &patch).await?;
            died |= dies(&operator, Box::pin(comes_up(site, &operator, "demo"))).await?;
            drop(operator);
            let operator = Operator::start(site)?;
            comes_up(site, &operator, "demo").await?;
            same(wanted, &site.state("demo").await?)?;
            keeps(site, &cluster, &was).await?;
            ensure!(was.len() == AUTHORITIES.len() + 2, "{} Secrets", was.len());
            hand.give(operator).await;
        }
        Ok(died)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_leaves_nothing_wherever_the_operator_dies() -> Result<()> {
    let Some(sites) = sites("crash-delete", FEW_LANES).await? else {
        return Ok(());
    };
    // The pods (three writes), the namespace, the status, the finalizer.
    let writes = Writes::at_least(5);
    for_every_k("deletion", sites, writes, async |site, crash| {
        let operator = Operator::start(site)?;
        let mut cluster = minimal(&site.users, "demo");
        // Somebody else's finalizer shows what the operator does after its own is off.
        cluster.metadata.finalizers = Some(vec!["example.com/backup".to_owned()]);
        let cluster = site.create_as(&cluster).await?;
        comes_up(site, &operator, "demo").await?;
        let ns = tenant_namespace(&cluster);
        site.make_pod(&ns, "etcd-extra").await?;

        operator.plan.arm(crash);
        site.delete("demo").await?;
        let ours_is_off = async || {
            let clusters = site.clusters();
            let off = |c: Option<&TenantCluster>| c.is_some_and(|c| c.finalizers().len() == 1);
            wait_for(&clusters, "demo", off, PATIENCE).await.map(drop)
        };
        let died = Box::pin(dies(&operator, ours_is_off())).await?;
        drop(operator);
        let _operator = Operator::start(site)?;
        ours_is_off().await?;
        site.change("demo", &json!({ "metadata": { "finalizers": null } }))
            .await?;
        gone(site, "demo").await?;
        Ok(died)
    })
    .await
}
