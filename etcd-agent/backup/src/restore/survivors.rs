//! What is left of members when no majority is: data directories of which each may be the one that lagged, and a backup
//! that may lack what came last. Neither is right alone, so each is carried as far as it goes, and the furthest is taken.
//!
//! A directory is served by an etcd of ours, on a copy, with `--force-new-cluster`: it replays the directory's own log as
//! far as the member has noted that it is agreed upon, and needs nobody else for it. One whose process was killed has not
//! noted the last tenth of a second. Then come the deltas that the backup has beyond that.
//! Invariant: what survived is only read. A directory of another etcd cluster, or one that has something else than the
//! backup at a revision that both have, is not used, and said.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use backup_format::chain::Position;
use backup_format::records::{Operation, Recorded, Revision};
use backup_format::{Kind, Name};
use proto::etcd::RangeRequest;

use super::choose::At;
use super::outcome::{Found, NotFound, RestoreError};
use super::programs::{Member, ProgramError, Programs, Running, local};
use super::replay::{self, Replay};
use crate::etcd::{Error, Etcd};
use crate::plan::listing::Listing;
use crate::reader::{ReadError, Reader};
use crate::store::Store;

/// Folders of a data directory that have files which are data.
const DATA: [&str; 2] = ["member/snap", "member/wal"];

/// What came of one directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Candidate {
    /// It goes so far: its own revision, and the one with the deltas beyond it.
    Reaches {
        /// What the directory has.
        own: u64,
        /// What comes out.
        whole: u64,
    },
    /// It is not used, for people.
    Unusable(String),
}

/// What the new data directory was made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Base {
    /// The backup alone.
    Backup,
    /// The directory of this number.
    Survivor(usize),
}

/// A data directory that was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Salvaged {
    /// Of what.
    pub base: Base,
    /// The revision that it stands at.
    pub revision: u64,
    /// What came of each directory, in their order.
    pub candidates: Vec<Candidate>,
    /// How far the backup alone goes; none where it cannot be restored.
    pub backup: Option<u64>,
}

/// What goes furthest; the backup where a directory goes no further, because its sums were compared.
#[must_use]
pub fn choose(candidates: &[Candidate], backup: Option<u64>) -> Option<Base> {
    let reach = |(index, candidate): (usize, &Candidate)| match candidate {
        Candidate::Reaches { whole, .. } => Some((*whole, std::cmp::Reverse(index))),
        Candidate::Unusable(_) => None,
    };
    let furthest = candidates.iter().enumerate().filter_map(reach).max();
    match (furthest, backup) {
        (Some((whole, index)), backup) if backup.is_none_or(|backup| whole > backup) => {
            Some(Base::Survivor(index.0))
        }
        (_, Some(_)) => Some(Base::Backup),
        (_, None) => None,
    }
}

/// Makes a member's data directory of what goes furthest. `scratch` is a folder with room for two databases and what is
/// built; what is made in it is removed.
///
/// # Errors
/// [`RestoreError`]; [`RestoreError::Nothing`] where neither a directory nor the backup can be used.
pub async fn salvage<S: Store>(
    reader: &Reader<'_, S>,
    survivors: &[PathBuf],
    programs: &Programs,
    scratch: &Path,
    member: &Member,
) -> Result<Salvaged, RestoreError> {
    let folder = scratch.join("covey-salvage");
    anew(&folder).map_err(|error| failed(&folder, &error))?;
    let made = make(reader, survivors, programs, &folder, scratch, member).await;
    let _ = fs::remove_dir_all(&folder);
    made
}

