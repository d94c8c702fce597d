//! The folder of a restore in place, on the volume of the member that it is for, beside its data directory:
//!
//! | In `covey-restore-<UID of the Restore>` | |
//! |---|---|
//! | `data` | what was built, until the member's gate takes it over |
//! | `built.json` | that it is whole, and whose it is; written last |
//! | `before` | what the member had before, from when it is taken over until people confirm the restore |
//!
//! Invariant: `built.json` is on the disk only after all of `data` is; once there is `before`, nothing is built there any
//! more.

use std::io;

use serde::{Deserialize, Serialize};

use crate::ids::MemberIds;
use crate::volume::{Folder, Found};

/// In front of the Restore's UID.
pub(crate) const PREFIX: &str = "covey-restore-";
/// What was built.
pub(crate) const DATA: &str = "data";
/// What was there before.
pub(crate) const BEFORE: &str = "before";
/// That it is whole.
pub(crate) const BUILT: &str = "built.json";
/// More than it takes.
const MOST_BYTES: usize = 4096;

/// What `built.json` says.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Built {
    /// UID of the claim that it was built on.
    #[serde(rename = "claimUID")]
    pub claim: String,
    /// Name of the member that it is for.
    pub name: String,
    /// The revision of the backup that it stands at.
    pub revision: u64,
    /// Whose data it is now.
    pub data: MemberIds,
}

/// The folder's name; none for what is no UID.
#[must_use]
pub fn folder(restore: &str) -> Option<String> {
    let is_uid = (1..=63).contains(&restore.len())
        && restore
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    is_uid.then(|| format!("{PREFIX}{restore}"))
}

/// What was built for a restore and waits; none where there is nothing whole, an error says what is wrong with it.
pub(crate) fn waiting(root: &Folder, restore: &str) -> io::Result<Option<Result<Built, String>>> {
    let Some(name) = folder(restore) else {
        return Ok(Some(Err("has a name that is none".to_owned())));
    };
    let folder = match root.folder(&name)? {
        Found::Absent => return Ok(None),
        Found::Other => return Ok(Some(Err("is not a folder".to_owned()))),
        Found::There(folder) => folder,
    };
    if !folder.has(DATA)? {
        return Ok(None);
    }
    Ok(match folder.head(BUILT, MOST_BYTES)? {
        Found::Absent => None,
        Found::Other => Some(Err(format!("has a {BUILT} that is not a file"))),
        Found::There(text) => Some(
            serde_json::from_slice(&text)
                .map_err(|error| format!("has a {BUILT} that nobody wrote: {error}")),
        ),
    })
}

/// Puts what was built in the place of the data directory called `data_dir`, which is kept. Broken off anywhere it can be
/// begun again.
pub(crate) fn take_over(root: &Folder, data_dir: &str, restore: &str) -> io::Result<()> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "what was built is not there");
    let name = folder(restore).ok_or_else(missing)?;
    let Found::There(folder) = root.folder(&name)? else {
        return Err(missing());
    };
    if root.has(data_dir)? {
        if folder.has(BEFORE)? {
            let both = "there are two data directories of before";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, both));
        }
        root.rename(data_dir, &folder, BEFORE)?;
    } else if !folder.has(BEFORE)? {
        // By this nothing is built here any more.
        folder.make(BEFORE)?;
    }
    folder.rename(DATA, root, data_dir)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::ids::Id;

    fn volume(old: Option<&str>) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("covey-restore-r1");
        fs::create_dir_all(place.join("data")).unwrap();
        fs::write(place.join("data/is"), "new").unwrap();
        let id = |number| Id::new(number).unwrap();
        let built = Built {
            claim: "c0".to_owned(),
            name: "etcd-0".to_owned(),
            revision: 7,
            data: MemberIds {
                cluster: id(1),
                member: id(2),
            },
        };
        let built = serde_json::to_vec(&built).unwrap();
        fs::write(place.join("built.json"), built).unwrap();
        if let Some(old) = old {
            fs::create_dir(dir.path().join("data")).unwrap();
            fs::write(dir.path().join("data/is"), old).unwrap();
        }
        dir
    }

    fn is(dir: &Path, path: &str) -> Option<String> {
        fs::read_to_string(dir.join(path)).ok()
    }

    #[test]
    fn what_was_built_takes_the_place_of_what_was_there_which_is_kept() {
        for old in [Some("old"), None] {
            let dir = volume(old);
            let root = Folder::open(dir.path()).unwrap();
            assert!(waiting(&root, "r1").unwrap().unwrap().is_ok());
            take_over(&root, "data", "r1").unwrap();
            assert_eq!(is(dir.path(), "data/is").as_deref(), Some("new"));
            assert_eq!(is(dir.path(), "covey-restore-r1/before/is").as_deref(), old);
            assert_eq!(waiting(&root, "r1").unwrap(), None, "it is taken over once");
            assert!(dir.path().join("covey-restore-r1/before").is_dir());
        }
    }

    #[test]
    fn broken_off_between_its_two_steps_it_ends_the_same() {
        let dir = volume(Some("old"));
        let root = Folder::open(dir.path()).unwrap();
        let place = dir.path().join("covey-restore-r1");
        fs::rename(dir.path().join("data"), place.join("before")).unwrap();
        assert!(waiting(&root, "r1").unwrap().unwrap().is_ok());
        take_over(&root, "data", "r1").unwrap();
        assert_eq!(is(dir.path(), "data/is").as_deref(), Some("new"));
        assert_eq!(is(&place, "before/is").as_deref(), Some("old"));
    }

    #[test]
    fn what_is_not_whole_does_not_wait_and_two_of_before_are_touched_by_nobody() {
        let dir = volume(Some("old"));
        let root = Folder::open(dir.path()).unwrap();
        let place = dir.path().join("covey-restore-r1");
        assert_eq!(waiting(&root, "r2").unwrap(), None);
        assert!(waiting(&root, "../r1").unwrap().unwrap().is_err());
        fs::create_dir(place.join("before")).unwrap();
        assert!(take_over(&root, "data", "r1").is_err());
        assert_eq!(is(dir.path(), "data/is").as_deref(), Some("old"));
        fs::write(place.join("built.json"), "{}").unwrap();
        assert!(waiting(&root, "r1").unwrap().unwrap().is_err());
        fs::remove_file(place.join("built.json")).unwrap();
        assert_eq!(waiting(&root, "r1").unwrap(), None);
    }
}
