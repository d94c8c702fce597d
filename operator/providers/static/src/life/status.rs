//! The conditions of a Host.
//!
//! Invariant: a condition whose words differ in numbers alone is not written again, so that a machine at rest, whose
//! free disk changes all the time, costs no write.

use api::host::{HostFacts, HostPhase, HostStatus};
use api::node_pool::Architecture;
use api::{ConditionStatus, ConditionType, Host, Quantity, Reason, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::plan::facts::Facts;

/// A status that is being decided.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) status: HostStatus,
    generation: Option<i64>,
    now: Timestamp,
}

impl Draft {
    pub(super) fn new(host: &Host, now: Timestamp) -> Self {
        let mut draft = Self {
            status: host.status.clone().unwrap_or_default(),
            generation: host.metadata.generation,
            now,
        };
        if draft.status.phase.is_none() {
            draft.status.phase = Some(HostPhase::Unverified);
            draft.unknown(ConditionType::Reachable, Reason::NotLookedAt);
            draft.not_known(Reason::NotLookedAt);
        }
        draft
    }

    pub(super) fn phase(&self) -> HostPhase {
        self.status.phase.unwrap_or_default()
    }

    /// It speaks of the spec as it is.
    pub(super) fn observed(&mut self) {
        self.status.observed_generation = self.generation;
    }

    /// Any phase but [`HostPhase::Available`], for which there is [`Self::available`].
    pub(super) fn becomes(&mut self, phase: HostPhase) {
        self.status.phase = Some(phase);
        self.status.available_since = None;
    }

    /// A Machine may take it; since when stays, where it could before.
    pub(super) fn available(&mut self) {
        self.status.phase = Some(HostPhase::Available);
        self.status.node = None;
        self.status.available_since.get_or_insert(Time(self.now));
    }

    pub(super) fn yes(&mut self, condition: ConditionType, reason: Reason) {
        self.set(condition, ConditionStatus::True, reason, "");
    }

    pub(super) fn no(&mut self, condition: ConditionType, reason: Reason, message: &str) {
        self.set(condition, ConditionStatus::False, reason, message);
    }

    pub(super) fn unknown(&mut self, condition: ConditionType, reason: Reason) {
        self.set(condition, ConditionStatus::Unknown, reason, "");
    }

    /// Neither what it is nor whether it is clean.
    pub(super) fn not_known(&mut self, reason: Reason) {
        self.unknown(ConditionType::Verified, reason);
        self.unknown(ConditionType::Clean, reason);
    }

    pub(super) fn set(
        &mut self,
        condition: ConditionType,
        value: ConditionStatus,
        reason: Reason,
        message: &str,
    ) {
        let known = self
            .status
            .conditions
            .iter()
            .find(|known| known.type_ == condition.as_str());
        let words =
            |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
        let message = match known {
            Some(known)
                if known.status == value.as_str()
                    && known.reason == reason.as_str()
                    && known.observed_generation == self.generation
                    && words(&known.message) == words(message) =>
            {
                known.message.clone()
            }
            _ => message.to_owned(),
        };
        let (list, now) = (&mut self.status.conditions, Time(self.now));
        set_condition(
            list,
            condition,
            value,
            reason,
            &message,
            self.generation,
            now,
        );
    }

    /// Whether a condition has this reason.
    pub(super) fn says(&self, condition: ConditionType, reason: Reason) -> bool {
        let mut known = self.status.conditions.iter();
        known.any(|known| known.type_ == condition.as_str() && known.reason == reason.as_str())
    }

    /// How long a condition is `False` already.
    pub(super) fn is_false_for(&self, condition: ConditionType) -> jiff::SignedDuration {
        let mut known = self.status.conditions.iter();
        let known =
            known.find(|known| known.type_ == condition.as_str() && known.status == "False");
        known.map_or(jiff::SignedDuration::ZERO, |known| {
            self.now.duration_since(known.last_transition_time.0)
        })
    }
}

/// What `uname -m` says, as Kubernetes calls it.
pub(super) fn architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => Architecture::Amd64.as_str(),
        "aarch64" => Architecture::Arm64.as_str(),
        other => other,
    }
}

/// What is kept of a machine's facts: what stays as it is.
pub(super) fn kept(facts: &Facts, host_key: &str) -> HostFacts {
    let architecture = architecture(&facts.arch);
    let number = |found: Option<u64>| i64::try_from(found.unwrap_or_default()).unwrap_or(i64::MAX);
    HostFacts {
        machine_id: cut(&facts.machine_id, 64),
        host_key: cut(host_key, 128),
        architecture: cut(architecture, 64),
        cpu: number(facts.cpus),
        memory: Quantity(format!("{}Mi", facts.memory_mib.unwrap_or_default())),
        os: facts.os.clone(),
        kernel: facts.kernel.clone(),
        cgroup2: facts.cgroup2,
        tun: facts.tun,
        kubelet: facts.kubelet.as_deref().map(|version| cut(version, 64)),
    }
}

/// At most so many characters of it.
pub(super) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
