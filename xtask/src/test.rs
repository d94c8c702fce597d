//! `cargo xtask test`: every tier in order, cheapest first, and what it says at its end.
//!
//! T0 are the tests inside the crates, T1 those in `<crate>/tests/` (a real kube-apiserver and etcd
//! where they want one), T2 those of `e2e/suites` (the lab). cargo-nextest runs them; its results are
//! judged here, and the run is kept in the cache folder. Invariant: only this file knows the command
//! line.

pub(crate) mod attempt;
mod beside;
mod built;
mod busy;
mod change;
pub(crate) mod changed;
mod damaged;
mod figures;
mod flaky;
mod invocation;
mod junit;
mod nextest;
pub(crate) mod quarantine;
mod report;
mod runs;
mod servers;
mod session;
mod shake;
pub(crate) mod signals;
mod strict;
pub(crate) mod tiers;
mod usage;
mod within;

use std::io::Write as _;

use anyhow::{Context as _, Result};
use lab::{Layout, progress::Progress};

use crate::lab::Nodes;
use runs::Kind;
use session::Session;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what takes long: losses, orders of deletion, tenants of every version of the lab, all that
    /// happens to workers
    #[arg(long)]
    all: bool,
    /// Leave the lab up afterwards
    #[arg(long)]
    keep_lab: bool,
    /// Only what the changes since `main` reach; for work in progress, see docs/testing.md
    #[arg(long, conflicts_with = "all")]
    changed: bool,
    /// Run nothing; say what would be run, and what not, and why
    #[arg(long, requires = "changed")]
    list: bool,
    /// Compare with this revision instead of where the branch left `main`
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// One tier alone, without the checks before it
    #[arg(long, value_enum, conflicts_with = "changed")]
    only: Option<Tier>,
    /// So many busy loops beside, which the kept run remembers
    #[arg(long, default_value_t = 0, value_name = "N")]
    busy: usize,
    /// Which nodes tenant clusters have where the suite does not prove virtual machines; with `host` these suites
    /// are run first, on hosts that play them, and the others afterwards on KubeVirt. Not of `--changed`
    #[arg(long, value_enum, env = Nodes::VARIABLE, default_value_t = Nodes::Host)]
    nodes: Nodes,
    /// Who runs this ends it after so many minutes: T2 is left out, and named, where it could not end by then
    #[arg(long, value_name = "MINUTES", conflicts_with_all = ["all", "changed"])]
    within: Option<u64>,
    /// Tests of T1 whose names contain this, ten times, under load and with delayed answers
    #[arg(long, value_name = "NAME", conflicts_with_all = ["all", "changed", "only"])]
    shake: Option<String>,
}

/// One tier.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(crate) enum Tier {
    T0,
    T1,
    T2,
}

impl Tier {
    fn word(self) -> &'static str {
        match self {
            Self::T0 => "t0",
            Self::T1 => "t1",
            Self::T2 => "t2",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    if args.list {
        return list(args, &layout);
    }
    let progress = Progress::new();
    let only = match &args.shake {
        Some(_) => Some("shake".to_owned()),
        None => args.only.map(|tier| tier.word().to_owned()),
    };
    let kind = Kind {
        only,
        all: args.all,
        changed: args.changed,
        busy: args.busy,
    };
    signals::hand_on().context("signals cannot be handled")?;
    let mut session = Session::begin(&layout, &progress, kind, args.since.as_deref())?;
    let result = match &args.shake {
        Some(name) => tiers::shake(&mut session, name),
        None => tiers::run(&mut session, args),
    };
    session.finish(result)
}

fn list(args: &Args, layout: &Layout) -> Result<()> {
    let since = args.since.as_deref();
    let facts = changed::read(layout.checkout(), since, session::last_kept()?)?;
    let selection = changed::select(&facts);
    writeln!(std::io::stdout(), "{selection}").context("cannot print")
}

/// `cargo xtask bench checks`: what the kept runs say, as text or with `json` for programs.
///
/// # Errors
/// When there is no cache folder.
pub(crate) fn bench(json: bool) -> Result<()> {
    let kept = runs::read(&runs::folder()?);
    let runs: Vec<_> = kept.into_iter().map(|(_, run)| run).collect();
    let figures = figures::figures(&runs);
    let text = match json {
        true => serde_json::to_string_pretty(&figures)?,
        false => figures.to_string(),
    };
    writeln!(std::io::stdout(), "{text}").context("cannot print")
}
