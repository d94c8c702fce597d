//! gRPC status of a call that was not answered as hoped: the code, which alone decides what the
//! sidecars do, and a sentence that reaches the tenant's claim as an Event.
//!
//! Invariant: there is no code UNKNOWN, which the sidecars take as final although nobody decided so.

use kit_client::errors::{Class, Classify, OVER_QUOTA};
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
    /// The API's own sentence names objects, quotas and addresses of the management cluster: it goes
    /// into the log.
    fn from(error: Error) -> Self {
        let message = kit_client::errors::chain(&error);
        tracing::warn!(
            error.class = error.class().label(),
            error = message,
            "the management cluster refuses a request, or does not answer"
        );
        judge(error.code(), error.class(), &message)
    }
}

/// By the class of the error, but for what only a message tells: quotas and limits answer 403
/// (apiserver `plugin/pkg/admission/resourcequota` and `…/limitranger`).
fn judge(code: Option<u16>, class: Class, message: &str) -> Status {
    const LIMIT: &str = "storage usage per PersistentVolumeClaim";
    if code == Some(403) && message.contains(OVER_QUOTA) {
        return Status::resource_exhausted(
            "the quota of this cluster is used up; delete volumes, ask for less, or have the quota \
             raised",
        );
    }
    if code == Some(403) && message.contains(LIMIT) {
        return Status::out_of_range(
            "volumes of this size are outside of the limits of this cluster; ask for another size, \
             or have the limits changed",
        );
    }
    match class {
        Class::Transient => Status::unavailable(
            "the platform does not answer, or cannot do it now; it is tried again",
        ),
        Class::Conflict => {
            Status::aborted("the platform changed it at the same time; it is tried again")
        }
        Class::Invalid => Status::invalid_argument(
            "the platform refuses this; whoever runs it finds the reason in the log of this driver",
        ),
        Class::Bug => Status::internal(
            "the platform does not understand this driver; whoever runs it finds the reason in the \
             log of this driver",
        ),
    }
}

/// What a tenant is told of what storage complains about, which names objects of the management
/// cluster.
#[must_use]
pub fn of_storage(complaint: Option<&str>) -> &'static str {
    const FULL: [&str; 6] = [
        "exhausted",
        "insufficient",
        "no room",
        "no space",
        "not enough",
        "quota",
    ];
    let Some(complaint) = complaint.map(str::to_lowercase) else {
        return "the platform is at it";
    };
    match FULL.iter().any(|word| complaint.contains(word)) {
        true => {
            "the platform has no room for it; ask for less, use another class, or have room made"
        }
        false => {
            "the platform's storage refuses it up to now; whoever runs it finds the reason in the \
             log of this driver"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_management_cluster_reaches_a_tenant() {
        let internals =
            "persistentvolumeclaims \"vol-1\" at https://10.0.0.7:6443 in covey-demo-0a";
        let sentences = [
            (
                Some(403),
                Class::Transient,
                "exceeded quota: tenant-q, used: 9",
                Code::ResourceExhausted,
            ),
            (
                Some(403),
                Class::Transient,
                "maximum storage usage per PersistentVolumeClaim is 5Gi",
                Code::OutOfRange,
            ),
            (
                None,
                Class::Transient,
                "connection refused",
                Code::Unavailable,
            ),
            (Some(409), Class::Conflict, "modified", Code::Aborted),
            (Some(422), Class::Invalid, "denied", Code::InvalidArgument),
            (Some(400), Class::Bug, "bad", Code::Internal),
        ];
        for (code, class, says, answer) in sentences {
            let status = judge(code, class, &format!("{internals}: {says}"));
            assert_eq!(status.code, answer, "{status}");
            for internal in ["10.0.0.7", "covey-demo", "tenant-q", "vol-1"] {
                assert!(!status.sentence.contains(internal), "{status}");
            }
        }
    }

    #[test]
    fn room_that_is_missing_is_told_from_other_complaints_of_storage() {
        let full = "failed to provision volume with StorageClass \"ceph-7\": ResourceExhausted";
        assert!(of_storage(Some(full)).contains("no room"));
        let other = "waiting for a volume to be created by pool-3.internal";
        assert!(of_storage(Some(other)).contains("log of this driver"));
        assert!(of_storage(None).contains("at it"));
    }
}
