//! Programs that are crates of their own, built and run against the running lab.
//!
//! Invariant: nobody who builds xtask pays for what they need.

use anyhow::{Context as _, Result, bail};
use lab::Layout;

/// Runs it with these arguments; `failure` is said where it does not end well.
pub(crate) fn run(package: &str, args: &[String], failure: &str) -> Result<()> {
    let layout = Layout::discover()?;
    let status = lab::run::cargo()
        .args(["run", "--quiet", "--package", package, "--"])
        .args(args)
        .current_dir(layout.checkout())
        .status()
        .context("cargo cannot be run")?;
    if !status.success() {
        bail!("{failure} ({status})")
    }
    Ok(())
}