async fn make<S: Store>(
    reader: &Reader<'_, S>,
    survivors: &[PathBuf],
    programs: &Programs,
    folder: &Path,
    scratch: &Path,
    member: &Member,
) -> Result<Salvaged, RestoreError> {
    let found = match super::find(reader, At::Latest).await {
        Ok(found) => Some(found),
        Err(NotFound::Store(error)) => return Err(ReadError::from(error).into()),
        Err(error) => {
            tracing::warn!("the backup alone: {error}");
            None
        }
    };
    let backup = found.map(|found: Found| found.revision);
    let mut candidates = Vec::new();
    for survivor in survivors {
        // The furthest until now stays, as a database; of the others nothing does.
        let best = choose(&candidates, backup);
        let database = folder.join("candidate.db");
        let tried = carry(reader, survivor, programs, folder, &database).await;
        candidates.push(match tried {
            Ok((own, whole)) => Candidate::Reaches { own, whole },
            Err(Unused::Because(why)) => Candidate::Unusable(why),
            Err(Unused::Failed(error)) => return Err(*error),
        });
        if choose(&candidates, backup) != best {
            let renamed = fs::rename(&database, folder.join("best.db"));
            renamed.map_err(|error| failed(&database, &error))?;
        }
    }
    let reached = |candidate: &Candidate| match candidate {
        Candidate::Reaches { whole, .. } => *whole,
        Candidate::Unusable(_) => 0,
    };
    let (base, revision) = match (choose(&candidates, backup), found) {
        (Some(Base::Survivor(index)), _) => {
            programs.restore(&folder.join("best.db"), member).await?;
            let revision = candidates.get(index).map_or(0, reached);
            (Base::Survivor(index), revision)
        }
        (Some(Base::Backup), Some(found)) => {
            let built = super::build(reader, found, programs, scratch, member).await?;
            (Base::Backup, built.revision)
        }
        (_, _) => return Err(RestoreError::Nothing(format!("{candidates:?}"))),
    };
    Ok(Salvaged {
        base,
        revision,
        candidates,
        backup,
    })
}

/// Why a directory is not used.
enum Unused {
    Because(String),
    /// It is not the directory's fault.
    Failed(Box<RestoreError>),
}

impl<E: Into<RestoreError>> From<E> for Unused {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error.into()))
    }
}

/// Serves a copy of a directory, replays what the backup has beyond it, and writes a snapshot of that; its own revision and
/// the one that came out.
async fn carry<S: Store>(
    reader: &Reader<'_, S>,
    survivor: &Path,
    programs: &Programs,
    folder: &Path,
    database: &Path,
) -> Result<(u64, u64), Unused> {
    let copy = folder.join("copy");
    anew(&copy).map_err(|error| failed(&copy, &error))?;
    if let Err(error) = copy_data(survivor, &copy) {
        return Err(Unused::Because(format!("it cannot be copied: {error}")));
    }
    let (alone, log) = (local(copy.clone()), folder.join("etcd.log"));
    let running: Running = match programs.serve_alone(&alone, &log).await {
        Ok(running) => running,
        Err(error @ ProgramError::Start { .. }) => return Err(error.into()),
        Err(error) => return Err(Unused::Because(error.to_string())),
    };
    let carried = carried(reader, &running.etcd, database).await;
    running.end().await;
    let _ = fs::remove_dir_all(&copy);
    carried
}

async fn carried<S: Store>(
    reader: &Reader<'_, S>,
    etcd: &Etcd,
    database: &Path,
) -> Result<(u64, u64), Unused> {
    let status = etcd.status().await?;
    let (own, wanted) = (status.revision, reader.scope.cluster);
    if status.cluster != wanted {
        let cluster = status.cluster;
        let why = format!("it is of etcd cluster {cluster:016x}, and {wanted:016x} is wanted");
        return Err(Unused::Because(why));
    }
    let mut replay = Replay::on(etcd, own).await?;
    let listing = reader.list().await.map_err(ReadError::from)?;
    if let Some(mut reach) = reach(reader, &listing, etcd, own).await? {
        while listing
            .newest_delta()
            .is_some_and(|newest| reach.next <= newest)
        {
            // What is damaged ends it there, and is no reason not to use what came before.
            let recorded = match reader.next_delta(&mut reach, &listing).await {
                Ok(recorded) => recorded.unwrap_or_default(),
                Err(ReadError::Store(error)) => return Err(ReadError::Store(error).into()),
                Err(error) => {
                    tracing::warn!("deltas beyond revision {own} end: {error}");
                    break;
                }
            };
            for revision in &recorded.revisions {
                replay.revision(revision, &recorded.leases).await?;
            }
        }
    }
    replay::save(etcd, database).await?;
    Ok((own, replay.revision))
}

