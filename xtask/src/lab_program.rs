//! Programs that are crates of their own, built and run against the running lab.
//!
//! Invariant: nobody who builds xtask pays for what they need; this process ends after them, since they may have to
//! clean up.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use lab::Layout;
use signal_hook::{consts::SIGINT, flag};

use crate::test::signals;

/// Runs it with these arguments; `failure` is said where it does not end well.
pub(crate) fn run(package: &str, args: &[String], failure: &str) -> Result<()> {
    let layout = Layout::discover()?;
    let refused = "signals cannot be handled";
    signals::hand_on().context(refused)?;
    // A Ctrl-C reaches the program by itself; what it does then is waited for.
    flag::register(SIGINT, Arc::default()).context(refused)?;
    let mut cargo = lab::run::cargo();
    cargo
        .args(["run", "--quiet", "--package", package, "--"])
        .args(args)
        .current_dir(layout.checkout());
    let status = signals::status(&mut cargo).context("cargo cannot be run")?;
    if !status.success() {
        bail!("{failure} ({status})")
    }
    Ok(())
}
