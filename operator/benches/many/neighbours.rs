//! Measures how an innocent tenant cluster is made among others that flood, are silent or slow, and what the
//! operator takes for it.
//!
//! Invariant: it never fails on time alone.

mod flood;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use serde_json::{Value, json};
use testkit::AuditEntry;
use testkit::fakes::tenant_api::Mode;
use testkit::figures::{round, spread};

use self::flood::Flood;
use crate::process::Operator;
use crate::site::{Site, USER};

/// Measures an innocent tenant cluster among others that mean harm
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The operator's program
    #[arg(long)]
    program: PathBuf,
    /// Tenants that were up and never answer again
    #[arg(long, default_value_t = 200)]
    dead: usize,
    /// Tenants that were up and answer slowly
    #[arg(long, default_value_t = 200)]
    slow: usize,
    /// Milliseconds that a slow one takes for each answer
    #[arg(long, default_value_t = 4900)]
    answer: u64,
    /// ConfigMaps, Events, Nodes and requests for certificates, of each so many, of the one that floods
    #[arg(long, default_value_t = 1000)]
    flood: usize,
    /// Innocents that are made one after another, without and among the others
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds that one step may take
    #[arg(long, default_value_t = 1800)]
    patience: u64,
    /// Seconds that are waited until all dead ones are told of. A look takes its turn, one each 200 ms, and longer
    /// while the client is behind its rate
    #[arg(long, default_value_t = 400)]
    told: u64,
    /// Where the operator's log is kept. Default: nowhere
    #[arg(long)]
    log: Option<PathBuf>,
}

/// Most memory that is wanted, MiB: of the program, and of each tenant.
const GOAL_MIB: (f64, f64) = (50.0, 0.2);

/// Measures, and gives the figures.
pub(crate) async fn run(args: &Args) -> Result<Value> {
    let patience = Duration::from_secs(args.patience);
    let site = Site::new(&args.program, args.log.as_deref(), patience).await?;
    let operator = site.launch.start("first")?;
    let bench = Bench {
        args,
        site: &site,
        operator,
        restarts: 0,
        tenants: 0,
        peak_mib: 0.0,
    };
    bench.run().await
}

struct Bench<'a> {
    args: &'a Args,
    site: &'a Site,
    operator: Operator,
    /// Ends of the operator that nobody asked for.
    restarts: usize,
    /// Tenants that were made so far.
    tenants: usize,
    /// The most memory of operators that have ended.
    peak_mib: f64,
}

/// Innocents that were made one after another.
struct Made {
    seconds: Vec<f64>,
    /// Requests of the operator meanwhile, Leases aside: those that read, those that write.
    reads: usize,
    writes: usize,
    /// CPU time of the operator for each second.
    cores: f64,
}

