//! Why a backup, or what is asked of one, could not be cared for.
//!
//! Invariant: the class alone decides when it is tried again.

use kit::lease::NotLeader;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("backups are another replica's work now")]
    Fence(#[source] NotLeader),
    /// Something could not be read.
    #[error("read {what}")]
    Read {
        /// What.
        what: &'static str,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object could not be written or deleted.
    #[error("write or delete {what}")]
    Write {
        /// Kind and name.
        what: String,
        /// What the API said.
        #[source]
        source: kit_client::write::Error,
    },
    /// The API refused the status of a Snapshot or a Restore, or did not answer.
    #[error("write the status")]
    Status(#[source] kit_client::write::Error),
    /// The data key, or the Job of a test, could not be created, or somebody else created it.
    #[error("create the data key of the backup, or the Job that tests a restore")]
    Create(#[source] Box<kube::Error>),
    /// A key or certificate could not be made.
    #[error("make a key or certificate of the backup: {0}")]
    Make(String),
    /// Its steps have no end, which is a bug.
    #[error("the backup does not come to rest: somebody changes what Covey writes")]
    Endless,
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            // Whoever leads now does it.
            Self::Fence(_) => Class::Transient,
            Self::Read { source, .. } | Self::Create(source) => source.class(),
            Self::Write { source, .. } | Self::Status(source) => source.class(),
            Self::Make(_) | Self::Endless => Class::Bug,
        }
    }
}
