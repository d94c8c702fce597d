//! `cargo xtask drill …`: builds and runs crate `drill` against the running lab.
//!
//! Invariant: it is a crate of its own, so that nobody who builds xtask pays for what it needs.

use anyhow::{Context as _, Result, bail};
use lab::Layout;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `restore [--members 3]`; `--help` shows all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let layout = Layout::discover()?;
    let status = lab::run::cargo()
        .args(["run", "--quiet", "--package", "drill", "--"])
        .args(&args.args)
        .current_dir(layout.checkout())
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("the drill failed ({status})")
    }
    Ok(())
}
