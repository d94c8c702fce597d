//! Why a request to the management cluster's API failed.

use kit_client::errors::{Class, Classify};

/// What was tried, and what the API said.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {what}")]
pub struct Error {
    verb: &'static str,
    what: String,
    #[source]
    source: Box<kube::Error>,
}

impl Error {
    /// The API refused `verb` for the object of this kind and name, or was not reached.
    pub(crate) fn new(verb: &'static str, kind: &str, name: &str, source: kube::Error) -> Self {
        Self {
            verb,
            what: format!("{kind} {name}"),
            source: Box::new(source),
        }
    }

    /// The HTTP status, if there was an answer.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match &*self.source {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        self.source.class()
    }
}
