//! Tenant clusters that are broken do not hold another one up.
//!
//! Invariant: no time is compared. What is shown is how many looks and places the broken ones take: a
//! question to a tenant's API that is open in a reconcile is a place that is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::condition::is_true;
use api::{ConditionType, TenantCluster};
use kit_client::meter::metered;
use kit_objects::kinds;
use kube::ResourceExt;
use operator::rollouts::queue::Counts;
use operator::turns::Pace;
use serde_json::{Value, json};
use tenant_cp::Settings;
use testkit::FaultPlan;
use testkit::fakes::tenant_api::Mode;
use testkit::faults::Answer;
use testkit::fixtures::{ask_until, minimal, wait_gone};
use testkit::programs::Programs;
use testkit::request::RequestInfo;
use tokio::sync::watch;

use crate::support::relay::Relay;
use crate::support::site::tenant_namespace;
use crate::support::{Launch, Operator, PATIENCE, Site, settled};

/// More than may start at once.
const INVALID: usize = 5;
/// Places of an operator that has many broken ones: half of its default, so that half as many are enough.
const PLACES: u16 = 8;
/// More than these places.
const MANY: usize = 10;
/// A quarter of these places, and the one that is made beside.
const FEW: usize = 2 + 1;

/// How often the operator looked at each TenantCluster.
#[derive(Clone)]
struct Looks(watch::Sender<BTreeMap<String, usize>>);

impl Looks {
    fn new() -> Self {
        Self(watch::Sender::new(BTreeMap::new()))
    }

    /// Counts, and changes nothing.
    fn plan(&self) -> FaultPlan {
        let looks = self.0.clone();
        FaultPlan::none().answering(Answer::status(500).when(move |request| {
            if request.verb == "get" && request.resource == "tenantclusters" {
                let name = request.name.clone().unwrap_or_default();
                looks.send_modify(|looks| *looks.entry(name).or_default() += 1);
            }
            false
        }))
    }

    fn so_far(&self) -> BTreeMap<String, usize> {
        self.0.borrow().clone()
    }

    /// At each of these there were no more than `most` since.
    fn are_few(
        &self,
        since: &BTreeMap<String, usize>,
        names: &[String],
        most: usize,
    ) -> Result<()> {
        let now = self.so_far();
        for name in names {
            let of = |looks: &BTreeMap<String, usize>| looks.get(name).copied().unwrap_or_default();
            let looks = of(&now) - of(since);
            ensure!(
                looks <= most,
                "{name} is looked at again and again: {looks}"
            );
        }
        Ok(())
    }
}

fn is(cluster: &TenantCluster, type_: ConditionType) -> bool {
    let status = cluster.status.as_ref();
    status.is_some_and(|s| is_true(&s.conditions, type_))
}

