//! `cargo xtask bench …`: builds and runs the benches of crate `e2e` against the running lab.
//!
//! In the development profile: the client's share of the work is small (the report says how
//! small), its cryptography is optimised in every profile, and a release build costs minutes.
//! Invariant: it never fails on time alone, so it is no test.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use lab::{Layout, state::State};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `control-plane` or `workers`, and its flags; `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let help = args.args.iter().any(|arg| arg == "--help" || arg == "-h");
    if !help && !State::read(&layout).is_some_and(|state| state.is_up()) {
        bail!("the lab is not up: `cargo xtask demo` brings it up with the operator in it");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--package", "e2e", "--bin", "bench", "--"])
        .args(&args.args)
        .current_dir(layout.checkout())
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("the bench ended with {status}")
    }
    Ok(())
}
