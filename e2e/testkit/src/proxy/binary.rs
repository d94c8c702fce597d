//! Finds the program `fault-proxy`, and builds it where it is missing or not of this source.
//!
//! `cargo test -p testkit` and `cargo test --workspace` build it anyway; a test of one other crate
//! alone does not. Invariant: what runs has the same [`FINGERPRINT`] as the handle that drives it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use tokio::sync::OnceCell;

const SOURCES: &[&[u8]] = &[
    include_bytes!("../proxy.rs"),
    include_bytes!("control.rs"),
    include_bytes!("events.rs"),
    include_bytes!("rules.rs"),
    include_bytes!("server.rs"),
    include_bytes!("../faults/answer.rs"),
    include_bytes!("../request.rs"),
    include_bytes!("../tls.rs"),
];

/// A hash (FNV-1a, 64 bits) of the proxy's sources.
pub const FINGERPRINT: u64 = fingerprint();

const fn fingerprint() -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut file = 0;
    while file < SOURCES.len() {
        let mut at = 0;
        while at < SOURCES[file].len() {
            hash = (hash ^ SOURCES[file][at] as u64).wrapping_mul(0x0100_0000_01b3);
            at += 1;
        }
        file += 1;
    }
    hash
}

/// The program's path.
pub(super) async fn ensure() -> Result<PathBuf> {
    static FOUND: OnceCell<PathBuf> = OnceCell::const_new();
    let found = FOUND.get_or_try_init(|| async {
        tokio::task::spawn_blocking(find_or_build)
            .await
            .context("the search was cut short")?
    });
    found.await.cloned()
}

fn find_or_build() -> Result<PathBuf> {
    let test = std::env::current_exe().context("this process has no program")?;
    // Tests are in `<profile>/deps`, programs in `<profile>`.
    let near = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("fault-proxy"));
    match near.into_iter().find(|path| fits(path)) {
        Some(path) => Ok(path),
        None => build(),
    }
}

fn fits(path: &Path) -> bool {
    let output = Command::new(path)
        .arg("--fingerprint")
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).trim() == FINGERPRINT.to_string()
    })
}

fn build() -> Result<PathBuf> {
    let output = lab::run::cargo()
        .args([
            "build",
            "--quiet",
            "--bin",
            "fault-proxy",
            "--message-format",
            "json",
        ])
        .args(["--package", "testkit"])
        .stdin(Stdio::null())
        .output()
        .context("cannot run cargo to build the fault proxy")?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("cannot build the fault proxy:\n{errors}");
    }
    let messages = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut built = messages.lines().filter_map(lab::run::built);
    let path = built.find(|path| path.ends_with("fault-proxy"));
    let path = path.context("cargo did not say where the fault proxy is")?;
    if !fits(&path) {
        bail!("the fault proxy is of another source than this test; run the test again");
    }
    Ok(path)
}
