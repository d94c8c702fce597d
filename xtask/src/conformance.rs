//! `cargo xtask conformance …`: builds and runs crate `conformance` against the running lab.
//!
//! Invariant: it is a crate of its own, so that nobody who builds xtask pays for what it needs.

use anyhow::{Context as _, Result, bail};
use lab::Layout;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `[--focus RE] [--version 1.35] [--junit DIR]`, and more; `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let status = lab::run::cargo()
        .args(["run", "--quiet", "--package", "conformance", "--"])
        .args(&args.args)
        .current_dir(layout.checkout())
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("not every test passed that can run here ({status})")
    }
    Ok(())
}
