//! Many machines of one cloud: how long one takes to be asked for, what a list costs, and how many requests they take at
//! rest.
//!
//! Invariant: times are of this machine's clock and of all requests that it took, waiting for the cloud's time aside; counts
//! are of the fake's journal.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use api::node_pool::Market;
use fake_clouds::clock::VirtualClock;
use fake_clouds::journal::{Entry, Event};
use providers::cloud::Cloud as _;
use serde_json::{Map, Value, json};

use crate::machine::{Machine, ROUND, namespace};
use crate::played::Played;

/// Rounds in which a machine has to be there.
const ROUNDS: usize = 60;
/// Pause between two looks at a machine at rest (`operator/src/controllers/machine/plan/conditions.rs`).
const QUIET: Duration = Duration::from_secs(120);
/// Pause between two checks of a ProviderConfig, each with a sweep (`operator/src/controllers/provider_config/plan.rs`).
const CHECK: Duration = Duration::from_mins(10);
/// Lists that are timed.
const LISTS: usize = 5;
/// Clouds that machines are spread over, by which so many of each rest.
const CLOUDS: usize = 4;

/// Measures, and puts it into a report.
pub(crate) fn measure<P: Played>(count: usize, hours: u32, report: &mut Value) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(run::<P>(count, hours, report)))
}

async fn run<P: Played>(count: usize, hours: u32, report: &mut Value) -> Result<()> {
    let clock = VirtualClock::default();
    let fake = P::start(clock.clone()).await?;
    fake.widen();
    let cloud = fake.client(&clock)?;
    let mut fleet = Fleet {
        fake,
        cloud,
        clock,
        machines: Vec::new(),
        events: 0,
    };
    fleet.check().await?;
    let mut took = fleet.grow(count.div_ceil(CLOUDS)).await?;
    report["rest"] = fleet.rest(hours).await?;
    let before = (fleet.fake.requests(), fleet.machines.len());
    took.extend(fleet.grow(count).await?);
    let requests = fleet.fake.requests() - before.0;
    report["create_s"] = spread(&mut took);
    report["create_requests"] = json!(per(requests, fleet.machines.len() - before.1));
    fleet.list(report).await
}

/// Machines of one cloud, and the client that looks after them.
struct Fleet<P: Played> {
    fake: P,
    cloud: P::Cloud,
    clock: VirtualClock,
    machines: Vec<Machine>,
    /// Events that were read.
    events: usize,
}

impl<P: Played> Fleet<P> {
    async fn check(&self) -> Result<()> {
        let images = [P::IMAGE.to_owned()];
        let checked = self.cloud.check(&[], &images, Market::default()).await;
        checked
            .map(drop)
            .map_err(|why| anyhow!("{}: {why}", P::NAME))
    }

    /// Until there are so many; gives the seconds that each took.
    async fn grow(&mut self, count: usize) -> Result<Vec<f64>> {
        let mut took = Vec::new();
        let from = self.machines.len();
        for number in from..count {
            let mut machine = Machine::new::<P>(number + 1, self.clock.now())?;
            took.push(self.until_there(&mut machine).await?);
            self.machines.push(machine);
        }
        // They run, and are known.
        for _ in 0..3 {
            self.clock.advance(QUIET);
            for machine in self.machines.iter_mut().skip(from) {
                machine.look(&self.cloud).await;
            }
        }
        Ok(took)
    }

    /// Seconds of all requests until the fake has the machine.
    async fn until_there(&mut self, machine: &mut Machine) -> Result<f64> {
        let (uid, mut took) = (machine.uid(), 0.0);
        let kind = P::KINDS.first().context("no kind")?;
        for _ in 0..ROUNDS {
            let began = Instant::now();
            machine.want::<P>(&self.cloud, self.clock.now()).await?;
            took += began.elapsed().as_secs_f64();
            let events = self.fake.events(self.events);
            self.events += events.len();
            let is_it = |event: &Event| {
                event.came && event.kind == *kind && event.labels.get(P::LABEL) == Some(&uid)
            };
            if events.iter().any(is_it) {
                return Ok(took);
            }
            self.clock.advance(ROUND);
        }
        bail!("{}: not made after {ROUNDS} rounds", P::NAME)
    }

