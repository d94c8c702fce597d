//! One attempt at one test: what nextest starts instead of the test, to know what it costs.
//!
//! It runs the test as its only child, waits for it and appends one line to the file that
//! `COVEY_ATTEMPTS` names. What the test left without waiting for it, and shared servers, are not in its
//! figure. Invariant: it ends as the test ended, by the same code or the same signal, and never before
//! the test: a signal that ends a test is sent to both, and the test may have something to say.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use std::{env, fs};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use super::usage;

/// The file that takes a line of each attempt.
pub(crate) const FILE: &str = "COVEY_ATTEMPTS";

/// What one attempt cost.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Attempt {
    /// As nextest calls them: `operator::t1`, and the name with its modules.
    pub(crate) binary: String,
    pub(crate) name: String,
    /// From 1.
    pub(crate) attempt: u32,
    pub(crate) seconds: f64,
    pub(crate) core_seconds: f64,
    /// Which part of the time somebody on the machine waited for a processor, in per cent.
    pub(crate) pressure: Option<f64>,
}

/// A test's program and its arguments.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<String>,
}

/// Runs the test.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        // Only so that this process outlives it: who runs tests sends it to the test as well.
        signal_hook::flag::register(signal, Arc::clone(&signalled))?;
    }
    let (begun, waited) = (Instant::now(), usage::pressure());
    let program = args.command.first().context("no test to run")?;
    let status = Command::new(program)
        .args(&args.command[1..])
        .status()
        .with_context(|| format!("{program} cannot be run"))?;
    let seconds = begun.elapsed().as_secs_f64();
    let pressure = waited
        .zip(usage::pressure())
        .map(|(before, after)| 100.0 * (after - before) / seconds.max(0.001));
    // Listing tests is no attempt.
    if let (Some(file), Ok(name)) = (env::var_os(FILE), env::var("NEXTEST_TEST_NAME")) {
        let attempt = Attempt {
            binary: env::var("NEXTEST_BINARY_ID").unwrap_or_default(),
            name,
            attempt: env::var("NEXTEST_ATTEMPT")
                .ok()
                .and_then(|number| number.parse().ok())
                .unwrap_or(1),
            seconds,
            core_seconds: usage::children(),
            pressure,
        };
        append(Path::new(&file), &attempt)?;
    }
    if let Some(signal) = status.signal() {
        signal_hook::low_level::emulate_default_handler(signal)?;
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// One write, so that lines of two attempts do not mix.
fn append(file: &Path, attempt: &Attempt) -> Result<()> {
    let mut line = serde_json::to_string(attempt)?;
    line.push('\n');
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)
        .with_context(|| format!("{} cannot be opened", file.display()))?;
    file.write_all(line.as_bytes())
        .context("the attempt cannot be noted")
}

/// The attempts that were noted; a line that is not whole is left out.
pub(crate) fn read(file: &Path) -> Vec<Attempt> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
