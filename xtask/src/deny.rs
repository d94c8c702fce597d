//! `cargo xtask deny`: licences, advisories, banned crates and sources, by cargo-deny.
//!
//! Invariant: a missing cargo-deny is an error that says how to get it, never a silent success.

use anyhow::{Context, Result, bail};

use crate::generated;

/// The version that deny.toml was written for.
const VERSION: &str = "0.20";

/// Arguments.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Leave out the advisories, which need the network
    #[arg(long)]
    offline: bool,
}

/// Runs the command.
///
/// # Errors
/// When cargo-deny is not installed, or finds something.
pub(crate) fn run(args: &Args) -> Result<()> {
    let installed = lab::run::cargo().args(["deny", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        bail!(
            "cargo-deny is not installed; `cargo install cargo-deny --version '^{VERSION}' --locked` \
             builds it (some minutes). Bans and duplicates are also checked by `cargo xtask tidy`"
        );
    }
    let mut command = lab::run::cargo();
    command
        .current_dir(generated::root()?)
        .args(["deny", "--all-features"]);
    if args.offline {
        command.arg("--offline");
    }
    command.args(["check", "bans", "licenses", "sources"]);
    if !args.offline {
        command.arg("advisories");
    }
    let status = command.status().context("could not start cargo deny")?;
    if !status.success() {
        bail!("cargo deny found something; its message is above");
    }
    Ok(())
}
