//! `cargo xtask test`: every tier in order, cheapest first, and a summary.
//!
//! Invariant: a failed tier ends the run, except that the lab is always taken down.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use lab::{Layout, UpOptions, programs::KubernetesVersion, progress::Progress};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what takes long: tenants of every version the lab can build
    #[arg(long)]
    all: bool,
    /// Leave the lab up afterwards
    #[arg(long)]
    keep_lab: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let progress = Progress::new();
    let result = tiers(&layout, args, &progress);
    progress.show_summary();
    result
}

fn tiers(layout: &Layout, args: &Args, progress: &Progress) -> Result<()> {
    let cargo = |what: &str, cargo_args: &[&str]| {
        let step = progress.step(what);
        step.finish(cargo(layout, cargo_args))
    };
    cargo("formatting", &["fmt", "--all", "--", "--check"])?;
    cargo(
        "lints",
        &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )?;
    cargo("tidy", &["xtask", "tidy"])?;
    cargo("generated files", &["xtask", "crds", "--check"])?;
    // e2e needs the lab; its own unit tests are in its library and binaries.
    cargo(
        "T0: plans and laws",
        &["test", "--workspace", "--exclude", "e2e"],
    )?;
    cargo(
        "T0: the lab's own parts",
        &["test", "-p", "e2e", "--lib", "--bins"],
    )?;

    let step = progress.step("T1: programs");
    let wanted = lab::programs::ensure(&lab::control_plane_programs(), progress);
    step.finish(wanted)?;
    cargo(
        "T1: real kube-apiserver and etcd",
        &["test", "--workspace", "--features", "t1"],
    )?;

    let mut options = UpOptions::default();
    if args.all {
        options.tenant_versions = KubernetesVersion::ALL.to_vec();
    }
    let t2 = lab::up(layout, &options, progress).and_then(|()| {
        let features: &[&str] = if args.all { &["t2", "t2-all"] } else { &["t2"] };
        cargo(
            "T2: the lab",
            &["test", "-p", "e2e", "--features", &features.join(",")],
        )
    });
    if !args.keep_lab {
        // The tests' own failure says more than one of `down`.
        let down = lab::down(layout, false, progress);
        t2?;
        return down;
    }
    t2
}

/// Runs cargo with its output shown; it says itself what failed.
fn cargo(layout: &Layout, args: &[&str]) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .current_dir(layout.checkout())
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("cargo {}: {status}", args.join(" "))
    }
    Ok(())
}
