//! From objects to an etcd's data directory, as it was at a time or a revision.
//!
//! [`find()`] says first what can be had, and touches nothing; [`build`] makes it. The store that comes
//! out has revisions far above all that were ever told (`--bump-revision`), and says that everything
//! before was compacted, so that every watch that was open begins anew instead of resuming on revisions
//! which mean something else now.
//! Invariant: a hole is never stepped over, and a revision that comes out with another number than it
//! had ends the restore.

pub mod choose;
pub mod compare;
pub mod outcome;
pub mod programs;
mod replay;
pub mod survivors;

use std::path::Path;

use self::choose::{At, candidates};
use self::outcome::{Fetched, Found, NotFound, RestoreError, Restored};
use self::programs::{Member, Programs};
use crate::etcd::Etcd;
use crate::plan::listing::Listing;
use crate::reader::{ReadError, Reader};
use crate::store::{Cause, Store};

/// Says what can be had, without writing anything: reads the newest snapshot that is old enough, and the
/// deltas after it; if something is wrong with these, the one before.
///
/// # Errors
/// [`NotFound`].
pub async fn find<S: Store>(reader: &Reader<'_, S>, at: At) -> Result<Found, NotFound> {
    let listing = reader.list().await?;
    let candidates = candidates(&listing, at);
    if candidates.is_empty() {
        return Err(NotFound::TooOld);
    }
    let (mut problems, mut nearest) = (Vec::new(), None);
    for full in candidates {
        let mut found = Found {
            full,
            revision: full.revision,
            time_ms: full.taken_ms,
        };
        let followed = follow(reader, &listing, at, &mut found).await;
        match followed {
            Ok(true) => return Ok(found),
            Ok(false) => continue,
            Err(ReadError::Store(error)) if error.cause != Cause::NotFound => {
                return Err(error.into());
            }
            Err(error) => {
                tracing::warn!(full = %full, "{error}");
                problems.push(error.to_string());
                // A snapshot that is itself damaged gives nothing.
                if found.revision > full.revision {
                    nearest = nearest.max(Some((found.revision, found.time_ms)));
                }
            }
        }
    }
    match problems.is_empty() {
        true => Err(NotFound::TooOld),
        false => Err(NotFound::Holes { problems, nearest }),
    }
}

/// Follows one snapshot as far as is asked for; false when it is younger.
async fn follow<S: Store>(
    reader: &Reader<'_, S>,
    listing: &Listing,
    at: At,
    found: &mut Found,
) -> Result<bool, ReadError> {
    let read = reader.full(found.full, |_| Ok(())).await?;
    if !at.has(read.most, read.written_ms) {
        return Ok(false);
    }
    let mut reach = read.reach;
    // How far it is whole, should a delta be missing.
    let last = listing.newest_delta();
    // What comes after the revision that was asked for is no matter.
    let reached = |found: &Found| matches!(at, At::Revision(wanted) if found.revision >= wanted);
    while !reached(found) && last.is_some_and(|last| reach.next <= last) {
        let Some(recorded) = reader.next_delta(&mut reach, listing).await? else {
            continue;
        };
        for revision in &recorded.revisions {
            if !at.has(revision.number, revision.time_ms) {
                return Ok(true);
            }
            (found.revision, found.time_ms) = (revision.number, revision.time_ms);
        }
    }
    match at {
        At::Revision(wanted) if wanted > found.revision.max(read.most) => {
            Err(backup_format::chain::Broken::Hole {
                after: found.revision,
                before: wanted,
            }
            .into())
        }
        At::Revision(_) | At::Time(_) | At::Latest => Ok(true),
    }
}

/// Makes a member's data directory of what was found. `scratch` is a folder with room for the database
/// three times; what is made in it is removed.
///
/// # Errors
/// [`RestoreError`].
pub async fn build<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    programs: &Programs,
    scratch: &Path,
    member: &Member,
) -> Result<Restored, RestoreError> {
    let file = |path: &Path, error: std::io::Error| RestoreError::File {
        path: path.display().to_string(),
        problem: error.to_string(),
    };
    let folder = scratch.join("covey-restore");
    // Of one that died.
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(file(&folder, error));
        }
        _ => {}
    }
    std::fs::create_dir_all(&folder).map_err(|error| file(&folder, error))?;
    let built = replay::build(reader, found, programs, &folder, member).await;
    let _ = std::fs::remove_dir_all(&folder);
    built
}

/// Writes the database of the snapshot that was found to a file, for who has `etcdutl` run elsewhere.
///
/// # Errors
/// [`RestoreError`].
pub async fn fetch<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    database: &Path,
) -> Result<Fetched, RestoreError> {
    replay::fetch(reader, found, database).await
}

/// Replays what comes after the snapshot on an etcd that serves what was fetched and is nobody's, and writes a
/// snapshot of the outcome to a file.
///
/// # Errors
/// [`RestoreError`].
pub async fn replay<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    fetched: Fetched,
    etcd: &Etcd,
    database: &Path,
) -> Result<Restored, RestoreError> {
    replay::replay(reader, found, fetched, etcd, database).await
}

/// Replays all that comes after the snapshot on an etcd that serves what was fetched and is nobody's, what is written
/// meanwhile included.
///
/// # Errors
/// [`RestoreError`].
pub async fn replay_all<S: Store>(
    reader: &Reader<'_, S>,
    found: Found,
    fetched: Fetched,
    etcd: &Etcd,
) -> Result<Restored, RestoreError> {
    replay::replay_all(reader, found, fetched, etcd).await
}
