//! What is asked of a backup that runs, and what it answers.
//!
//! Invariant: asked once or many times, what comes of it is the same, so a lost answer is asked for again.

use backup_format::{Digest, FullName};
use tokio::sync::oneshot;

/// A question.
#[derive(Debug)]
pub enum Question {
    /// That there be a full snapshot which is newer than this one, or any. Where there is one nothing is done.
    Full {
        /// The newest that there was; none where there was none.
        after: Option<FullName>,
    },
    /// What is known of a full snapshot, and that it be kept.
    Of {
        /// Which.
        full: FullName,
        /// Until when it is kept at least, in milliseconds since 1970; none: as long as it is anyway.
        keep_until_ms: Option<u64>,
        /// Where the answer goes.
        answer: oneshot::Sender<Answer>,
    },
}

/// What is known of a full snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Answer {
    /// That is not known now, for people.
    Unknown(String),
    /// It is not in the store.
    Gone,
    /// It is there.
    Is(Box<Description>),
}

/// A full snapshot, as its head says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Description {
    /// Key of its head in the store.
    pub key: String,
    /// Bytes of the database.
    pub bytes: u64,
    /// SHA-256 of the database, as etcd gave it.
    pub database: Digest,
    /// Version of etcd.
    pub etcd: String,
    /// Version of the tenant cluster's Kubernetes; may be empty.
    pub kubernetes: String,
    /// Whether it was read again, with all deltas after it, and was whole.
    pub is_verified: bool,
    /// Until when it is kept at least, in milliseconds since 1970.
    pub kept_until_ms: Option<u64>,
}
