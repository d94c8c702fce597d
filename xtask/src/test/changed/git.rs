//! What git and the disk say: which files changed, what they were, and what the suites declare.
//!
//! Invariant: git is only asked; nothing of the checkout is touched.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::facts::{Changed, Facts, LastRun};
use super::suites;
use crate::workspace::Metadata;

/// Reads what the selection is made of. Changed is what differs from `since`, or from where this
/// branch left `main`, committed or not; a renamed file is one that went and one that came.
///
/// # Errors
/// When git or cargo does not answer, or there is no `main` to compare with.
pub(crate) fn read(root: &Path, since: Option<&str>, last: LastRun) -> Result<Facts> {
    let base = base(root, since)?;
    let compared = git(root, &["diff", "--name-only", "--no-renames", "-z", &base])?;
    let new = git(root, &["ls-files", "--others", "--exclude-standard", "-z"])?;
    let paths: BTreeSet<&str> = compared
        .split('\0')
        .chain(new.split('\0'))
        .filter(|path| !path.is_empty())
        .collect();
    let mut changed = Vec::new();
    for path in paths {
        let is_code = path.ends_with(".rs");
        let before = git(root, &["show", &format!("{base}:{path}")]);
        changed.push(Changed {
            path: path.to_owned(),
            // What was not there had no tests.
            before: before.ok().filter(|_| is_code).unwrap_or_default(),
            after: fs::read_to_string(root.join(path))
                .ok()
                .filter(|_| is_code)
                .unwrap_or_default(),
        });
    }
    let known = git(
        root,
        &[
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
            suites::FOLDER,
        ],
    )?;
    let mut texts = Vec::new();
    for path in known.split('\0').filter(|path| path.ends_with(".rs")) {
        // A file that was deleted is still in the index.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            texts.push((path.to_owned(), text));
        }
    }
    Ok(Facts {
        base,
        changed,
        metadata: Metadata::read(root)?,
        suites: texts,
        last,
    })
}

/// The commit to compare with.
fn base(root: &Path, since: Option<&str>) -> Result<String> {
    if let Some(since) = since {
        let commit = git(
            root,
            &["rev-parse", "--verify", &format!("{since}^{{commit}}")],
        )?;
        return Ok(commit.trim().to_owned());
    }
    for main in ["main", "origin/main"] {
        if let Ok(base) = git(root, &["merge-base", "HEAD", main]) {
            return Ok(base.trim().to_owned());
        }
    }
    bail!("there is no branch `main` to compare with: say `--since <revision>`")
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(args)
        .current_dir(root)
        .output()
        .context("git cannot be run")?;
    if !output.status.success() {
        bail!(
            "git {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
