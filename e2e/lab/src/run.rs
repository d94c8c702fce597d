//! Runs helper commands and turns a failure into one readable error.
//!
//! Invariant: an error names the command and ends with what it wrote to its standard error.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    process::{Command, Output, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::progress::Step;

/// So many last lines of what a long command said are worth showing.
const TAIL: usize = 30;

/// A command from a program and its arguments.
pub fn command<I, S>(program: impl AsRef<OsStr>, args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// Runs to the end and returns standard output.
///
/// # Errors
/// When it cannot start or does not exit with 0.
pub fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{shown}: cannot start, is it installed?"))?;
    checked(&shown, &output)
}

/// Like [`output`], with `input` on standard input.
///
/// # Errors
/// When it cannot start or does not exit with 0.
pub fn output_with_input(command: &mut Command, input: &str) -> Result<String> {
    let shown = shown(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{shown}: cannot start, is it installed?"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that ends early closes its input; its own message says more than EPIPE.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child
        .wait_with_output()
        .with_context(|| format!("{shown}: lost"))?;
    checked(&shown, &output)
}

/// Whether it exits with 0; its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs to the end something that takes long; a failure shows the last lines of all it wrote.
///
/// # Errors
/// When it cannot start or does not exit with 0.
pub(crate) fn watched(command: &mut Command, step: &mut Step) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let said = tempfile::tempfile()?;
    let mut running = command
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said.try_clone()?)
        .spawn()
        .with_context(|| format!("{program}: cannot start, is it installed?"))?;
    let status = loop {
        if let Some(status) = running.try_wait()? {
            break status;
        }
        step.still();
        thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        bail!("{program} ended with {status}:\n{}", tail(said)?)
    }
    Ok(())
}

fn tail(mut said: File) -> Result<String> {
    said.rewind()?;
    let mut bytes = Vec::new();
    said.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(TAIL)..].join("\n"))
}

fn shown(command: &Command) -> String {
    let mut shown = command.get_program().to_string_lossy().into_owned();
    for arg in command.get_args() {
        let _ = write!(shown, " {}", arg.to_string_lossy());
    }
    shown
}

fn checked(shown: &str, output: &Output) -> Result<String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    if said.is_empty() {
        bail!("{shown}: {}", output.status)
    }
    bail!("{shown}: {}: {said}", output.status)
}
