//! Why a session with a machine failed, as a reason of a condition.
//!
//! Invariant: whose turn it is follows from the kind of the error, never from its words.

use api::Reason;

use crate::session::error::Error;

/// Why a look failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The condition's reason.
    pub reason: Reason,
    /// What is wrong and how to mend it.
    pub message: String,
    /// The operator was let in, and what it ran there failed.
    pub is_inside: bool,
}

impl Failure {
    /// The private key of a hop cannot be had; `message` has nothing of it.
    #[must_use]
    pub fn of_key(message: impl Into<String>) -> Self {
        Self {
            reason: Reason::LoginFailed,
            message: message.into(),
            is_inside: false,
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let (reason, is_inside) = match error {
            Error::WrongHostKey { .. } | Error::NoHostKey { .. } => (Reason::HostKeyUnknown, false),
            Error::Forbidden { .. } => (Reason::InvalidSpec, false),
            Error::LoginRefused { .. } | Error::NotRoot { .. } => (Reason::LoginFailed, false),
            Error::Unreachable { .. }
            | Error::Forward { .. }
            | Error::TimedOut { .. }
            | Error::Protocol { .. }
            | Error::Busy { .. }
            | Error::Cut { .. } => (Reason::HostUnreachable, false),
            Error::Stuck { .. }
            | Error::TooMuchOutput { .. }
            | Error::Failed { .. }
            | Error::Answer { .. }
            | Error::Digest { .. }
            | Error::Source(_) => (Reason::HostFailing, true),
        };
        Self {
            reason,
            message: error.to_string(),
            is_inside,
        }
    }
}
