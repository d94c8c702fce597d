//! One command, run by a process that runs nothing else: so the kernel's figure of the most memory that any child had is
//! that of this command.
//!
//! Invariant: it measures from just before the start; what the command writes is read and counted, never shown.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

/// The first argument of a process that is to do this.
const WORD: &str = "once";
const KIB_IN_MIB: f64 = 1024.0;

/// What a command took.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Took {
    /// Milliseconds until its first byte of standard output.
    pub(crate) first_byte_ms: f64,
    /// Milliseconds until it had ended.
    pub(crate) ms: f64,
    /// Bytes of standard output.
    pub(crate) bytes: usize,
    /// The most resident memory that it had, in MiB; only of [`measured`].
    pub(crate) peak_mib: f64,
}

/// What this process was asked to run in place of the bench, if anything.
pub(crate) fn asked() -> Option<Result<()>> {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_none_or(|word| word != WORD) {
        return None;
    }
    let mut command = Command::new(args.next()?);
    command.args(args);
    Some(answer(command))
}

fn answer(command: Command) -> Result<()> {
    let mut took = timed(command)?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("read what children used")?;
    // In KiB on Linux.
    took.peak_mib = usage.max_rss() as f64 / KIB_IN_MIB;
    println!("{}", serde_json::to_string(&took)?);
    Ok(())
}

/// Runs it in this process.
///
/// # Errors
/// When it cannot be started, or ends with another code than 0; the error has what it said.
pub(crate) fn timed(mut command: Command) -> Result<Took> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.spawn().context("start a command")?;
    let mut out = child.stdout.take().context("invariant: it was piped")?;
    let mut first = [0_u8];
    let read = out.read(&mut first).context("read its output")?;
    let first_byte = begin.elapsed();
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).context("read its output")?;
    let ended = child.wait_with_output().context("wait for its end")?;
    let whole = begin.elapsed();
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.success() && read == 1,
        "{command:?} ended with {} and {} bytes: {said}",
        ended.status,
        read + rest.len()
    );
    Ok(Took {
        first_byte_ms: first_byte.as_secs_f64() * 1e3,
        ms: whole.as_secs_f64() * 1e3,
        bytes: read + rest.len(),
        peak_mib: 0.0,
    })
}

/// Runs it in a process of its own, with the most memory that it had. Variables are those of the command.
///
/// # Errors
/// As [`timed`].
pub(crate) fn measured(command: &Command) -> Result<Took> {
    let bench = std::env::current_exe().context("which program is this?")?;
    let mut outer = Command::new(bench);
    outer
        .arg(WORD)
        .arg(Path::new(command.get_program()))
        .args(command.get_args())
        .env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            outer.env(name, value);
        }
    }
    let output = outer.output().context("start the bench once more")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).context("what was measured cannot be read")
}
