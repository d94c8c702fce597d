//! What a check came to.
//!
//! Invariant: a finding says what, how many, the first three by name, and how to mend it; it does not change while
//! nothing else does.

use api::tenant_cluster::UpgradeFinding;

use crate::status::one_line;

/// Most characters of a finding.
const MOST: usize = 1000;

/// What is looked at. The names are those of `docs/upgrades.md`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Check {
    /// API services of others answer.
    ApiServices,
    /// Certificates and authorities last.
    Certificates,
    /// No client calls an API that the new version lacks.
    DeprecatedApis,
    /// Pods can be moved from nodes.
    DisruptionBudgets,
    /// etcd is whole.
    Etcd,
    /// Nodes are not too old.
    Kubelets,
    /// The tenant cluster is at rest.
    Rest,
    /// The management cluster has room for the pod that is ready before an old one ends.
    Room,
    /// There is a way back to what is stored now.
    Snapshot,
    /// What is stored can be read.
    StoredObjects,
    /// Webhooks do not stand in the way of what a control plane needs.
    Webhooks,
}

impl Check {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApiServices => "ApiServices",
            Self::Certificates => "Certificates",
            Self::DeprecatedApis => "DeprecatedApis",
            Self::DisruptionBudgets => "DisruptionBudgets",
            Self::Etcd => "Etcd",
            Self::Kubelets => "Kubelets",
            Self::Rest => "Rest",
            Self::Room => "Room",
            Self::Snapshot => "Snapshot",
            Self::StoredObjects => "StoredObjects",
            Self::Webhooks => "Webhooks",
        }
    }
}

/// What it means for the upgrade.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Verdict {
    /// Somebody has to mend it, or find out what could not be asked.
    Block,
    /// It passes.
    Wait,
    /// It is worth knowing.
    Warn,
}

/// What was found.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Finding {
    /// By which check.
    pub check: Check,
    /// What it means.
    pub verdict: Verdict,
    /// For people.
    pub message: String,
}

impl Finding {
    /// Something has to be mended.
    #[must_use]
    pub fn block(check: Check, message: impl AsRef<str>) -> Self {
        Self::new(check, Verdict::Block, message.as_ref())
    }

    /// It passes.
    #[must_use]
    pub fn wait(check: Check, message: impl AsRef<str>) -> Self {
        Self::new(check, Verdict::Wait, message.as_ref())
    }

    /// It is worth knowing.
    #[must_use]
    pub fn warn(check: Check, message: impl AsRef<str>) -> Self {
        Self::new(check, Verdict::Warn, message.as_ref())
    }

    fn new(check: Check, verdict: Verdict, message: &str) -> Self {
        Self {
            check,
            verdict,
            message: one_line(message, MOST),
        }
    }
}

/// Findings as the status has them: those of one check are one entry, sorted.
#[must_use]
pub fn told<'a>(findings: impl Iterator<Item = &'a Finding>) -> Vec<UpgradeFinding> {
    let mut sorted: Vec<_> = findings.collect();
    sorted.sort();
    let mut told: Vec<UpgradeFinding> = Vec::new();
    for finding in sorted {
        let check = finding.check.as_str();
        match told.last_mut().filter(|last| last.check == check) {
            Some(last) => {
                let both = format!("{}; {}", last.message, finding.message);
                last.message = one_line(&both, MOST);
            }
            None => told.push(UpgradeFinding {
                check: check.to_owned(),
                message: finding.message.clone(),
            }),
        }
    }
    told
}
