//! What comes back after an upgrade that failed.
//!
//! It is what runs now, not what ran then: keys that were renewed and other changes of the spec are in it.
//! Invariant: the status says that an upgrade failed and how far it was before anything is taken back
//! (`operations.md` §1.2, law 3); from then on the same version is not begun again with the same `retry`.

use std::time::Duration;

use api::Reason;
use api::tenant_cluster::{UpgradeFailure, UpgradePhase};
use tenant_cp::rollout::order::Progress;
use tenant_cp::{Settings, Validated};

use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::namespace::NamespacePlan;
use crate::status::Waiting;
use crate::upgrades::versions::{self, Wanted};

/// An upgrade that is taken back, or was.
pub(in super::super) struct Back {
    pub(super) failure: UpgradeFailure,
    /// What comes back serves the minor before, and is not the program before.
    emulates: bool,
    /// All pods are what they were.
    pub(super) is_over: bool,
}

impl Back {
    /// None where this upgrade did not fail, or is to be tried again.
    pub(super) fn new(
        wanted: &Wanted,
        valid: &Validated,
        observed: &Observed,
        settings: &Settings,
    ) -> Option<Self> {
        let status = observed.cluster.status.as_ref()?.upgrade.as_ref()?;
        let is_it = status.failed_version.as_deref() == Some(wanted.to.to_string().as_str())
            && status.failed_retry == Some(observed.cluster.spec.upgrade.retry);
        let failure = status
            .failure
            .clone()
            .filter(|_| is_it && wanted.is_of(status))?;
        // What only the new minor has may be written already: the program before does not know it.
        let emulates =
            failure.phase == UpgradePhase::Finalizing && wanted.emulates(valid, Duration::MAX);
        let mut back = Self {
            failure,
            emulates,
            is_over: false,
        };
        let target = back.target(valid, wanted);
        let [_, control_plane, controllers] =
            NamespacePlan::new(&target, observed, settings).progress;
        back.is_over = [control_plane, controllers] == [Progress::Current; 2];
        Some(back)
    }

    /// The tenant cluster as it is to be.
    pub(super) fn target(&self, valid: &Validated, wanted: &Wanted) -> Validated {
        match self.emulates {
            true => versions::emulating(valid, wanted.from.minor),
            false => versions::at(valid, &wanted.from),
        }
    }

    pub(super) fn phase(&self) -> UpgradePhase {
        match self.is_over {
            true => UpgradePhase::RolledBack,
            false => UpgradePhase::RollingBack,
        }
    }

    /// What is said while it is under way, and when it is over.
    pub(super) fn told(&self, wanted: &Wanted) -> Waiting {
        let what = match self.emulates {
            true => format!(
                "kube-apiservers of {} that serve 1.{}",
                wanted.to, wanted.from.minor
            ),
            false => format!("Kubernetes {}", wanted.from),
        };
        let why = &self.failure.message;
        let (reason, runs) = match self.is_over {
            true => (
                Reason::RolledBack,
                "runs again, and that version is not tried again until spec.version or spec.upgrade.retry changes",
            ),
            false => (Reason::RollingBack, "comes back"),
        };
        Waiting {
            reason,
            message: format!(
                "the upgrade to Kubernetes {} failed; {what} {runs}: {why}",
                wanted.to
            ),
        }
    }
}
