//! Judges what the management cluster refuses or complains about: requests, storage, and disks of
//! machines. What each means for the sidecars and for what is done next, and what a tenant is told of it.
//!
//! Invariant: this is where all of that is judged, and what a tenant is told is one of the sentences here:
//! they name nothing of the management cluster, whose own words go into the log alone.

use kit_client::errors::{Class, Classify, OVER_QUOTA};

use crate::error::Error;
use crate::status::Status;

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
        of_request(error.code(), error.class(), &message)
    }
}

/// By the class of the error, but for what only a message tells: quotas and limits answer 403
/// (apiserver `plugin/pkg/admission/resourcequota` and `…/limitranger`).
fn of_request(code: Option<u16>, class: Class, message: &str) -> Status {
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

/// What is known of a write that failed, with what the tenant is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The management cluster does not want it, and was not changed.
    Refused(&'static str),
    /// It was not carried out, and no disk is to blame.
    NotDone(&'static str),
    /// It may have arrived, or arrive yet.
    Unanswered(&'static str),
}

/// The sentence where the reason is not one that a tenant can do something about.
const SOMETHING: &str = "the platform refuses this disk on this machine, and is asked again; \
                             whoever runs it finds the reason in the log of this driver";
const FULL: &str = "the platform gives this cluster no more room; detach or delete volumes, or ask \
                    whoever runs it for more";
const MOVES: &str = "the machine is being moved to other hardware; it goes on when that is done";
const CHANGES: &str = "the machine is being changed by somebody else as well";
const SILENT: &str = "the platform does not answer, and is asked again";

/// Why a write to a machine failed, by the HTTP status, if there was an answer, and what the API said.
#[must_use]
pub fn of_disk(code: Option<u16>, says: &str) -> Failure {
    let says = says.to_lowercase();
    match code {
        // The version that was read is not the latest (apiserver `pkg/registry/generic/registry`).
        Some(409) if says.contains("the object has been modified") => Failure::NotDone(CHANGES),
        Some(401 | 404 | 429) => Failure::NotDone(SILENT),
        Some(400..=499) if says.contains(OVER_QUOTA) => Failure::Refused(FULL),
        Some(400..=499) if says.contains("migrat") => Failure::Refused(MOVES),
        Some(400..=407 | 409..=499) => Failure::Refused(SOMETHING),
        _ => Failure::Unanswered(SILENT),
    }
}

#[cfg(test)]
mod tests {
    use tonic::Code;

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
            let status = of_request(code, class, &format!("{internals}: {says}"));
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

    #[test]
    fn disks_are_to_blame_for_a_refusal_alone_and_what_may_arrive_is_known() {
        let cases = [
            (
                Some(409),
                "Operation cannot be fulfilled on virtualmachines \"a\": the object has been modified",
                Failure::NotDone(CHANGES),
            ),
            (
                Some(409),
                "Cannot hotplug: VMI is Migrating",
                Failure::Refused(MOVES),
            ),
            (
                Some(403),
                "pods \"hp-volume-x\" is forbidden: exceeded quota: tenant-q, used: 9",
                Failure::Refused(FULL),
            ),
            (
                Some(422),
                "admission webhook \"vm.kubevirt.io\" denied it: 10.0.0.7",
                Failure::Refused(SOMETHING),
            ),
            (Some(429), "slow down", Failure::NotDone(SILENT)),
            (
                Some(500),
                "failed calling webhook",
                Failure::Unanswered(SILENT),
            ),
            (Some(504), "time-out", Failure::Unanswered(SILENT)),
            (None, "connection reset", Failure::Unanswered(SILENT)),
        ];
        for (code, says, failure) in cases {
            assert_eq!(of_disk(code, says), failure, "{code:?} {says}");
        }
    }
}
