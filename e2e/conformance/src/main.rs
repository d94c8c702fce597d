//! `cargo xtask conformance`: the [Conformance] tests of Kubernetes, as it publishes them, against a tenant cluster
//! with two nodes at native speed.
//!
//! | Module | What it does |
//! |---|---|
//! | `images` | what the tests' pods run, made of what can be had here |
//! | `site` | the tenant cluster and its nodes |
//! | `ginkgo` | runs the tests, side by side and then one after another, as hydrophone does |
//! | `report` | what passed, what did not, and what cannot run here, pure |
//!
//! Invariant: a test of the published list that did not run is never counted as passed, and nothing of a run is left
//! in the lab.

mod ginkgo;
mod images;
mod report;
mod site;

use std::{fs, io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::Parser;
use lab::{
    Layout,
    programs::{self, KubernetesVersion, Program},
    progress::Progress,
    state::State,
};
use suites::scenario;

use ginkgo::{Ginkgo, Part};
use report::Report;

#[derive(Parser)]
#[command(
    name = "conformance",
    about = "Runs Kubernetes' own conformance tests against a tenant cluster of the lab"
)]
struct Args {
    /// Only tests whose name this expression matches
    #[arg(long)]
    focus: Option<String>,
    /// Version of the tenant cluster and of the tests
    #[arg(long, default_value = "1.35")]
    version: KubernetesVersion,
    /// Where reports and logs go; `.lab/conformance` unless said
    #[arg(long)]
    junit: Option<PathBuf>,
    /// So many tests at once, of those that allow it
    #[arg(long, default_value_t = 4)]
    procs: u8,
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
    let layout = Layout::discover()?;
    let folder = args
        .junit
        .unwrap_or_else(|| layout.root().join("conformance"));
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let folder = folder.canonicalize()?;
    let version = args.version;
    let (bins, listed) = tokio::task::spawn_blocking(move || prepare(&layout, version)).await??;
    let ginkgo = Ginkgo {
        bins: &bins,
        version,
        folder: &folder,
        focus: args.focus.as_deref(),
        nodes: args.nodes,
    };
    let mut parts = vec![Part::SideBySide { procs: args.procs }];
    if !args.no_serial {
        parts.push(Part::OneByOne);
    }
    let mut outcomes = Vec::new();
    scenario::command("conformance", async |s| {
        let mut machines = scenario::lab_hosts::LabHosts::default();
        let site = site::make(s, &mut machines, version, args.nodes).await?;
        for part in &parts {
            outcomes.extend(ginkgo.run(&site, part).await?);
        }
        site.end().await?;
        machines.end()
    })
    .await?;
    let report = Report::of(version.full(), listed, &outcomes);
    let text = serde_json::to_string_pretty(&report)?;
    fs::write(folder.join("report.json"), &text)?;
    let shown = if args.json { text } else { report.to_string() };
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
