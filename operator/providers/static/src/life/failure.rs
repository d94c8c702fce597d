//! Why a session with a machine failed, as a reason of a condition.
//!
//! Invariant: whose turn it is follows from the kind of the error, never from its words.

use api::{ConditionType, Reason};

use crate::session::error::Error;

/// Why a look failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failure {
    /// The condition's reason.
    pub reason: Reason,
    /// What is wrong and how to mend it.
    pub message: String,
    /// The condition that says so: `Reachable` of what is wrong with the machine or the way to it, `Verified` where the
    /// machine was asked nothing, because it is not known what to ask of it.
    pub about: ConditionType,
}

impl Failure {
    /// The private key of a hop cannot be had; `message` has nothing of it.
    #[must_use]
    pub fn of_key(message: impl Into<String>) -> Self {
        Self {
            reason: Reason::LoginFailed,
            message: message.into(),
            about: ConditionType::Reachable,
        }
    }
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        let reason = match error {
            Error::WrongHostKey { .. } | Error::NoHostKey { .. } => Reason::HostKeyUnknown,
            Error::Forbidden { .. } => Reason::InvalidSpec,
            Error::LoginRefused { .. } | Error::NotRoot { .. } => Reason::LoginFailed,
            Error::Unreachable { .. }
            | Error::Forward { .. }
            | Error::TimedOut { .. }
            | Error::Protocol { .. }
            | Error::Busy { .. }
            | Error::Cut { .. } => Reason::HostUnreachable,
            Error::Stuck { .. }
            | Error::TooMuchOutput { .. }
            | Error::Failed { .. }
            | Error::Answer { .. }
            | Error::Digest { .. }
            | Error::NoRoom { .. }
            | Error::Source(_) => Reason::HostFailing,
        };
        Self {
            reason,
            message: error.to_string(),
            about: ConditionType::Reachable,
        }
    }
}
