//! What is done about a member that lost its data, one thing at a time.
//!
//! Invariant: a step says all that it needs to be done, and nothing that it depends on.

use api::tenant_cluster::EtcdStatus;

use crate::etcd_replacement::facts::Seat;
use crate::etcd_replacement::wait::Wait;

/// What is to be done now: one thing, after which everything is looked at again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Write it into the status.
    Record(EtcdStatus),
    /// Have another member lead; the one that leads is asked.
    MoveLeader {
        /// Name of the member that leads.
        from: String,
        /// Identifier of the one that is to.
        to: String,
    },
    /// Remove a member from etcd's list.
    Remove {
        /// Its identifier.
        id: String,
    },
    /// Take away the alarm that a member which was removed had raised: it keeps the others from writing.
    Disarm {
        /// Its identifier.
        id: String,
    },
    /// Keep the volume of a member that was removed, and delete its claim and its pod.
    Retire {
        /// Its name.
        member: String,
        /// UID of the claim.
        claim_uid: String,
        /// Name of the PersistentVolume, where it has one.
        volume: Option<String>,
        /// UID of the pod, where there is one.
        pod_uid: Option<String>,
    },
    /// Keep the volume of a member that is not wanted, with its claim.
    Keep {
        /// Its name.
        member: String,
        /// UID of the claim.
        claim_uid: String,
        /// Name of the PersistentVolume, where it has one.
        volume: Option<String>,
    },
    /// Take the StatefulSet away, and leave its pods: it is made anew, and then makes claims of another class.
    Release {
        /// Its UID.
        set_uid: String,
    },
    /// Make an empty claim.
    MakeClaim {
        /// The member's name.
        member: String,
    },
    /// Add an empty member in its place, without a vote.
    AddLearner {
        /// Where its peers reach it.
        peer_url: String,
    },
    /// Have its pod made anew, which is older than what the member is now.
    Restart {
        /// Its name.
        member: String,
        /// UID of the pod.
        pod_uid: String,
    },
    /// Give a learner that has everything a vote.
    Promote {
        /// Its identifier.
        id: String,
    },
}

/// What is to be done, or what is waited for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Next {
    /// The member that it is about; none where all is well, or nothing can be said.
    pub member: Option<String>,
    /// The step.
    pub step: Option<Step>,
    /// What is waited for.
    pub wait: Option<Wait>,
}

impl Next {
    /// A step for one member.
    #[must_use]
    pub fn step(seat: &Seat, step: Step) -> Self {
        Self {
            member: Some(seat.name.clone()),
            step: Some(step),
            wait: None,
        }
    }

    /// Something that one member waits for.
    #[must_use]
    pub fn wait(seat: &Seat, wait: Wait) -> Self {
        Self {
            member: Some(seat.name.clone()),
            step: None,
            wait: Some(wait),
        }
    }
}
