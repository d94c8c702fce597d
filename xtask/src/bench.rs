//! `cargo xtask bench …`: builds and runs the benches of crate `e2e` against the running lab, and the
//! one of crate `ccm`, which brings its own API servers.
//!
//! In the development profile: the client's share of the work is small (the report says how
//! small), its cryptography is optimised in every profile, and a release build costs minutes.
//! Invariant: it never fails on time alone, so it is no test.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use lab::{Layout, state::State};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `control-plane`, `workers`, `csi` or `ccm`, and its flags; `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    if args.args.first().is_some_and(|bench| bench == "ccm") {
        return ccm(&layout, &args.args[1..]);
    }
    let help = args.args.iter().any(|arg| arg == "--help" || arg == "-h");
    if !help && !State::read(&layout).is_some_and(|state| state.is_up()) {
        bail!("the lab is not up: `cargo xtask demo` brings it up with the operator in it");
    }
    let bench = ["run", "--quiet", "--package", "e2e", "--bin", "bench", "--"];
    cargo(
        &layout,
        bench
            .into_iter()
            .chain(args.args.iter().map(String::as_str)),
    )
}

/// Needs no lab: two API servers of its own do, and the program as it is shipped, because its own
/// memory and CPU time are what is measured.
fn ccm(layout: &Layout, args: &[String]) -> Result<()> {
    cargo(
        layout,
        ["build", "--quiet", "--release", "--package", "ccm"],
    )?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| layout.checkout().join("target"));
    let program = target.join("release/ccm").display().to_string();
    let bench = [
        "run",
        "--quiet",
        "--package",
        "ccm",
        "--example",
        "bench",
        "--",
        "--program",
    ];
    let args = args.iter().map(String::as_str);
    cargo(
        layout,
        bench.into_iter().chain([program.as_str()]).chain(args),
    )
}

fn cargo<'a>(layout: &Layout, args: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(args)
        .current_dir(layout.checkout())
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("the bench ended with {status}")
    }
    Ok(())
}
