//! Why a reconcile of a node or a Service failed.
//!
//! Invariant: each error has a class, which alone decides when it is tried again.

use kit::lease::NotLeader;
use kit_client::errors::{Class, Classify};

/// Why it failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// We do not lead.
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
    /// An API refused, or was not reached.
    #[error("{verb} {what}")]
    Request {
        /// What was tried.
        verb: &'static str,
        /// Kind and name.
        what: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// An object was not written, or not deleted.
    #[error("{doing}")]
    Write {
        /// What was tried, and where.
        doing: &'static str,
        /// What the API said.
        #[source]
        source: kit_client::write::Error,
    },
    /// An answer that is not what was asked for.
    #[error("understand the answer about {what}")]
    Answer {
        /// The object's name.
        what: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// A plan did not come to an end.
    #[error("the plan of a {0} does not come to an end")]
    Endless(&'static str),
}

impl Error {
    /// An API refused `verb` for the object of this kind and name, or was not reached.
    pub(crate) fn request(verb: &'static str, kind: &str, name: &str, source: kube::Error) -> Self {
        Self::Request {
            verb,
            what: format!("{kind} {name}"),
            source: Box::new(source),
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::NotLeader(error) => error.class(),
            Self::Request { source, .. } => source.class(),
            Self::Write { source, .. } => source.class(),
            Self::Answer { .. } | Self::Endless(_) => Class::Bug,
        }
    }
}
