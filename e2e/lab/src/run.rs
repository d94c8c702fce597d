//! Runs helper commands and turns a failure into one readable error.
//!
//! Invariant: an error names the command and ends with what it wrote to its standard error.

use std::{
    env,
    ffi::OsStr,
    fmt::Write as _,
    fs::File,
    io::{Read as _, Seek as _, Write as _},
    path::PathBuf,
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

/// Cargo, told nothing of the package by whose run or test we are here: `ring`'s build script says that
/// it depends on these variables, so a cargo inside of a cargo would compile ring, and all that is
/// above it, anew for every checkout.
#[must_use]
pub fn cargo() -> Command {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    for (name, _) in env::vars_os() {
        if is_of_a_package(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
}

/// Where the program is of which a line of cargo's (`--message-format=json`) says that it was built.
#[must_use]
pub fn built(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    Some(PathBuf::from(message.get("executable")?.as_str()?))
}

/// Whether cargo sets it for what it runs (the Cargo Book, "Environment variables Cargo sets for crates"
/// and "for build scripts").
fn is_of_a_package(variable: &str) -> bool {
    let families = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CFG_"];
    variable == "OUT_DIR" || families.iter().any(|family| variable.starts_with(family))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_inside_of_cargo_is_told_of_no_package() {
        let cargo = cargo();
        let removed: Vec<_> = cargo
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .collect();
        // Cargo runs this test, and says of which package it is.
        for variable in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(
                removed.contains(&(OsStr::new(variable), None)),
                "{variable}"
            );
        }
        for kept in [
            "CARGO",
            "CARGO_HOME",
            "CARGO_TARGET_DIR",
            "CARGO_INCREMENTAL",
        ] {
            assert!(!is_of_a_package(kept), "{kept}");
        }
    }
}
