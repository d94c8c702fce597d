//! Reads what a decision depends on from the volume. Decides nothing.
//!
//! Invariant: it opens folders, one segment's head, the last segment where it is asked for, and the marker; looking changes
//! nothing.

use std::io::{self, BufReader};
use std::path::Path;

use super::marker::{self, Marker};
use super::plan::{Data, Observed};
use crate::built;
use crate::volume::{Folder, Found};
use crate::wal;

/// A volume and the name of the data directory in it.
pub(crate) struct Volume {
    root: Folder,
    directory: String,
}

impl Volume {
    /// Opens the volume that has this data directory, which need not be there yet.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let name = data_dir.file_name().and_then(|name| name.to_str());
        let (Some(root), Some(name)) = (data_dir.parent(), name) else {
            let wrong = format!("{} is no directory of a volume", data_dir.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
        };
        Ok(Self {
            root: Folder::open(root)?,
            directory: name.to_owned(),
        })
    }

    /// What it holds; `restore` is the one whose data is to be taken over, and `is_dated` says whether it is asked for until
    /// when its log goes, for which all of its last segment is read.
    pub(crate) fn observe(&self, restore: Option<&str>, is_dated: bool) -> io::Result<Observed> {
        let built = restore.map(|restore| built::waiting(&self.root, restore));
        let data = self.data()?;
        let last_index = match &data {
            Data::Log { .. } if is_dated => self.last_index()?,
            _ => None,
        };
        Ok(Observed {
            data,
            last_index,
            marker: self.marker()?,
            built: built.transpose()?.flatten(),
        })
    }

    /// The last entry of its log; none where it has no log.
    fn last_index(&self) -> io::Result<Option<u64>> {
        let mut folder = self.root.folder(&self.directory)?;
        for name in ["member", "wal"] {
            let Found::There(found) = folder else {
                return Ok(None);
            };
            folder = found.folder(name)?;
        }
        let Found::There(log) = folder else {
            return Ok(None);
        };
        let mut names = log.names()?;
        names.retain(|name| wal::is_segment(name));
        let Some(last) = names.last() else {
            return Ok(None);
        };
        let Found::There(segment) = log.file(last)? else {
            return Ok(None);
        };
        wal::last::last_index(last, BufReader::new(segment)).map(Some)
    }

    /// Makes what was built for a restore its data directory.
    pub(crate) fn take_over(&self, restore: &str) -> io::Result<()> {
        built::take_over(&self.root, &self.directory, restore)
    }

    /// Puts the marker there.
    pub(crate) fn write(&self, marker: &Marker) -> io::Result<()> {
        let text = serde_json::to_vec(marker)?;
        self.root.write(marker::NAME, &text)
    }

    fn marker(&self) -> io::Result<Result<Option<Marker>, String>> {
        Ok(match self.root.head(marker::NAME, marker::MOST_BYTES)? {
            Found::Absent => Ok(None),
            Found::Other => Err("is not a file".to_owned()),
            Found::There(text) => match serde_json::from_slice(&text) {
                Ok(marker) => Ok(Some(marker)),
                Err(error) => Err(format!("is not what was written: {error}")),
            },
        })
    }

    /// What its data directory holds.
    pub(crate) fn data(&self) -> io::Result<Data> {
        let directory = match self.root.folder(&self.directory)? {
            Found::Absent => return Ok(Data::Nothing),
            Found::Other => return Ok(stray(&[])),
            Found::There(directory) => directory,
        };
        let member = match directory.folder("member")? {
            Found::There(member) => Some(member),
            Found::Other => return Ok(stray(&["member"])),
            Found::Absent => None,
        };
        let mut strays = unexpected(&directory, &["member"])?;
        let Some(member) = member else {
            return Ok(strays.first().map_or(Data::Nothing, |name| stray(&[name])));
        };
        let (log, snapshots) = (member.folder("wal")?, member.folder("snap")?);
        if let Found::There(log) = &log {
            let names = log.names()?;
            if let Some(first) = names.iter().find(|name| wal::is_segment(name)) {
                return segment(log, first, has_database(&snapshots)?);
            }
        }
        // No segment: anything that a first start does not leave behind counts.
        let inside = |folder: &str, names: Vec<String>| -> Vec<String> {
            names
                .iter()
                .map(|name| format!("member/{folder}/{name}"))
                .collect()
        };
        // etcd makes its log in wal.tmp and renames it; it begins with removing both.
        for name in unexpected(&member, &["wal", "wal.tmp", "snap"])? {
            strays.push(format!("member/{name}"));
        }
        match &log {
            Found::There(log) => strays.extend(inside("wal", unexpected(log, &[])?)),
            Found::Other => strays.push("member/wal".to_owned()),
            Found::Absent => {}
        }
        match &snapshots {
            Found::There(snapshots) => {
                // Snapshots that were on their way; etcd removes them.
                let names = unexpected(snapshots, &["db"])?;
                let names = names.into_iter().filter(|name| !name.starts_with("tmp"));
                strays.extend(inside("snap", names.collect()));
            }
            Found::Other => strays.push("member/snap".to_owned()),
            Found::Absent => {}
        }
        if let Some(path) = strays.first() {
            return Ok(stray(&[path]));
        }
        Ok(match has_database(&snapshots)? {
            true => Data::DatabaseAlone,
            false => Data::Nothing,
        })
    }
}

/// Names in a folder that are none of `expected` and not left behind by a file system, a storage system
/// or etcd's trial whether it may write (`.touch`).
fn unexpected(folder: &Folder, expected: &[&str]) -> io::Result<Vec<String>> {
    let mut names = folder.names()?;
    names.retain(|name| {
        !expected.contains(&name.as_str()) && name != "lost+found" && !name.starts_with('.')
    });
    Ok(names)
}

fn has_database(snapshots: &Found<Folder>) -> io::Result<bool> {
    let Found::There(snapshots) = snapshots else {
        return Ok(false);
    };
    Ok(matches!(snapshots.head("db", 0)?, Found::There(_)))
}

fn segment(log: &Folder, name: &str, has_database: bool) -> io::Result<Data> {
    let broken = |problem: String| Data::BrokenLog {
        path: format!("member/wal/{}", shown(name)),
        problem,
    };
    Ok(match log.head(name, wal::HEAD_BYTES)? {
        Found::Absent => broken("it vanished while it was read".to_owned()),
        Found::Other => broken("it is not a file".to_owned()),
        Found::There(head) => match wal::member_ids(&head) {
            Ok(ids) => Data::Log { ids, has_database },
            Err(error) => broken(error.to_string()),
        },
    })
}

fn stray(path: &[&str]) -> Data {
    let path = match path {
        [] => "a data directory that is none".to_owned(),
        path => shown(&path.join("/")),
    };
    Data::Stray { path }
}

/// A name from the volume, for a sentence: somebody else may have chosen it.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(100).collect();
    short.escape_debug().to_string()
}