/// Waits until the broken ones have given back the places that they asked for: one, whose start is
/// under way, may keep its own.
async fn places_are_given_back(operator: &Operator) -> Result<()> {
    let given_back = || match operator.context.rollout_queue.counts() {
        Counts {
            running: 0 | 1,
            waiting: 0,
            ..
        } => ready(Ok(Ok(()))),
        counts => ready(Ok(Err(format!("{counts:?}")))),
    };
    ask_until("one starts and none waits", PATIENCE, given_back).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_tenant_cluster_does_not_hold_another_up() -> Result<()> {
    let Some(site) = Site::new("fair").await? else {
        return Ok(());
    };
    let (relay, looks) = (Relay::start(&site, "silent", true), Looks::new());
    let operator = Launch {
        dial: Some(relay.dial()),
        ..Launch::new(&site)?.plan(&looks.plan())
    }
    .start(&site)?;

    // One that never answers, and ones that cannot be built.
    site.create("silent").await?;
    let invalid: Vec<_> = (0..INVALID).map(|n| format!("invalid-{n}")).collect();
    for name in &invalid {
        let mut invalid = minimal(&site.users, name);
        invalid.spec.version = "1.20.0".to_owned();
        site.create_as(&invalid).await?;
    }
    site.wait("silent", |c| is(c, ConditionType::CertificatesReady))
        .await?;
    for name in &invalid {
        site.wait(name, |c| is(c, ConditionType::Degraded)).await?;
    }
    places_are_given_back(&operator).await?;
    relay.wait_open(1).await?;

    let begin = looks.so_far();
    site.create("beside").await?;
    site.wait_ready("beside").await?;
    places_are_given_back(&operator).await?;
    // What was on its way when the first look was over.
    looks.are_few(&begin, &invalid, 2)?;

    for name in ["silent", "invalid-0"] {
        let cluster = site.clusters().get(name).await?;
        ensure!(
            !is(&cluster, ConditionType::Ready),
            "{name} is said to be ready"
        );
    }
    // Broken ones can be deleted, too.
    for cluster in site.clusters().list(&Default::default()).await? {
        site.delete(&cluster.name_any()).await?;
    }
    for cluster in site.clusters().list(&Default::default()).await? {
        wait_gone(&site.clusters(), &cluster.name_any(), PATIENCE).await?;
    }
    ensure!(site.tenant_namespaces().await?.is_empty(), "left behind");
    ensure!(
        operator.context.startup_probes.is_empty(),
        "they are asked for ever"
    );
    Ok(())
}

/// S19 of the security findings: bytes of a tenant went through parsers whose panic ended the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn panic_over_one_tenant_cluster_ends_nothing_else() -> Result<()> {
    let Some(site) = Site::new("panic").await? else {
        return Ok(());
    };
    let of_it = |request: &RequestInfo| {
        let namespace = request.namespace.as_deref();
        request.verb == "patch" && namespace.is_some_and(|name| name.starts_with("covey-broken-"))
    };
    let plan = FaultPlan::none().answering(Answer::panic().times(1).when(of_it));
    let operator = Launch::new(&site)?.plan(&plan).start(&site)?;
    site.create("broken").await?;
    let says_so = |cluster: &TenantCluster| {
        let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|c| c.type_ == "Degraded" && c.message.contains("panicked"))
    };
    let broken = site.wait("broken", says_so).await?;
    ensure!(!is(&broken, ConditionType::Ready), "it is said to be ready");
    ensure!(plan.answered() == 1, "{} panics", plan.answered());

    site.create("beside").await?;
    site.wait_ready("beside").await?;
    // Whatever it was that panicked may be over with the next change.
    let sans =
        json!({ "spec": { "controlPlane": { "endpoint": { "certSANs": ["a.example.com"] } } } });
    site.change("broken", &sans).await?;
    site.wait_ready("broken").await?;
    operator.stop().await
}

/// Finding C28: after a fail-over each tenant cluster was read at once, and whatever changed waited in
/// between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_after_a_fail_over_waits_for_no_tenant_cluster_that_is_at_rest() -> Result<()> {
    let Some(site) = Site::new("fail-over").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let names = ["a", "b", "c", "d"];
    for name in names {
        site.create(name).await?;
    }
    for name in names {
        site.wait_ready(name).await?;
        operator.settle(&site, name).await?;
    }
    operator.stop().await?;

    let looks = Looks::new();
    let operator = Launch {
        // One has its turn, and no other in the life of this test.
        pace: Pace {
            at_once: 1,
            period: Duration::from_secs(3600),
        },
        ..Launch::new(&site)?.plan(&looks.plan())
    }
    .start(&site)?;
    let seen = || looks.so_far().into_keys().collect::<BTreeSet<_>>();
    let is_seen = || match seen().is_empty() {
        false => ready(Ok(Ok(()))),
        true => ready(Ok(Err("none".to_owned()))),
    };
    ask_until("one is looked at", PATIENCE, is_seen).await?;
    let first = seen().pop_first().context("none")?;
    // What is taken from the first comes back by a watch, once its first look is over; so all are up.
    lose_a_policy(&site, &first).await?;
    operator.settle(&site, &first).await?;
    lose_a_policy(&site, &first).await?;
    ensure!(seen().len() == 1, "{:?} did not wait", seen());

    let mut waiting = names.into_iter().filter(|name| *name != first);
    let mut next = || waiting.next().context("none is left");
    let (loses, changes, at_rest) = (next()?, next()?, next()?);
    lose_a_policy(&site, loses).await?;
    let sans =
        json!({ "spec": { "controlPlane": { "endpoint": { "certSANs": ["a.example.com"] } } } });
    let generation = site.change(changes, &sans).await?.metadata.generation;
    let is_observed = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| status.observed_generation == generation)
    };
    site.wait(changes, is_observed).await?;
    ensure!(!seen().contains(at_rest), "{at_rest} was looked at between");
    operator.stop().await
}