impl Bench<'_> {
    async fn run(mut self) -> Result<Value> {
        let Args { dead, slow, .. } = *self.args;
        let (_, start_alone) = self.made("first").await?;
        let begin = self.operator.used()?;
        let alone = self.innocents("alone").await?;

        eprintln!("{dead} tenants that will be silent, {slow} that will be slow, one that floods");
        let names = |what: &str, count: usize| -> Vec<_> {
            (0..count).map(|n| format!("{what}-{n}")).collect()
        };
        let dead_namespaces = self.fill(&names("dead", dead)).await?;
        let slow_namespaces = self.fill(&names("slow", slow)).await?;
        let (flooding, _) = self.made("flood").await?;
        let node = self.site.node_of("flood").await?;
        let beside_healthy = self.innocents("healthy").await?;
        let healthy = self.operator.used()?;
        eprintln!("all are up: {:.1} MiB", healthy.rss_mib);

        let fall = Instant::now();
        self.site.relay.silence(dead_namespaces);
        let answer = Mode::Slow(Duration::from_millis(self.args.answer));
        for namespace in &slow_namespaces {
            self.site.tenants.set(namespace, answer);
        }
        let tenants = &self.site.tenants;
        let _flood = Flood::start(tenants, &flooding, &node, self.args.flood)?;
        let among = self.innocents("among").await?;
        let told = self.told().await?;
        let all_told = self.all_told(fall).await?;
        let worst = self.operator.used()?;
        eprintln!(
            "{told} of them are told not to be ready by then, all dead ones after {all_told:?} s"
        );

        self.restart().await?;
        let (_, start_among) = self.made("after-start").await?;
        let after = self.innocents("after").await?;
        let told_after = self.told().await?;
        let last = self.operator.used()?;
        let max = [worst.peak_mib, last.peak_mib, self.peak_mib];
        let max = max.into_iter().fold(0.0, f64::max);
        let requests = |made: &Made| {
            let count = made.seconds.len().max(1) as f64;
            (
                round(made.reads as f64 / count),
                round(made.writes as f64 / count),
            )
        };
        let (reads, writes) = requests(&alone);
        Ok(json!({
            "tenants": self.tenants, "dead": dead, "slow": slow, "flood": self.args.flood,
            "innocent_create_ratio": ratio(&among.seconds, &alone.seconds),
            "innocent_create_ratio_after_start": ratio(&after.seconds, &alone.seconds),
            "alone_create_s": spread(&alone.seconds),
            "healthy_create_s": spread(&beside_healthy.seconds),
            "innocent_create_s": spread(&among.seconds),
            "innocent_create_after_start_s": spread(&after.seconds),
            "start_to_ready_s": { "alone": round(start_alone), "among": round(start_among) },
            "operator": {
                "rss_mib": {
                    "begin": round(begin.rss_mib), "healthy": round(healthy.rss_mib),
                    "among": round(worst.rss_mib), "after_start": round(last.rss_mib),
                    "max": round(max), "goal": round(goal_mib(self.tenants)),
                },
                "cores": {
                    "alone": round(alone.cores), "healthy": round(beside_healthy.cores), "among": round(among.cores),
                    "after_start": round(after.cores),
                },
            },
            "reads_per_create": reads, "writes_per_create": writes,
            "told_not_ready": {
                "among": told, "after_start": told_after, "of": dead + slow, "dead_s": all_told.map(round),
            },
            "restarts": self.restarts,
        }))
    }

    /// Makes one; gives its tenant namespace and how many seconds that took.
    async fn made(&mut self, name: &str) -> Result<(String, f64)> {
        let begin = Instant::now();
        self.site.create(name).await?;
        self.tenants += 1;
        let namespace = self.ready(name).await?;
        let seconds = begin.elapsed().as_secs_f64();
        eprintln!("{name}: {seconds:.2} s");
        Ok((namespace, seconds))
    }

    /// Waits for one, whatever becomes of the operator meanwhile.
    async fn ready(&mut self, name: &str) -> Result<String> {
        let site = self.site;
        let ready = site.ready(name);
        tokio::pin!(ready);
        loop {
            let process = &mut self.operator.process;
            tokio::select! {
                namespace = &mut ready => {
                    let said = || format!("the operator said:\n{}", process.log_tail(20));
                    return namespace.with_context(said);
                }
                Ok(status) = process.ended(Duration::MAX) => {
                    eprintln!("the operator ended, {status}:\n{}", process.log_tail(20));
                    self.restarts += 1;
                    let next = format!("again-{}", self.restarts);
                    self.operator = self.site.launch.start(&next)?;
                }
            }
        }
    }

    async fn innocents(&mut self, what: &str) -> Result<Made> {
        let window = self.site.api.audit().window()?;
        let (begin, restarts) = (Instant::now(), self.restarts);
        let before = self.operator.used()?;
        let mut seconds = Vec::new();
        for round in 0..self.args.rounds {
            let (_, took) = self.made(&format!("{what}-{round}")).await?;
            seconds.push(took);
        }
        let used = self.operator.used()?.cpu_s - before.cpu_s;
        let mut entries = window.entries()?;
        entries.retain(|entry| entry.user == USER && !entry.is_lease());
        let reads = |entry: &&AuditEntry| ["get", "list", "watch"].contains(&entry.verb.as_str());
        Ok(Made {
            seconds,
            reads: entries.iter().filter(reads).count(),
            writes: entries.iter().filter(|entry| entry.is_write()).count(),
            cores: match self.restarts == restarts {
                true => used / begin.elapsed().as_secs_f64(),
                false => f64::NAN,
            },
        })
    }

    /// Makes many at once; gives their tenant namespaces.
    async fn fill(&mut self, names: &[String]) -> Result<Vec<String>> {
        let begin = Instant::now();
        try_join_all(names.iter().map(|name| self.site.create(name))).await?;
        self.tenants += names.len();
        let mut namespaces = Vec::new();
        for name in names {
            namespaces.push(self.ready(name).await?);
        }
        eprintln!("{} after {:.1?}", names.len(), begin.elapsed());
        Ok(namespaces)
    }

    /// How many of those that are dead or slow are not said to be ready.
    async fn told(&self) -> Result<usize> {
        let all = self.args.dead + self.args.slow;
        Ok(all - self.said_ready(&["dead-", "slow-"]).await?)
    }

    /// How many whose names begin so are said to be ready.
    async fn said_ready(&self, prefixes: &[&str]) -> Result<usize> {
        let ready = self.site.said_ready().await?;
        let counts = |name: &&String| prefixes.iter().any(|prefix| name.starts_with(prefix));
        Ok(ready.iter().filter(counts).count())
    }

    /// How many seconds after `fall` no dead one is said to be ready; none where that takes longer than is waited.
    /// Of slow ones it is seen when they are asked, and at rest nobody asks.
    async fn all_told(&self, fall: Instant) -> Result<Option<f64>> {
        while self.said_ready(&["dead-"]).await? > 0 {
            if fall.elapsed() > Duration::from_secs(self.args.told) {
                return Ok(None);
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(Some(fall.elapsed().as_secs_f64()))
    }

    /// Another operator, which knows none of them.
    async fn restart(&mut self) -> Result<()> {
        let next = self.site.launch.start("second")?;
        let first = std::mem::replace(&mut self.operator, next);
        self.peak_mib = self.peak_mib.max(first.used()?.peak_mib);
        first.stop().await
    }
}

/// Of medians; none where one of them is missing.
fn ratio(among: &[f64], alone: &[f64]) -> Option<f64> {
    let median = |values: &[f64]| spread(values)["p50"].as_f64();
    Some(round(median(among)? / median(alone)?))
}

fn goal_mib(tenants: usize) -> f64 {
    GOAL_MIB.0 + GOAL_MIB.1 * tenants as f64
}
