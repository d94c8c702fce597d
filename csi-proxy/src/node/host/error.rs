//! Errors of the host: why something was not done on a node.
//!
//! Invariant: what is in use, or not empty, is the caller's to mend, and says so.

use std::io;

use crate::status::Status;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error("{what}")]
    Kernel {
        /// What was tried.
        what: String,
        /// Its reason.
        #[source]
        source: io::Error,
    },
    /// A program refused.
    #[error("{program} says: {says}")]
    Program {
        /// Which.
        program: &'static str,
        /// The end of what it said.
        says: String,
    },
    /// Two disks say that they are the same one.
    #[error("disks {0} and {1} have the same serial number; detach one of them")]
    Twice(String, String),
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = kit_client::errors::chain(&error);
        match &error {
            Error::Kernel { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                Self::failed_precondition(format!("{message}; something still uses it"))
            }
            Error::Kernel { source, .. } if source.kind() == io::ErrorKind::DirectoryNotEmpty => {
                Self::failed_precondition(format!("{message}; nothing in it is removed"))
            }
            Error::Twice(..) => Self::failed_precondition(message),
            _ => Self::internal(message),
        }
    }
}

pub(super) type Result<T> = std::result::Result<T, Error>;

pub(super) trait Tried<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<io::Error>> Tried<T> for std::result::Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| Error::Kernel {
            what: what(),
            source: source.into(),
        })
    }
}
