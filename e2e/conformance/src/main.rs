//! `cargo xtask conformance`: the [Conformance] tests of Kubernetes, as it publishes them, against a tenant cluster
//! with two nodes at native speed; and its tests of load balancers and of storage, on virtual machines.
//!
//! | Module | What it does |
//! |---|---|
//! | `suite` | which tests belong together, what they need, and which are left out, pure |
//! | `driver` | what tests of storage are told of our driver, pure |
//! | `shard` | a part of the published list, pure |
//! | `images` | what the tests' pods run, made of what can be had here |
//! | `site` | the tenant cluster and its nodes |
//! | `ginkgo` | runs the tests, side by side and then one after another, as hydrophone does |
//! | `interrupt` | signals to this process |
//! | `report` | what passed, what did not, and what cannot run here, pure |
//!
//! Invariant: a test of the published list that did not run is never counted as passed, and nothing of a run is left
//! in the lab.

mod driver;
mod ginkgo;
mod images;
mod interrupt;
mod report;
mod shard;
mod site;
mod suite;

use std::{fs, io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use lab::{
    Layout,
    programs::{self, KubernetesVersion, Program},
    progress::Progress,
    state::State,
};
use suites::scenario;

use ginkgo::{Ginkgo, Part};
use interrupt::Interrupt;
use report::Report;
use shard::Shard;
use suite::Suite;

#[derive(Parser)]
#[command(
    name = "conformance",
    about = "Runs Kubernetes' own conformance tests against a tenant cluster of the lab"
)]
struct Args {
    /// Which of Kubernetes' own tests
    #[arg(long, value_enum, default_value_t)]
    suite: Suite,
    /// Only tests whose name this expression matches
    #[arg(long)]
    focus: Option<String>,
    /// Version of the tenant cluster and of the tests
    #[arg(long, default_value = "1.35")]
    version: KubernetesVersion,
    /// Where reports and logs go; `.lab/conformance` unless said
    #[arg(long)]
    junit: Option<PathBuf>,
    /// A part of the published list, as 1/4; its report is for `--merge`
    #[arg(long, value_name = "I/N", conflicts_with = "focus")]
    shard: Option<Shard>,
    /// Runs nothing: makes one report of those that shards have written
    #[arg(long, value_name = "REPORT", num_args = 1.., conflicts_with_all = ["focus", "shard", "suite"])]
    merge: Vec<PathBuf>,
    /// So many tests at once, of those that allow it; 4 on hosts and 2 on virtual machines unless said
    #[arg(long)]
    procs: Option<u8>,
    /// Nodes of the tenant cluster, at least two: some tests want another node than the first
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(2..=8))]
    nodes: u8,
    /// Only tests that may run beside others
    #[arg(long)]
    no_serial: bool,
    /// JSON instead of a list
    #[arg(long)]
    json: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<ExitCode> {
    if !args.merge.is_empty() {
        return show(&merged(&args.merge)?, args.json);
    }
    let suite = args.suite;
    ensure!(
        args.shard.is_none() || suite == Suite::Conformance,
        "--shard is for the published list, whose names are known before it is run"
    );
    let interrupt = Interrupt::listen()?;
    let layout = Layout::discover()?;
    let folder = args
        .junit
        .unwrap_or_else(|| layout.root().join("conformance"));
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let folder = folder.canonicalize()?;
    let version = args.version;
    let (bins, listed) = tokio::task::spawn_blocking(move || prepare(&layout, version)).await??;
    let focus = match args.shard {
        Some(shard) => Some(shard.focus(&listed)?),
        None => suite.focus(args.focus.as_deref()),
    };
    let driver = match suite {
        Suite::Storage => Some(folder.join("driver.json")),
        Suite::Conformance | Suite::LoadBalancers => None,
    };
    if let Some(driver) = &driver {
        fs::write(driver, format!("{:#}\n", driver::definition()))?;
    }
    let ginkgo = Ginkgo {
        bins: &bins,
        version,
        suite,
        folder: &folder,
        focus: focus.as_deref(),
        driver: driver.as_deref(),
        nodes: args.nodes,
    };
    let procs = args.procs.unwrap_or(suite.procs());
    let mut parts = vec![Part::SideBySide { procs }];
    if !args.no_serial {
        parts.push(Part::OneByOne);
    }
    let wanted = site::Wanted {
        suite,
        version,
        nodes: args.nodes,
    };
    let mut outcomes = Vec::new();
    scenario::command("conformance", async |s| {
        let mut machines = scenario::lab_hosts::LabHosts::default();
        let site = site::make(s, &mut machines, &interrupt, &wanted).await?;
        for part in &parts {
            if !interrupt.is_there() {
                outcomes.extend(ginkgo.run(&site, part, &interrupt).await?);
            }
        }
        site.end().await?;
        machines.end()
    })
    .await?;
    let interrupted = interrupt.is_there();
    let report = Report::of(version.full(), suite, listed, &outcomes, interrupted);
    let text = serde_json::to_string_pretty(&report)?;
    fs::write(folder.join("report.json"), &text)?;
    show(&report, args.json)
}

/// One report of several.
fn merged(files: &[PathBuf]) -> Result<Report> {
    let read = |file: &PathBuf| -> Result<Report> {
        let text = fs::read_to_string(file);
        let text = text.with_context(|| format!("{} cannot be read", file.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("{} is no report of this command", file.display()))
    };
    let reports: Result<Vec<_>> = files.iter().map(read).collect();
    Report::merge(reports?)
}

fn show(report: &Report, json: bool) -> Result<ExitCode> {
    let shown = match json {
        true => serde_json::to_string_pretty(report)?,
        false => report.to_string(),
    };
    writeln!(std::io::stdout(), "{shown}")?;
    Ok(match report.is_as_explained() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Builds the tests and pushes what their pods run; answers with the names of the published list.
fn prepare(layout: &Layout, version: KubernetesVersion) -> Result<(programs::Bins, Vec<String>)> {
    let progress = Progress::new();
    let state = State::read(layout).filter(State::is_up);
    let state =
        state.context("the lab is not up: `cargo xtask lab up && cargo xtask lab install`")?;
    let e2e = Program::e2e(version)
        .with_context(|| format!("the lab has no tests of Kubernetes {version}"))?;
    let bins = programs::ensure(
        &[
            e2e,
            Program::ETCD,
            Program::PAUSE,
            Program::REGISTRY,
            Program::kubernetes(version),
        ],
        &progress,
    )?;
    let named = ginkgo::named_images(&bins)?;
    let images = images::all(&named, &bins, &progress)?;
    lab::images::ensure_pushed(&images, &state.slot.registry(), &bins, &progress)?;
    let list = fs::read_to_string(bins.path("conformance.yaml")?)?;
    Ok((bins, report::listed(&list)?))
}
