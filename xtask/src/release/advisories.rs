//! Published advisories against what is compiled in, by cargo-deny, which is fetched where it is not there.
//!
//! Invariant: what could not be asked is never taken for an answer.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

const PROGRAM: &str = "cargo-deny";
/// As `cargo xtask deny` asks for it: what deny.toml was written for.
const VERSION: &str = "^0.20";

/// Asks, and says by what.
///
/// # Errors
/// There is an advisory, or it cannot be asked.
pub(crate) fn ask(root: &Path) -> Result<String> {
    let way_out =
        "without asking, `--without-advisories` releases all the same, and release.json says so";
    let program =
        program().with_context(|| format!("advisories cannot be asked for; {way_out}"))?;
    let version = lab::run::output(Command::new(&program).arg("--version"))?;
    let status = Command::new(&program)
        .args(["--all-features", "check", "advisories"])
        .current_dir(root)
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("{PROGRAM} cannot be run"))?;
    if !status.success() {
        bail!(
            "{PROGRAM} found an advisory, or could not fetch them; its message is above. {way_out}"
        );
    }
    Ok(version.trim().to_owned())
}

/// Where it is: in the cache, on the `PATH`, or in the cache once it is built.
fn program() -> Result<PathBuf> {
    let cache = lab::cache_dir()?;
    let ours = cache.join("bin").join(PROGRAM);
    let runs = |program: &Path| lab::run::succeeds(Command::new(program).arg("--version"));
    for program in [&ours, Path::new(PROGRAM)] {
        if runs(program) {
            return Ok(program.to_owned());
        }
    }
    let mut cargo = lab::run::cargo();
    cargo
        .args([
            "install",
            PROGRAM,
            "--locked",
            "--version",
            VERSION,
            "--root",
        ])
        .arg(&cache)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    // Some minutes, so cargo shows what it does.
    let status = cargo.status().context("cargo cannot be run")?;
    if !status.success() || !runs(&ours) {
        bail!(
            "`cargo install {PROGRAM} --version '{VERSION}' --locked` failed; its message is above"
        );
    }
    Ok(ours)
}