    async fn list(&self, report: &mut Value) -> Result<()> {
        let (mut took, before) = (Vec::new(), self.fake.requests());
        for _ in 0..LISTS {
            // What was listed a moment ago may be told as it was then.
            self.clock.advance(QUIET);
            let began = Instant::now();
            let listed = self.cloud.list(&namespace()).await;
            took.push(began.elapsed().as_secs_f64());
            let listed = listed.map_err(|why| anyhow!("{}: {why}", P::NAME))?;
            let (found, count) = (listed.machines.len(), self.machines.len());
            ensure!(
                listed.complete && found == count,
                "{}: {found} of {count}",
                P::NAME
            );
        }
        let each = per(self.fake.requests() - before, LISTS);
        report["list_s"] = spread(&mut took);
        report["list_machines"] = json!(self.machines.len());
        report["list_requests"] = json!(each);
        report["list_requests_per_hour"] = json!(round(each * 3600.0 / QUIET.as_secs_f64()));
        Ok(())
    }

    /// Hours in which nothing happens but looks.
    async fn rest(&mut self, hours: u32) -> Result<Value> {
        let uids: BTreeSet<_> = self.machines.iter().map(Machine::uid).collect();
        let (round_s, before) = (ROUND.as_secs(), self.fake.requests());
        let turns = usize::try_from(QUIET.as_secs() / round_s)?;
        let (mut looks, mut unknown, mut leaks) = (0_usize, 0_usize, 0_usize);
        let (began, cpu) = (self.clock.now(), cpu_seconds());
        for round in 0..u64::from(hours) * 3600 / round_s {
            let turn = usize::try_from(round)? % turns;
            for machine in self.machines.iter_mut().skip(turn).step_by(turns) {
                looks += 1;
                unknown += usize::from(machine.look(&self.cloud).await.is_none());
            }
            if round % (CHECK.as_secs() / round_s) == 0 {
                self.check().await?;
                if let Ok(found) = self.cloud.found().await
                    && let Ok(swept) = self.cloud.sweep(&found, &uids, &[]).await
                {
                    leaks += swept.leaks.len();
                }
            }
            self.clock.advance(ROUND);
        }
        let cpu = cpu_seconds() - cpu;
        let journal = self.fake.journal();
        let entries = journal.entries.get(before..).unwrap_or_default();
        let hour = |entry: &Entry| entry.at.duration_since(began).as_hours();
        let (calls, largest) = calls::<P>(entries, hour);
        let is_refused = |entry: &&Entry| matches!(entry.status, Some(429 | 503));
        Ok(json!({
            "machines": self.machines.len(), "hours": hours,
            "looks": looks, "looks_without_an_answer": unknown, "leaks": leaks,
            "calls_per_hour": calls, "largest_share": largest,
            "refused_by_the_cloud": entries.iter().filter(is_refused).count(),
            // Both ends of each request.
            "cpu_s_per_hour": round(cpu / f64::from(hours.max(1))),
        }))
    }
}

/// Of each kind of request the hour that had most, and the largest share of a limit.
fn calls<P: Played>(entries: &[Entry], hour: impl Fn(&Entry) -> i64) -> (Map<String, Value>, f64) {
    let mut hours: BTreeMap<(&str, u32, i64), u32> = BTreeMap::new();
    for entry in entries {
        let (kind, limit) = P::limit(entry);
        *hours.entry((kind, limit, hour(entry))).or_default() += 1;
    }
    let mut kinds: BTreeMap<(&str, u32), u32> = BTreeMap::new();
    for ((kind, limit, _), count) in hours {
        let most = kinds.entry((kind, limit)).or_default();
        *most = count.max(*most);
    }
    let share = |most: u32, limit: u32| round(f64::from(most) / f64::from(limit.max(1)));
    let shares = kinds.iter().map(|((_, limit), most)| share(*most, *limit));
    let largest = shares.fold(0.0, f64::max);
    let told = kinds.into_iter().map(|((kind, limit), most)| {
        let told = json!({ "calls": most, "limit": limit, "share": share(most, limit) });
        (kind.to_owned(), told)
    });
    (told.collect(), largest)
}

/// This process's.
fn cpu_seconds() -> f64 {
    let own = kit::metrics::usage_in(std::path::Path::new("/proc/self"));
    own.map_or(0.0, |usage| usage.cpu_seconds)
}

#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn per(sum: usize, count: usize) -> f64 {
    round(sum as f64 / count.max(1) as f64)
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

/// By nearest rank.
pub(crate) fn spread(all: &mut [f64]) -> Value {
    all.sort_by(f64::total_cmp);
    let at = |share: usize| {
        let rank = (all.len() * share).div_ceil(100).max(1);
        all.get(rank - 1).copied().map(round)
    };
    json!({ "p50": at(50), "p95": at(95), "p99": at(99), "most": at(100), "count": all.len() })
}
