//! Judges why a write to a machine failed: whether it can still arrive, whether its disks are to blame,
//! and what the tenant is told.
//!
//! Invariant: what a tenant is told names nothing of the management cluster: the API's own sentence
//! goes into the log alone.

use kit_client::errors::OVER_QUOTA;

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
pub const SOMETHING: &str = "the platform refuses this disk on this machine, and is asked again; \
                             whoever runs it finds the reason in the log of this driver";
const FULL: &str = "the platform gives this cluster no more room; detach or delete volumes, or ask \
                    whoever runs it for more";
const MOVES: &str = "the machine is being moved to other hardware; it goes on when that is done";
const CHANGES: &str = "the machine is being changed by somebody else as well";
const SILENT: &str = "the platform does not answer, and is asked again";

/// By the HTTP status, if there was an answer, and what the API said.
#[must_use]
pub fn judge(code: Option<u16>, says: &str) -> Failure {
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
    use super::*;

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
            assert_eq!(judge(code, says), failure, "{code:?} {says}");
        }
    }
}
