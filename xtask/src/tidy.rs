//! `cargo xtask tidy`: the rules of docs/architecture.md that a compiler does not know.
//!
//! Invariant: every rule is a pure function from texts to findings, tested on small fixtures; only
//! this file reads the disk and starts cargo.

mod addons;
mod crates;
mod files;
mod finding;
mod findings;
mod layout;
mod modules;
mod reasons;
mod selection;
mod source;
mod text;
mod waiting;
mod words;

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use self::finding::Finding;
use self::text::Text;
use crate::generated;
use crate::test::quarantine;
use crate::workspace::Metadata;

/// Runs the command.
///
/// # Errors
/// When a rule is broken: everything that is wrong, one line each.
pub(crate) fn run() -> Result<()> {
    let root = generated::root()?;
    let mut texts = Vec::new();
    read_folder(&root, &root, &mut texts)?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("could not read Cargo.lock")?;

    let metadata = Metadata::read(&root)?;
    let mut findings = crates::directions(&metadata);
    findings.extend(crates::versions(&lock)?);
    findings.extend(files::check(&texts));
    findings.extend(words::check(&texts));
    findings.extend(layout::check(&texts));
    findings.extend(modules::check(&texts));
    findings.extend(addons::check(&texts));
    findings.extend(reasons::check(&texts));
    findings.extend(findings::check(&texts));
    findings.extend(waiting::check(&texts));
    findings.extend(selection::check(&texts, &metadata));
    findings.extend(quarantined(&texts));
    if findings.is_empty() {
        return Ok(());
    }
    findings.sort();
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    bail!("{} findings:\n{}", lines.len(), lines.join("\n"))
}

/// What is wrong with the list of tests in quarantine.
fn quarantined(texts: &[Text]) -> Vec<Finding> {
    let list = texts.iter().filter(|text| text.path == quarantine::PATH);
    list.flat_map(|text| quarantine::findings(&text.text))
        .map(|message| Finding {
            path: quarantine::PATH.to_owned(),
            line: 0,
            message,
        })
        .collect()
}

/// Reads every text below `folder` but what is built (see `.gitignore`) and git's own.
fn read_folder(root: &Path, folder: &Path, texts: &mut Vec<Text>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("could not list {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("could not list {}", folder.display()))?;
        let (path, name) = (entry.path(), entry.file_name());
        let kind = entry
            .file_type()
            .with_context(|| format!("no such {}", path.display()))?;
        if kind.is_dir() {
            let skipped = [".git", ".lab", "target", "node_modules"]
                .iter()
                .any(|s| name == *s);
            if !skipped {
                read_folder(root, &path, texts)?;
            }
        } else if kind.is_file() {
            // What is not UTF-8 is not a text.
            if let Ok(text) = fs::read_to_string(&path) {
                let path = path.strip_prefix(root).unwrap_or(&path);
                texts.push(Text {
                    path: path.to_string_lossy().into_owned(),
                    text,
                });
            }
        }
    }
    Ok(())
}
