//! What is released: a commit, and nothing that is not in it.
//!
//! Invariant: a time of a release is its commit's, so that the same commit is the same release tomorrow.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;

/// The commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Its hash, 40 hexadecimal digits.
    pub(crate) hash: String,
    /// When it was made, in seconds since 1970.
    pub(crate) seconds: u64,
    /// The same in RFC 3339.
    pub(crate) created: String,
    /// Whether files differ from it; never so in a release.
    pub(crate) is_dirty: bool,
}

/// Asks git.
///
/// # Errors
/// The folder is no checkout of git.
pub(crate) fn read(root: &Path) -> Result<Commit> {
    let status = git(root, &["status", "--porcelain", "--untracked-files=normal"])?;
    let show = git(root, &["show", "--no-patch", "--format=%H %ct", "HEAD"])?;
    commit(&show, &status)
}

/// Reads what git said.
fn commit(show: &str, status: &str) -> Result<Commit> {
    let (hash, seconds) = show
        .trim()
        .split_once(' ')
        .context("git show said something else")?;
    let seconds: i64 = seconds.parse().context("git show said no time")?;
    let created = Timestamp::from_second(seconds)?.to_string();
    Ok(Commit {
        hash: hash.to_owned(),
        seconds: u64::try_from(seconds).context("the commit is from before 1970")?,
        created,
        is_dirty: !status.trim().is_empty(),
    })
}

/// Refuses what is not committed.
///
/// # Errors
/// Something is not.
pub(crate) fn clean(commit: &Commit) -> Result<()> {
    if commit.is_dirty {
        bail!(
            "files are changed or new that are in no commit (`git status`): nobody could make this release again. \
             Commit them, or put them away with `git stash --include-untracked`"
        );
    }
    Ok(())
}

/// The files below a folder that are in the commit, or would be in the next one, by their paths in it.
///
/// # Errors
/// They cannot be read.
pub(crate) fn files(root: &Path, folder: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let listed = git(
        root,
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
            folder,
        ],
    )?;
    let mut files = BTreeMap::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let name = path.strip_prefix(folder).unwrap_or(path);
        let name = name.trim_start_matches('/').to_owned();
        let place = root.join(path);
        if place.exists() {
            let bytes = std::fs::read(&place).with_context(|| format!("{path} cannot be read"))?;
            files.insert(name, bytes);
        }
    }
    ensure!(!files.is_empty(), "{folder} has no files");
    Ok(files)
}

fn git(root: &Path, args: &[&str]) -> Result<String> {
    lab::run::output(Command::new("git").arg("-C").arg(root).args(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_repository(folder: &Path, args: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        git(folder, &[&identity[..], args].concat()).unwrap();
    }

    #[test]
    fn a_commit_is_read_with_its_time_and_changes_make_it_dirty() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        in_repository(folder, &["init", "--quiet"]);
        std::fs::create_dir(folder.join("chart")).unwrap();
        std::fs::write(folder.join("chart/a"), "1").unwrap();
        in_repository(folder, &["add", "."]);
        in_repository(folder, &["commit", "--quiet", "-m", "first"]);
        let first = read(folder).unwrap();
        clean(&first).unwrap();
        assert_eq!(first.hash.len(), 40);
        let read_again: Timestamp = first.created.parse().unwrap();
        assert_eq!(
            read_again.as_second(),
            i64::try_from(first.seconds).unwrap()
        );
        std::fs::write(folder.join("chart/b"), "2").unwrap();
        let error = clean(&read(folder).unwrap()).unwrap_err().to_string();
        assert!(error.contains("git status"), "{error}");
        let files = files(folder, "chart").unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a", "b"]);
        std::fs::remove_file(folder.join("chart/b")).unwrap();
        std::fs::write(folder.join("chart/a"), "2").unwrap();
        assert!(clean(&read(folder).unwrap()).is_err());
    }

    #[test]
    fn a_time_is_that_of_the_commit_in_rfc_3339() {
        let commit = commit("00ff 1796025162\n", "").unwrap();
        assert_eq!(commit.created, "2026-11-30T07:52:42Z");
        assert!(!commit.is_dirty);
    }
}