/// What an etcd that is at this revision has else than the backup, in words; none where nothing is known to be.
///
/// # Errors
/// [`RestoreError`]; nothing is known then.
pub(crate) async fn contradiction<S: Store>(
    reader: &Reader<'_, S>,
    etcd: &Etcd,
    own: u64,
) -> Result<Option<String>, RestoreError> {
    let listing = reader.list().await.map_err(ReadError::from)?;
    match reach(reader, &listing, etcd, own).await {
        Ok(_) => Ok(None),
        Err(Unused::Because(why)) => Ok(Some(why)),
        Err(Unused::Failed(error)) => Err(*error),
    }
}

/// Where the deltas beyond a revision begin; none where the backup has none that follow it. What the backup has up to that
/// revision is compared with what the directory has there.
async fn reach<S: Store>(
    reader: &Reader<'_, S>,
    listing: &Listing,
    etcd: &Etcd,
    own: u64,
) -> Result<Option<Position>, Unused> {
    for number in listing.deltas.keys().rev().copied() {
        let (header, _, content) = match reader.object(Name::Delta(number)).await {
            Ok(object) => object,
            Err(ReadError::Store(error)) => return Err(ReadError::Store(error).into()),
            Err(error) => {
                tracing::warn!("delta {number}: {error}");
                return Ok(None);
            }
        };
        let Kind::Delta { first, last, .. } = header.kind else {
            return Ok(None);
        };
        if first > own + 1 {
            continue;
        }
        let recorded = backup_format::records::read(&content, first, last);
        let Recorded { revisions, .. } = recorded.unwrap_or_default();
        if let Some(common) = revisions.iter().rfind(|revision| revision.number <= own)
            && !agrees(etcd, common).await?
        {
            let number = common.number;
            let why = format!("at revision {number} it has something else than the backup");
            return Err(Unused::Because(why));
        }
        return Ok(Some(Position {
            next: number,
            revision: own,
            previous: header.previous,
        }));
    }
    Ok(None)
}

/// Whether an etcd has what a revision did, right after it; true where it has compacted that.
async fn agrees(etcd: &Etcd, revision: &Revision) -> Result<bool, Error> {
    for operation in &revision.operations {
        let key = match operation {
            Operation::Put { key, .. } | Operation::Delete { key } => key.clone(),
        };
        let request = RangeRequest {
            key,
            revision: revision.number.cast_signed(),
            ..RangeRequest::default()
        };
        let answer = match etcd.range(request).await {
            Ok(answer) => answer,
            Err(Error::Ask { status, .. }) if status.message().contains("compacted") => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        let has = answer.kvs.first();
        let is_same = match operation {
            Operation::Put { value, lease, .. } => has.is_some_and(|kv| {
                let written = u64::try_from(kv.mod_revision) == Ok(revision.number);
                written && kv.value == *value && kv.lease == *lease
            }),
            Operation::Delete { .. } => has.is_none(),
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn anew(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(folder),
    }
}

fn failed(path: &Path, error: &io::Error) -> RestoreError {
    RestoreError::File {
        path: path.display().to_string(),
        problem: error.to_string(),
    }
}

/// Copies files of etcd's data, and nothing that a link leads to. What they are copied from is only read.
///
/// # Errors
/// That of the first file that cannot be read or written.
pub fn copy_data(from: &Path, to: &Path) -> io::Result<()> {
    for folder in DATA {
        fs::create_dir_all(to.join(folder))?;
        for entry in fs::read_dir(from.join(folder))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(folder).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_furthest_is_taken_and_the_backup_where_nothing_goes_further() {
        let reaches = |own, whole| Candidate::Reaches { own, whole };
        let unusable = || Candidate::Unusable("no".to_owned());
        for (candidates, backup, wanted) in [
            (vec![], Some(7), Some(Base::Backup)),
            (vec![], None, None),
            (vec![unusable()], None, None),
            (vec![unusable()], Some(7), Some(Base::Backup)),
            (vec![reaches(5, 7)], Some(7), Some(Base::Backup)),
            (vec![reaches(8, 8)], Some(7), Some(Base::Survivor(0))),
            (vec![reaches(1, 1)], None, Some(Base::Survivor(0))),
            // What comes out counts, and not what was there; of two alike the first.
            (
                vec![unusable(), reaches(9, 9), reaches(8, 12), reaches(12, 12)],
                Some(7),
                Some(Base::Survivor(2)),
            ),
        ] {
            assert_eq!(choose(&candidates, backup), wanted, "{candidates:?}");
        }
    }
}
