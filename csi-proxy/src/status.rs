//! gRPC status of a call that was not answered as hoped: the code, which alone decides what the
//! sidecars do, and a sentence that reaches the tenant's claim as an Event.
//!
//! Invariant: there is no code UNKNOWN, which the sidecars take as final although nobody decided so.

use tonic::Code;

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
