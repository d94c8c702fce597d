//! What this change is, for those who judge by it: which tests are new or changed, which begin first,
//! and whether the lab needs programs as they are shipped.
//!
//! Invariant: it only reads; where nobody can say what changed, whoever asks goes on without, and the
//! lab then runs what is shipped.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::changed::{self, Facts, LastRun, Selection, TestName};

/// A change and what it reaches.
pub(crate) struct Change {
    pub(crate) selection: Selection,
    /// Paths, from the top of the repository.
    paths: Vec<String>,
}

/// Reads it. On `main` itself, where a landing is checked, it is what the last commit did; unless
/// `strictly` what `main` does not have.
///
/// # Errors
/// When git or cargo does not answer, or there is nothing to compare with.
pub(crate) fn read(
    root: &Path,
    since: Option<&str>,
    last: LastRun,
    strictly: bool,
) -> Result<Change> {
    let facts = changed::read(root, since, last.clone())?;
    let facts = match !strictly && since.is_none() && facts.changed.is_empty() {
        true => changed::read(root, Some("HEAD~1"), last)?,
        false => facts,
    };
    Ok(of(&facts))
}

fn of(facts: &Facts) -> Change {
    Change {
        selection: changed::select(facts),
        paths: facts.changed.iter().map(|c| c.path.clone()).collect(),
    }
}

impl Change {
    /// Whether T2 is to run what is shipped: static programs of the release profile. What the profile,
    /// other crates and the images have to do with it is not seen in those of the development profile.
    pub(crate) fn wants_release(&self) -> bool {
        self.paths.iter().any(|path| {
            path == "Cargo.lock"
                || path == "rust-toolchain.toml"
                || path.ends_with("Cargo.toml")
                || path.starts_with(".cargo/")
                || path.starts_with("e2e/lab/src/images")
        })
    }

    /// Those of `tests` that are new or changed.
    pub(crate) fn touched<'a>(
        &self,
        tests: impl IntoIterator<Item = &'a TestName>,
    ) -> BTreeSet<TestName> {
        let touched = |test: &&TestName| self.selection.touches(test);
        tests.into_iter().filter(touched).cloned().collect()
    }
}

/// The commit that is checked out, and whether something is not committed.
///
/// # Errors
/// When git does not answer.
pub(crate) fn commit(root: &Path) -> Result<(String, bool)> {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        lab::run::output(git.args(args).current_dir(root))
    };
    let commit = git(&["rev-parse", "HEAD"]).context("which commit this is")?;
    let status = git(&["status", "--porcelain"])?;
    Ok((commit.trim().to_owned(), !status.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_run_when_what_makes_it_changed() {
        let wants = |paths: &[&str]| {
            let change = Change {
                selection: Selection::default(),
                paths: paths.iter().map(|&path| path.to_owned()).collect(),
            };
            change.wants_release()
        };
        for path in ["Cargo.lock", "kit/Cargo.toml", "e2e/lab/src/images/tar.rs"] {
            assert!(wants(&["docs/a.md", path]), "{path}");
        }
        assert!(!wants(&["docs/a.md", "operator/src/main.rs"]));
        assert!(!wants(&[]));
    }
}
