//! Measures what an operator shows of many tenant clusters to who scrapes it, and what it does meanwhile.
//!
//! Invariant: goals are only said beside the figures: none of them fails the bench.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use monitoring::exposition::families;
use serde_json::{Value, json};
use testkit::figures::{round, spread};
use testkit::fixtures::{ask_until, is_settled};
use testkit::waiting::Watched;

use crate::fleet::of_operators;
use crate::process::Operator;
use crate::site::Site;

/// Measures what an operator shows of many tenant clusters
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The operator's program
    #[arg(long)]
    program: PathBuf,
    /// Tenant clusters
    #[arg(long, default_value_t = 100)]
    tenants: usize,
    /// Scrapes
    #[arg(long, default_value_t = 20)]
    scrapes: usize,
    /// Seconds of rest in which writes and processor time are counted
    #[arg(long, default_value_t = 60)]
    idle: u64,
    /// Seconds that one step may take
    #[arg(long, default_value_t = 600)]
    patience: u64,
    /// Where the operator's log is kept. Default: nowhere
    #[arg(long)]
    log: Option<PathBuf>,
}

/// Series of one tenant cluster.
const GOAL_SERIES: usize = monitoring::catalogue::BUDGET;
/// Of a scrape with a thousand tenant clusters, whatever the number here.
const GOAL_SCRAPE_MS: f64 = 200.0;
const GOAL_SCRAPE_MB: f64 = 8.0;
/// Of the probes of a hundred; what is measured is all that the operator does.
const GOAL_CORES: f64 = 0.01;
/// After the last change, until all that came of it is written and each tenant cluster was probed.
const CALM: Duration = Duration::from_secs(30);

/// Measures, and gives the figures.
pub(crate) async fn run(args: &Args) -> Result<Value> {
    let patience = Duration::from_secs(args.patience);
    let site = Site::new(&args.program, args.log.as_deref(), patience).await?;
    let operator = site.launch.start("operator-1")?;
    let clusters = Watched::start(site.clusters());
    eprintln!("{} tenant clusters are made", args.tenants);
    site.create_all(0..args.tenants).await?;
    let all_up = clusters.until("all are up", patience, |seen| {
        seen.all
            .values()
            .filter(|cluster| is_settled(cluster))
            .count()
            >= args.tenants
    });
    all_up.await?;
    tokio::time::sleep(CALM).await;

    ask_until("each is shown", patience, || async {
        let shown = series(&operator.metrics()?)?.len();
        Ok(match shown >= args.tenants {
            true => Ok(()),
            false => Err(format!("{shown} are shown")),
        })
    })
    .await?;
    let (mut took, mut bytes) = (Vec::new(), 0);
    for _ in 0..args.scrapes {
        let begin = Instant::now();
        bytes = operator.metrics()?.len();
        took.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let series = series(&operator.metrics()?)?;
    let most = series.values().copied().max().unwrap_or_default();

    eprintln!("{} s at rest", args.idle);
    let (cores, writes) = rest(&site, &operator, Duration::from_secs(args.idle)).await?;
    let mut scrape = spread(&took);
    scrape["goal_p95"] = json!(GOAL_SCRAPE_MS);
    Ok(json!({
        "tenants": args.tenants,
        "series_per_tenant": { "is": most, "goal": GOAL_SERIES },
        "scrape_ms": scrape,
        "scrape_mb": { "is": round(bytes as f64 / 1e6), "goal": GOAL_SCRAPE_MB },
        "idle_cores": { "is": round(cores), "goal": GOAL_CORES },
        "idle_writes": { "is": writes, "goal": 0 },
    }))
}

/// Cores that it took, and what it wrote, its Lease aside.
async fn rest(site: &Site, operator: &Operator, rest: Duration) -> Result<(f64, usize)> {
    ensure!(!rest.is_zero(), "nothing can be counted in no time");
    let (window, before) = (site.api.audit().window()?, operator.used()?);
    tokio::time::sleep(rest).await;
    let (entries, after) = (of_operators(window.entries()?), operator.used()?);
    let writes: Vec<_> = entries.iter().filter(|entry| entry.is_write()).collect();
    for write in &writes {
        eprintln!("written at rest: {} {}", write.verb, write.uri);
    }
    Ok((
        (after.cpu_s - before.cpu_s) / rest.as_secs_f64(),
        writes.len(),
    ))
}

/// How many series each tenant cluster has.
fn series(text: &str) -> Result<BTreeMap<String, usize>> {
    let mut all = BTreeMap::new();
    for family in families(text).map_err(|line| anyhow!(line))?.into_values() {
        for (tenant, series) in family.per_tenant {
            *all.entry(tenant).or_default() += series;
        }
    }
    Ok(all)
}
