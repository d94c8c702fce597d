//! Why an AccessGrant could not be cared for.
//!
//! Invariant: the class alone decides when it is tried again.

use kit::lease::NotLeader;
use kit::panics::Panicked;
use kit_client::errors::{Class, Classify};

use crate::tenant_session::budget::Exceeded;
use crate::tenant_session::session;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another replica leads.
    #[error("this AccessGrant is another replica's work now")]
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
    /// The finalizers of the grant could not be written.
    #[error("write the finalizers of the AccessGrant")]
    Own(#[source] Box<kube::Error>),
    /// The status could not be written, or something not be deleted.
    #[error("write or delete")]
    Write(#[source] kit_client::write::Error),
    /// A certificate could not be made.
    #[error("sign a certificate")]
    Make(#[source] pki::Error),
    /// There is no client for the tenant cluster's API.
    #[error("reach the tenant cluster")]
    Session(#[source] session::Error),
    /// The Secret could not be written.
    #[error("write the Secret of the AccessGrant")]
    Secret(#[source] Box<kube::Error>),
    /// The tenant cluster's API refused, or was not reached.
    #[error("bind the grant's group inside the tenant cluster")]
    Inside(#[source] Box<kube::Error>),
    /// There was no token, or what it was to be sealed for is no key.
    #[error("seal a token for whoever asked")]
    Unsealable,
    /// It took too long.
    #[error(transparent)]
    Exceeded(Exceeded),
    /// A plan wants what was not looked at, which is a bug.
    #[error("the tenant cluster was not asked")]
    Unreached,
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Panicked(panicked) => panicked.class(),
            // Whoever leads now does it; and a tenant cluster is asked again.
            Self::Fence(_) | Self::Exceeded(_) => Class::Transient,
            Self::Read { source, .. }
            | Self::Own(source)
            | Self::Secret(source)
            | Self::Inside(source) => source.class(),
            Self::Write(source) => source.class(),
            Self::Session(source) => source.class(),
            Self::Make(_) | Self::Unreached | Self::Unsealable => Class::Bug,
        }
    }
}
