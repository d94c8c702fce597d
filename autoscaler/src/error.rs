//! Why a NodePool was not changed: refusals, and failures of requests.
//!
//! Invariant: a refusal is decided before anything is sent, and says what would mend it.

use kit_client::errors::{Class, Classify};

/// Why a request of the client is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// It leads out of the bounds.
    #[error("{0}")]
    Bounds(String),
    /// The management cluster has no room for it now.
    #[error("{0}")]
    Room(String),
}

impl Refusal {
    /// Whether it would be refused again while the pool's spec is as it is; room comes and goes, and
    /// has a condition of its own.
    #[must_use]
    pub fn lasts(&self) -> bool {
        !matches!(self, Self::Room(_))
    }
}

/// Why a pool was not changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such group.
    #[error("there is no NodePool {0} with spec.autoscaling")]
    Unknown(String),
    /// It shall not be.
    #[error(transparent)]
    Refused(Refusal),
    /// Others wrote it each time.
    #[error("NodePool {0} was changed by others each time; try again")]
    Contended(String),
    /// The API refused, or was not reached.
    #[error("{verb} NodePool {pool}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// Of which one.
        pool: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Unknown(_) | Self::Refused(_) => Class::Invalid,
            Self::Contended(_) => Class::Conflict,
            Self::Request { source, .. } => source.class(),
        }
    }
}
