//! How long new kube-apiservers serve the minor before.
//!
//! Invariant: computed from the pods that run; a pod that is replaced begins anew, so all of them have served for long
//! enough.

use std::time::Duration;

use api::tenant_cluster::{UpgradeGuard, UpgradePhase};
use jiff::Timestamp;
use tenant_cp::rollout::order::Progress;
use tenant_cp::{Settings, Validated};

use super::facts::{self, inside, soak_of};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::plan::namespace::NamespacePlan;
use crate::pod_failures;
use crate::upgrades::checks;
use crate::upgrades::finding::{Finding, Verdict};
use crate::upgrades::versions::{self, Wanted};

/// How far new kube-apiservers are that serve the minor before.
pub(in super::super) enum Soak {
    /// Not all pods are, or not all are known to be.
    Rolling,
    /// It goes on for so long.
    Goes(Duration),
    /// It is over, and it is not known yet whether clients call what is about to go.
    Asking,
    /// They do.
    Blocked(Vec<Finding>),
    /// They cannot read what is stored, for people.
    Unreadable(String),
    /// It is over.
    Over,
}

impl Soak {
    /// Until the template is another one it is not more than soaked.
    pub(super) fn phase(&self) -> UpgradePhase {
        match self {
            Self::Rolling => UpgradePhase::Rolling,
            _ => UpgradePhase::Soaking,
        }
    }
}

/// Counted from when the newest pod was ready. Clients saw only the minor before until now, so what they call
/// that the new one lacks is asked once more.
pub(super) fn soak(
    wanted: &Wanted,
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Soak {
    // Its soak was taken away, or features were switched.
    if !wanted.emulates(valid, soak_of(observed)) {
        return Soak::Over;
    }
    let emulating = versions::emulating(valid, wanted.from.minor);
    let [_, control_plane, _] = NamespacePlan::new(&emulating, observed, settings).progress;
    let since = facts::pods(observed)
        .map(pod_failures::ready_since)
        .collect();
    let since: Option<Vec<_>> = since;
    let newest = since.and_then(|since| since.into_iter().max());
    let Some(newest) = newest.filter(|_| control_plane == Progress::Current) else {
        return Soak::Rolling;
    };
    let soaked = Duration::try_from(now.duration_since(newest)).unwrap_or_default();
    let left = soak_of(observed).saturating_sub(soaked);
    if !left.is_zero() {
        return Soak::Goes(left);
    }
    let Some(inside) = inside(observed) else {
        return Soak::Asking;
    };
    let is_told = observed.cluster.spec.upgrade.guard == UpgradeGuard::Warn;
    // Those before them could, or it would not have begun.
    if let Some(unreadable) = checks::stored_objects(&inside).filter(|_| !is_told) {
        return Soak::Unreadable(unreadable.message);
    }
    let mut found = checks::deprecated_apis(wanted, &inside);
    found.retain(|finding| finding.verdict == Verdict::Block);
    match found.is_empty() || is_told {
        true => Soak::Over,
        false => Soak::Blocked(found),
    }
}
