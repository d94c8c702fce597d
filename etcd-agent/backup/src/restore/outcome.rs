//! What a restore says: what can be had, what was made, and why not.
//!
//! Invariant: a hole is named, with the nearest that can be had.

use backup_format::FullName;
use backup_format::chain::Position;

use super::programs::ProgramError;
use crate::etcd;
use crate::reader::ReadError;
use crate::store::StoreError;

/// What can be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// The snapshot that it begins with.
    pub full: FullName,
    /// The last revision of the deltas that are replayed, if any is; the snapshot may be beyond it.
    pub revision: u64,
    /// When that revision's event came, or the snapshot was asked for; milliseconds since 1970.
    pub time_ms: u64,
}

/// A snapshot whose database was fetched.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fetched {
    /// Where its deltas begin.
    pub reach: Position,
    /// A revision that it does not go beyond.
    pub most: u64,
}

/// Why it cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No snapshot is old enough.
    #[error("there is no full snapshot of that time or revision, or before it")]
    TooOld,
    /// Every snapshot that is old enough ends before what was asked for.
    #[error("it cannot be restored: {}; {}", .problems.join("; "), told(.nearest))]
    Holes {
        /// What is wrong, snapshot by snapshot, newest first.
        problems: Vec<String>,
        /// The last revision before what was asked for that can be had, with its time.
        nearest: Option<(u64, u64)>,
    },
}

fn told(nearest: &Option<(u64, u64)>) -> String {
    match nearest {
        Some((revision, time_ms)) => {
            format!(
                "the nearest that can be had is revision {revision}, of {time_ms} ms since 1970"
            )
        }
        None => "nothing before it can be had".to_owned(),
    }
}

/// Why a data directory was not made.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The backup cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A program failed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The etcd that deltas are replayed on failed.
    #[error(transparent)]
    Etcd(#[from] etcd::Error),
    /// A revision came out as another.
    #[error("revision {wanted} came out as {found}: what was replayed is not what was backed up")]
    Revision {
        /// What it should be.
        wanted: u64,
        /// What it is.
        found: u64,
    },
    /// A revision that the snapshot cannot have.
    #[error("the snapshot has revision {found}, and says to have {least} to {most}")]
    Snapshot {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
        /// What it has.
        found: u64,
    },
    /// Nothing is left that a data directory could be made of.
    #[error("neither what survived nor the backup can be used: {0}")]
    Nothing(String),
    /// Files.
    #[error("{path}: {problem}")]
    File {
        /// Which.
        path: String,
        /// Why.
        problem: String,
    },
}

/// A data directory that was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Restored {
    /// The revision of the backup that it stands at.
    pub revision: u64,
    /// Revisions that were replayed.
    pub replayed: u64,
}
