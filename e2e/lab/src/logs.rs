//! Shows the lab's logs.

use std::{fs, process::Command};

use anyhow::{Context, Result, bail};

use crate::{layout::Layout, run};

/// The names that [`show`] takes, sorted.
#[must_use]
pub fn names(layout: &Layout) -> Vec<String> {
    let entries = fs::read_dir(layout.logs()).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".log")?.to_owned()))
        .collect();
    names.sort();
    names
}

/// Prints the log of `program`, or the last lines of every one; `follow` goes on until Ctrl-C.
///
/// # Errors
/// When there is no such log; the message lists those there are.
pub fn show(layout: &Layout, program: Option<&str>, follow: bool) -> Result<()> {
    let names = names(layout);
    if names.is_empty() {
        bail!("there are no logs yet: run `cargo xtask lab up` first")
    }
    let mut tail = Command::new("tail");
    tail.args(if program.is_some() && !follow {
        ["-n", "+1"]
    } else {
        ["-n", "20"]
    });
    if follow {
        tail.arg("-F");
    }
    match program {
        Some(program) if !names.iter().any(|name| name == program) => {
            bail!(
                "there is no log {program:?}; there are: {}",
                names.join(", ")
            )
        }
        Some(program) => drop(tail.arg(layout.logs().join(format!("{program}.log")))),
        None => {
            tail.args(
                names
                    .iter()
                    .map(|name| layout.logs().join(format!("{name}.log"))),
            );
        }
    }
    let status = tail
        .status()
        .context("tail cannot be run: is coreutils installed?")?;
    if !status.success() && !follow {
        bail!("tail: {status}")
    }
    Ok(())
}

/// The last lines of a program's log, for error messages.
pub(crate) fn last_lines(layout: &Layout, program: &str, lines: usize) -> String {
    let file = layout.logs().join(format!("{program}.log"));
    run::output(
        Command::new("tail")
            .args(["-n", &lines.to_string()])
            .arg(file),
    )
    .unwrap_or_default()
}
