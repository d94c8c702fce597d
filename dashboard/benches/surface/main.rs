//! Measures what people touch, the command line and the dashboard, against a management API that is real and tenant
//! clusters that nobody reconciles: `cargo xtask bench surface` builds and calls this; it needs no lab.
//!
//! Invariant: goals are only said beside the figures, none of them fails the bench; a figure that could not be had is
//! left out, loudly, and never zero; everything it started ends with it. Figures go to standard output as JSON, what is
//! going on to standard error.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod browser;
mod commands;
mod figure;
mod once;
mod pages;
mod visitor;
mod world;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use serde_json::{Value, json};

use crate::commands::Commands;
use crate::figure::{megabytes, one};
use crate::pages::Pages;
use crate::world::World;

#[derive(Parser)]
#[command(
    name = "bench surface",
    about = "Measures what people touch: the command line and the dashboard"
)]
struct Args {
    /// The command line's program
    #[arg(long, value_name = "FILE")]
    covey: PathBuf,
    /// The dashboard's program
    #[arg(long, value_name = "FILE")]
    dashboard: PathBuf,
    /// Spawns of what takes milliseconds
    #[arg(long, default_value_t = 100)]
    spawns: usize,
    /// Spawns of what asks the API
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Machines of the tenant cluster that is described
    #[arg(long, default_value_t = 50)]
    machines: usize,
    /// Tenant clusters that there are at the end
    #[arg(long, default_value_t = 1000)]
    clusters: usize,
    /// People who are logged in to the dashboard at once
    #[arg(long, default_value_t = 20)]
    sessions: usize,
    /// Seconds of rest in which writes are counted
    #[arg(long, default_value_t = 30)]
    idle: u64,
    /// What the bench of the operator printed, as JSON; it is handed on as it is
    #[arg(long, value_name = "JSON")]
    operator: Option<String>,
    /// JSON in one line instead of several
    #[arg(long)]
    json: bool,
}

/// Tenant clusters with which the dashboard is looked at first: rows of one page.
const FEW: usize = 100;
/// What is wanted of the size of files, in millions of bytes.
const GOAL_COVEY_MB: f64 = 15.0;
const GOAL_DASHBOARD_MB: f64 = 20.0;

fn main() -> Result<()> {
    // A process of its own, so that nothing but its only child counts.
    if let Some(answer) = once::asked() {
        return answer;
    }
    let args = Args::parse();
    kit_client::crypto::install_crypto();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut report = runtime.block_on(run(&args))?;
    report["machine"] = json!({
        "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "load_before": load.split(' ').next(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    });
    match args.json {
        true => println!("{report}"),
        false => println!("{report:#}"),
    }
    Ok(())
}

async fn run(args: &Args) -> Result<Value> {
    let mut report = json!({ "binary_mb": {
        "covey": one(megabytes(&args.covey)?, GOAL_COVEY_MB),
        "dashboard": one(megabytes(&args.dashboard)?, GOAL_DASHBOARD_MB),
    }});
    if let Some(operator) = &args.operator {
        report["operator"] = serde_json::from_str(operator).context("--operator holds no JSON")?;
    }
    let world = World::start().await?;
    eprintln!("a tenant cluster with {} machines", args.machines);
    world.demo(args.machines).await?;

    let commands = Commands::new(&args.covey, &world)?;
    report["help_ms"] = commands.help(args.spawns)?;
    match commands.anchor(args.spawns)? {
        Some(anchor) => report["kubectl_version_ms"] = anchor,
        None => {
            eprintln!(
                "SKIPPED kubectl_version_ms, beside which help_ms stands: no kubectl in PATH"
            );
        }
    }
    report["credential_get_ms"] = json!({
        "cached": commands.credential_cached(args.spawns).await?,
        "with_grant": commands.credential_with_grant(args.rounds).await?,
    });
    let (describe, requests) = commands.describe(args.rounds)?;
    report["describe_ms"] = describe;
    report["describe_requests"] = requests;

    let few = FEW.min(args.clusters);
    eprintln!("{few} tenant clusters");
    // The one with machines is one of them.
    world.clusters(1..few).await?;
    let pages = Pages::start(&args.dashboard, &world).await?;
    report["dashboard_memory_mib"] = pages.memory(args.sessions).await?;
    report["page_weight_kb"] = pages.weight(few).await?;
    let mut page = json!({});
    let is_seen = browser::look(&pages, &world, few, &mut page).await?;

    eprintln!("{} tenant clusters", args.clusters);
    world.clusters(few..args.clusters).await?;
    let (ms, mib) = commands.list_all(args.rounds)?;
    report["get_all_ms"] = ms;
    report["get_all_peak_mib"] = mib;
    if is_seen {
        browser::look(&pages, &world, args.clusters, &mut page).await?;
        report["page"] = page;
    }

    eprintln!("{} s at rest", args.idle);
    let rest = Duration::from_secs(args.idle);
    report["idle_writes"] = pages.rest(&commands, args.sessions, rest).await?;
    report["clusters"] = json!(args.clusters);
    report["machines"] = json!(args.machines);
    report["sessions"] = json!(args.sessions);
    Ok(report)
}
