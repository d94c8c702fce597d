//! What a run had to build besides our own crates: programs in Go, and crates of others.
//!
//! Invariant: read from what Go and cargo left, so it is true whoever started them; another checkout
//! that builds into the same folders meanwhile is counted too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use lab::cache_dir;

use super::session::target;
use crate::workspace::Metadata;

/// What was there when a run began.
pub(crate) struct Before {
    began: SystemTime,
    programs: BTreeSet<String>,
    members: BTreeSet<String>,
}

/// What a run built.
#[derive(Debug, Eq, PartialEq)]
pub(crate) struct Built {
    pub(crate) go: Vec<String>,
    pub(crate) dependencies: usize,
    pub(crate) from_empty: bool,
}

impl Before {
    /// Looks around; the run began at `began`, before this program was compiled.
    pub(crate) fn now(checkout: &Path, began: SystemTime) -> Result<Self> {
        let members = Metadata::read(checkout)?.packages;
        Ok(Self {
            began,
            programs: programs()?,
            members: members.into_iter().map(|package| package.name).collect(),
        })
    }

    /// What came since.
    pub(crate) fn after(&self, checkout: &Path) -> Result<Built> {
        let go = programs()?.difference(&self.programs).cloned().collect();
        let times = compiled(&target(checkout), &self.members);
        let (old, new): (Vec<_>, Vec<_>) = times.into_iter().partition(|time| *time < self.began);
        Ok(Built {
            go,
            dependencies: new.len(),
            from_empty: self.programs.is_empty() && old.is_empty(),
        })
    }
}

/// Folders of built programs.
fn programs() -> Result<BTreeSet<String>> {
    let entries = fs::read_dir(cache_dir()?.join("programs"));
    let names = entries.into_iter().flatten().flatten();
    Ok(names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect())
}

/// When cargo compiled each crate that is not one of `members`, in every profile that is used here.
fn compiled(target: &Path, members: &BTreeSet<String>) -> Vec<SystemTime> {
    let profiles = ["debug", "release", "x86_64-unknown-linux-gnu/release"];
    let folders = profiles.map(|profile| target.join(profile).join(".fingerprint"));
    let entries = folders.into_iter().flat_map(|folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.collect::<Vec<_>>()
    });
    entries
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let krate = name.rsplit_once('-').map(|(krate, _)| krate);
            krate.is_some_and(|krate| !members.contains(krate))
        })
        // Cargo writes it when it begins to compile.
        .filter_map(|entry| fs::metadata(entry.path().join("invoked.timestamp")).ok())
        .filter_map(|file| file.modified().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_of_others_are_counted_and_ours_are_not() {
        let target = tempfile::tempdir().unwrap();
        for name in ["tokio-0123456789abcdef", "tenant-cp-0123456789abcdef"] {
            let folder = target.path().join("debug/.fingerprint").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("invoked.timestamp"), "").unwrap();
        }
        let members = BTreeSet::from(["tenant-cp".to_owned()]);
        assert_eq!(compiled(target.path(), &members).len(), 1);
        assert!(compiled(&target.path().join("nowhere"), &members).is_empty());
    }
}
