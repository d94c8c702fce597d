//! Reasons why etcd is not started: a word and an exit code for the operator, a sentence for people.
//!
//! Invariant: codes and words never change their meaning; docs/etcd.md lists them.

use std::fmt;

use crate::ids::Id;

/// A reason, with what its sentence needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// There should be data, and there is none.
    VolumeLost {
        /// The member.
        member: String,
        /// How that is known.
        loss: Loss,
    },
    /// Data of another cluster.
    ForeignData {
        /// The cluster whose data it is.
        found: Id,
        /// The cluster whose data it should be; none for one that never ran.
        expected: Option<Id>,
    },
    /// Data of another member.
    OtherMember {
        /// The member that was to start.
        member: String,
        /// Whose data it is: a name, or an identifier.
        found: String,
    },
    /// A volume that was given to another claim.
    OtherClaim {
        /// The member that was to start.
        member: String,
        /// UID of the claim that the volume was first given to.
        found: String,
        /// UID of the member's claim.
        expected: String,
    },
    /// Data that etcd cannot go on with, or ought not to.
    Damaged {
        /// What is wrong, as a sentence without its full stop.
        problem: String,
    },
    /// Its own data, older than what it had: the volume was set back, and acknowledged writes are not on it.
    OutdatedData {
        /// The member.
        member: String,
        /// Index of the last entry of the log on the volume.
        found: u64,
        /// Index of an entry that the member had.
        expected: u64,
    },
    /// The operator's file says nothing about this member.
    IdentityUnusable {
        /// Why.
        problem: String,
    },
    /// The volume or the marker cannot be read or written; it may pass.
    VolumeUnreadable {
        /// The error.
        problem: String,
    },
    /// The volume did not answer in time; it may pass.
    TimedOut {
        /// How many seconds it was given.
        seconds: u64,
    },
}

/// How it is known that data is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// The operator has seen the member run.
    HasRun,
    /// The volume's own marker tells of data.
    Emptied {
        /// The cluster.
        cluster: Id,
    },
    /// The member may begin without data, but nobody has any that it could be given.
    NobodyElse,
}

impl Refusal {
    /// The word.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::VolumeLost { .. } => "VolumeLost",
            Self::ForeignData { .. } => "ForeignData",
            Self::OtherMember { .. } => "OtherMember",
            Self::OtherClaim { .. } => "OtherClaim",
            Self::Damaged { .. } => "Damaged",
            Self::OutdatedData { .. } => "OutdatedData",
            Self::IdentityUnusable { .. } => "IdentityUnusable",
            Self::VolumeUnreadable { .. } => "VolumeUnreadable",
            Self::TimedOut { .. } => "TimedOut",
        }
    }

    /// The exit code. Below 10 are those of command lines and shells.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::VolumeLost { .. } => 10,
            Self::ForeignData { .. } => 11,
            Self::OtherMember { .. } => 12,
            Self::OtherClaim { .. } => 13,
            Self::Damaged { .. } => 14,
            Self::IdentityUnusable { .. } => 15,
            Self::VolumeUnreadable { .. } => 16,
            Self::TimedOut { .. } => 17,
            Self::OutdatedData { .. } => 18,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VolumeLost { member, loss } => {
                match loss {
                    Loss::HasRun => write!(
                        f,
                        "the volume of {member} has no data, although {member} has run: it was emptied or \
                         is another one"
                    )?,
                    Loss::Emptied { cluster } => write!(
                        f,
                        "the volume of {member} once had data of etcd cluster {cluster} and has none now"
                    )?,
                    Loss::NobodyElse => write!(
                        f,
                        "the volume of {member} has no data, and no other member has any, although the \
                         cluster has run"
                    )?,
                }
                f.write_str(
                    "; an etcd started on it would be a new and empty cluster: bring the volume back, or \
                     restore from a backup",
                )
            }
            Self::ForeignData {
                found,
                expected: Some(expected),
            } => write!(
                f,
                "the volume has data of etcd cluster {found}, and this tenant cluster's is {expected}: \
                 bring the right volume"
            ),
            Self::ForeignData {
                found,
                expected: None,
            } => write!(
                f,
                "the volume has data of etcd cluster {found}, although this tenant cluster never ran: it \
                 was somebody else's before; give the claim an empty volume"
            ),
            Self::OtherMember { member, found } => write!(
                f,
                "the volume has data of {found}, and this is {member}: volumes were mixed up; give each \
                 member its own"
            ),
            Self::OtherClaim {
                member,
                found,
                expected,
            } => write!(
                f,
                "the volume was first given to claim {found}, and {member} has claim {expected}: it may be \
                 an old copy, without what was written since; if it is known to be the newest, remove \
                 {} from it",
                super::marker::NAME
            ),
            Self::Damaged { problem } => write!(
                f,
                "{problem}; nothing was changed: repair the volume, replace the member, or restore from a \
                 backup"
            ),
            Self::OutdatedData {
                member,
                found,
                expected,
            } => write!(
                f,
                "the volume of {member} was set back: its log ends at entry {found}, and {member} had entry \
                 {expected}, so acknowledged writes are not on it; bring the newest volume, restore from a backup, or \
                 accept the loss with the TenantCluster's annotation covey.dev/accept-etcd-index: \"{expected}\""
            ),
            Self::IdentityUnusable { problem } => write!(
                f,
                "the operator has not said what belongs to this member: {problem}"
            ),
            Self::VolumeUnreadable { problem } => {
                write!(
                    f,
                    "the volume cannot be read or written: {problem}; it is tried again"
                )
            }
            Self::TimedOut { seconds } => write!(
                f,
                "the volume did not answer within {seconds} seconds; it is tried again"
            ),
        }
    }
}