/// Each that came to a namespace had all others there looked at: of a hundred at rest one creation took all requests
/// of the operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_made_has_no_other_looked_at() -> Result<()> {
    // Of its own changes the last one made may have looks to come when the count begins.
    const OWN: usize = 3;
    let Some(site) = Site::new("beside").await? else {
        return Ok(());
    };
    let looks = Looks::new();
    let operator = Launch::new(&site)?.plan(&looks.plan()).start(&site)?;
    let at_rest = ["a", "b", "c"].map(str::to_owned);
    for name in &at_rest {
        site.create(name).await?;
        site.wait_ready(name).await?;
    }
    for name in &at_rest {
        operator.settle(&site, name).await?;
    }
    let begin = looks.so_far();
    let made = (0..=OWN).map(|n| format!("made-{n}"));
    let made: Vec<_> = made.collect();
    for name in &made {
        site.create(name).await?;
        site.wait_ready(name).await?;
        operator.settle(&site, name).await?;
    }
    for name in &made {
        site.delete(name).await?;
    }
    for name in &made {
        wait_gone(&site.clusters(), name, PATIENCE).await?;
    }
    looks.are_few(&begin, &at_rest, OWN)?;
    operator.stop().await
}

/// Takes a NetworkPolicy from a tenant cluster, and waits until it is back.
async fn lose_a_policy(site: &Site, name: &str) -> Result<()> {
    let ns = tenant_namespace(&site.clusters().get(name).await?);
    let policies = site.objects(kinds::NETWORK_POLICY, &ns);
    let lost = policies.get("etcd").await?.uid();
    policies.delete("etcd", &Default::default()).await?;
    let back = || async {
        let found = policies.get_opt("etcd").await?;
        Ok(found
            .filter(|policy| policy.uid() != lost)
            .ok_or("it is gone".to_owned()))
    };
    ask_until("the policy is back", PATIENCE, back).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_that_never_come_up_hold_no_place() -> Result<()> {
    let Some(site) = Site::new("never-up").await? else {
        return Ok(());
    };
    let (relay, looks) = (Relay::start(&site, "silent", true), Looks::new());
    let launch = Launch::new(&site)?.plan(&looks.plan());
    let operator = Launch {
        dial: Some(relay.dial()),
        settings: Settings {
            max_concurrent_starts: 2 * MANY,
            ..launch.settings.clone()
        },
        concurrency: PLACES,
        ..launch
    }
    .start(&site)?;
    let silent: Vec<_> = (0..MANY).map(|n| format!("silent-{n}")).collect();
    for name in &silent {
        site.create(name).await?;
    }
    // More questions than there are places: none of them is asked in one.
    relay.wait_open(MANY).await?;
    for name in &silent {
        let starts = |cluster: &TenantCluster| {
            let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
            conditions.any(|c| c.type_ == "Ready" && c.reason == "Starting")
        };
        site.wait(name, starts).await?;
    }
    // Each of its pods that came up is a look.
    for name in &silent {
        operator.settle(&site, name).await?;
    }
    ensure!(operator.context.startup_probes.len() == MANY, "who asks?");
    let begin = looks.so_far();
    site.create("innocent").await?;
    let ready = site.wait_ready("innocent").await;
    ready.context("another tenant is held up")?;
    // What its own pods wake it for.
    looks.are_few(&begin, &silent, 4)?;
    Ok(())
}

/// More tenants than there are places were up once and now are `slow`, or say nothing at all: another one
/// is made while they hold only few places.
async fn hold_few_places(prefix: &str, slow: Option<Duration>) -> Result<()> {
    let Some(site) = Site::new(prefix).await? else {
        return Ok(());
    };
    let launch = |dial| {
        let launch = Launch::new(&site)?;
        let settings = Settings {
            max_concurrent_starts: 2 * MANY,
            ..launch.settings.clone()
        };
        let launch = Launch {
            dial,
            settings,
            concurrency: PLACES,
            ..launch
        };
        launch.start(&site)
    };
    let operator = launch(None)?;
    let broken: Vec<_> = (0..MANY).map(|n| format!("broken-{n}")).collect();
    for name in &broken {
        site.create(name).await?;
    }
    for name in &broken {
        let ns = tenant_namespace(&site.wait_ready(name).await?);
        if let Some(slow) = slow {
            ensure!(site.tenants.set(&ns, Mode::Slow(slow)), "no server");
        }
    }
    drop(operator);

    // This one knows none of them, and looks at all.
    let relay = Relay::start(&site, "broken", slow.is_none());
    let operator = launch(Some(relay.dial()))?;
    relay.wait_open(1).await?;
    let most = most_asked(&operator);
    site.create("innocent").await?;
    let ready = site.wait_ready("innocent").await;
    ready.context("another tenant is held up")?;
    for name in &broken {
        let told = |cluster: &TenantCluster| !is(cluster, ConditionType::Ready);
        let told = site.wait(name, told).await;
        told.with_context(|| format!("nobody is told of {name}"))?;
    }
    for name in &broken {
        operator.settle(&site, name).await?;
    }
    let probed = operator.context.recovery_probes.len();
    ensure!(probed == MANY, "{probed} are asked whether they are back");
    let most = most.load(Ordering::Relaxed);
    ensure!(most <= FEW, "they hold {most} places");
    if slow.is_some() {
        let ns = tenant_namespace(&site.clusters().get("broken-0").await?);
        ensure!(site.tenants.set(&ns, Mode::Up), "no server");
        let back = site.wait_ready("broken-0").await;
        back.context("nobody finds out that it is back")?;
    }
    Ok(())
}

/// How many places were held at once, from now on, by reconciles that wait for a tenant's answer.
fn most_asked(operator: &Operator) -> Arc<AtomicUsize> {
    let (most, context) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::downgrade(&operator.context),
    );
    let seen = Arc::clone(&most);
    tokio::spawn(async move {
        let mut again = tokio::time::interval(Duration::from_millis(2));
        while let Some(context) = context.upgrade() {
            let asking = context.cluster_bulkhead.counts().asking;
            seen.fetch_max(asking, Ordering::Relaxed);
            drop(context);
            again.tick().await;
        }
    });
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_that_died_hold_few_places() -> Result<()> {
    hold_few_places("died", None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_tenants_hold_few_places() -> Result<()> {
    hold_few_places("all-slow", Some(Duration::from_millis(4900))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconcile_is_told_what_it_sent_to_the_management_api() -> Result<()> {
    let Some((site, operator, _)) = settled("metered").await? else {
        return Ok(());
    };
    let (done, sent) = metered(Box::pin(operator.reconcile(&site, "demo"))).await;
    done?;
    // It reads all parts and writes nothing.
    ensure!((10..=30).contains(&sent), "{sent} requests");
    Ok(())
}

/// Small, and with the program of the development profile: what it measures is not looked at, but that it does.
#[test]
fn bench_measures_few_neighbours() -> Result<()> {
    const PROGRAM: &str = env!("CARGO_BIN_EXE_operator");
    let bench = Path::new(PROGRAM).with_file_name("examples/many");
    let own = ["--user", "--map-root-user", "--net", "true"];
    let may = Command::new("unshare").args(own).status();
    if Programs::find_or_skip()?.is_none() {
        return Ok(());
    }
    if !bench.exists() || !may.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: no example `many` was built, or no network namespace can be made");
        return Ok(());
    }
    let small = [
        "--dead=2",
        "--slow=2",
        "--flood=20",
        "--rounds=1",
        "--patience=120",
        "--told=0",
    ];
    let output = Command::new(bench)
        .args(["neighbours", "--json", "--program", PROGRAM])
        .args(small)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {said}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout)?;
    // Both, the one that floods, and six innocents.
    ensure!(report["tenants"] == 11, "{report}");
    ensure!(report["restarts"] == 0, "{report}\n{said}");
    for figure in [
        "/innocent_create_ratio",
        "/operator/rss_mib/max",
        "/reads_per_create",
    ] {
        let measured = report.pointer(figure).and_then(Value::as_f64);
        ensure!(measured.is_some_and(|n| n > 0.0), "{figure}: {report}");
    }
    Ok(())
}
