//! gRPC status of a call that was not answered as hoped: the code, which alone decides what the
//! sidecars do, and a sentence that reaches the tenant's claim as an Event.
//!
//! Invariant: there is no code UNKNOWN, which the sidecars take as final although nobody decided so.

use kit_client::errors::{Class, Classify};
use tonic::Code;

use crate::error::Error;

/// A code and a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct Status {
    /// The code of gRPC, as the specification of CSI wants it.
    pub code: Code,
    /// What was wrong, and how to mend it.
    pub sentence: String,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {
        impl Status {
            $($(#[$doc])*
            pub fn $name(sentence: impl Into<String>) -> Self {
                Self { code: Code::$code, sentence: sentence.into() }
            })*
        }
    };
}

statuses! {
    /// The request itself is wrong; final.
    invalid_argument => InvalidArgument;
    /// There is no such volume or node; final.
    not_found => NotFound;
    /// The name is taken by something else; final.
    already_exists => AlreadyExists;
    /// A size that cannot be had; final.
    out_of_range => OutOfRange;
    /// Quota or room is used up; tried again.
    resource_exhausted => ResourceExhausted;
    /// In this state it cannot be done; tried again, slowly.
    failed_precondition => FailedPrecondition;
    /// Another call, or another writer, has it in hand; tried again.
    aborted => Aborted;
    /// It is under way, and not done yet; tried again.
    deadline_exceeded => DeadlineExceeded;
    /// The management cluster's API does not answer; tried again.
    unavailable => Unavailable;
    /// There is no such call here; final.
    unimplemented => Unimplemented;
    /// Our own mistake.
    internal => Internal;
}

impl From<Status> for tonic::Status {
    fn from(status: Status) -> Self {
        Self::new(status.code, status.sentence)
    }
}

impl From<Error> for Status {
    /// By the class of the error, but for what only a message tells: quotas and limits answer 403
    /// (apiserver `plugin/pkg/admission/resourcequota` and `…/limitranger`).
    fn from(error: Error) -> Self {
        let message = kit_client::errors::chain(&error);
        let code = error.code();
        if code == Some(403) && message.contains("exceeded quota") {
            return Self::resource_exhausted(format!(
                "{message}; delete volumes, ask for less, or have the quota of the tenant \
                 cluster's namespace raised"
            ));
        }
        if code == Some(403) && message.contains("storage usage per PersistentVolumeClaim") {
            return Self::out_of_range(format!("{message}; ask for a size within the limits"));
        }
        match error.class() {
            Class::Transient => Self::unavailable(message),
            Class::Conflict => Self::aborted(format!("{message}; try again")),
            Class::Invalid => Self::invalid_argument(message),
            Class::Bug => Self::internal(message),
        }
    }
}
