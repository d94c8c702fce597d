//! What a decision about a Host is made from.
//!
//! Invariant: a look counts only for the spec, the claim and the errand that it was made for.

use api::Host;
use jiff::Timestamp;
use kube::ResourceExt;

use super::failure::Failure;
use crate::plan::claim::Claim;
use crate::plan::cleanliness::Cleanliness;
use crate::plan::facts::Facts;
use crate::plan::progress::Progress;
use crate::programs::Archives;

/// What is to be done on a machine in one session. Each can be repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Errand {
    /// See what it is and whether it is clean; changes nothing.
    Inspect,
    /// Write whose it is.
    Claim,
    /// Make it a node, or see how far that is.
    Join,
    /// Undo everything, or see how far that is; once it is undone, see whether it is clean.
    Reset,
}

/// What came of an errand.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The session failed: nothing is known, and what was asked for may have happened.
    Failed(Failure),
    /// It has another machine-id than was expected; nothing was done.
    AnotherMachine {
        /// Its machine-id.
        machine_id: String,
    },
    /// Of [`Errand::Inspect`].
    Seen {
        /// What it is.
        facts: Box<Facts>,
        /// Fingerprint of the host key that it showed.
        host_key: String,
        /// Whether anything of a node is on it.
        clean: Cleanliness,
    },
    /// Of [`Errand::Claim`].
    Claim(Claim),
    /// Of [`Errand::Join`].
    Join(Progress),
    /// Of [`Errand::Reset`].
    Reset {
        /// How far it is.
        progress: Progress,
        /// Whether anything is left, once everything was undone.
        clean: Cleanliness,
        /// Version of the kubelet that it has then, of its own.
        kubelet: Option<String>,
    },
}

/// An errand that was run, and for what.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was asked for.
    pub errand: Errand,
    /// Of which generation of the Host's spec.
    pub generation: Option<i64>,
    /// For which Machine, by UID; none: for nobody.
    pub machine: Option<String>,
    /// When it ended.
    pub at: Timestamp,
    /// Failures without an end between them, this one included; what works again and again and fails again and
    /// again counts on.
    pub failures: u32,
    /// How many times in a row it was still at work.
    pub polls: u32,
    /// What came of it.
    pub outcome: Outcome,
}

impl Finding {
    /// Whether it speaks of the Host as it is.
    #[must_use]
    pub fn is_of(&self, host: &Host) -> bool {
        let claim = host
            .status
            .as_ref()
            .and_then(|status| status.claim.as_ref());
        self.generation == host.metadata.generation
            && self.machine.as_ref() == claim.map(|claim| &claim.machine_uid)
    }

    /// Counted after `before`, the look before this one.
    #[must_use]
    pub fn after(mut self, before: Option<&Self>) -> Self {
        let continues = |before: &&Self| {
            before.errand == self.errand
                && before.machine == self.machine
                && before.generation == self.generation
        };
        let before = before.filter(continues);
        let (failures, polls) = before.map_or((0, 0), |before| (before.failures, before.polls));
        (self.failures, self.polls) = match (self.outcome.is_end(), self.outcome.is_failure()) {
            (true, _) => (0, 0),
            (false, true) => (failures.saturating_add(1), 0),
            (false, false) => (failures, polls.saturating_add(1)),
        };
        self
    }

    /// Whether what ran has ended without success, so that it has to be started anew and not only asked about.
    #[must_use]
    pub fn has_ended_badly(&self) -> bool {
        match &self.outcome {
            Outcome::Join(progress) => matches!(progress, Progress::Failed(_)),
            Outcome::Reset {
                progress, clean, ..
            } => {
                matches!(progress, Progress::Failed(_))
                    || *progress == Progress::Undone && *clean != Cleanliness::Clean
            }
            Outcome::Failed(_)
            | Outcome::AnotherMachine { .. }
            | Outcome::Seen { .. }
            | Outcome::Claim(_) => false,
        }
    }
}

impl Outcome {
    /// Nothing is to be tried again soon.
    fn is_end(&self) -> bool {
        match self {
            Self::Seen { .. } | Self::Claim(_) => true,
            Self::Join(progress) => matches!(progress, Progress::Joined(_) | Progress::Foreign(_)),
            Self::Reset {
                progress, clean, ..
            } => match progress {
                Progress::Undone => *clean == Cleanliness::Clean,
                Progress::Foreign(_) => true,
                _ => false,
            },
            Self::Failed(_) | Self::AnotherMachine { .. } => false,
        }
    }

    /// Whether it is waited longer and longer, as after a session that failed; not so while something works.
    pub(super) fn is_failure(&self) -> bool {
        match self {
            Self::Failed(_) | Self::AnotherMachine { .. } => true,
            Self::Join(progress) => matches!(progress, Progress::Failed(_)),
            Self::Reset { progress, .. } => {
                matches!(progress, Progress::Failed(_) | Progress::Undone)
            }
            Self::Seen { .. } | Self::Claim(_) => false,
        }
    }
}

/// The Machine of a Host's claim, read from the API where a store does not have it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MachineState {
    /// Nobody knows. Nothing is undone by that.
    #[default]
    Unknown,
    /// It is there.
    Wanted,
    /// It is being deleted, or will not become a node any more.
    Going,
    /// There is no Machine of this UID.
    Gone,
}

/// Another Host, as far as it says which machine it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Twin {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// A Machine has it.
    pub is_claimed: bool,
    /// Machine-id of its machine.
    pub machine_id: String,
    /// Fingerprint of the host key of its machine.
    pub host_key: String,
}

impl Twin {
    /// Of a Host whose machine was seen.
    #[must_use]
    pub fn of(host: &Host) -> Option<Self> {
        let status = host.status.as_ref()?;
        let facts = status.facts.as_ref()?;
        Some(Self {
            namespace: host.namespace().unwrap_or_default(),
            name: host.name_any(),
            uid: host.uid().unwrap_or_default(),
            created: host.creation_timestamp().map(|time| time.0),
            is_claimed: status.claim.is_some(),
            machine_id: facts.machine_id.clone(),
            host_key: facts.host_key.clone(),
        })
    }
}

/// Everything that a decision is made from.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The Host as it is stored.
    pub host: Host,
    /// The Machine of its claim.
    pub machine: MachineState,
    /// All other Hosts.
    pub others: Vec<Twin>,
    /// The last errand that was run.
    pub look: Option<Finding>,
    /// The platform lets machines become nodes that have only cgroup v1.
    pub allows_cgroup1: bool,
    /// What can be sent to machines.
    pub programs: Archives,
    /// The Machine that the last look found in the machine's file is one of this management cluster.
    pub owner_is_here: bool,
}
