//! Upgrades that failed or were returned from.
//!
//! Invariant: what serves serves on, so it is a warning; why it failed is told in the words of the status.

use api::tenant_cluster::{UpgradePhase, UpgradeStatus};
use api::{Reason, TenantCluster};
use kube::ResourceExt as _;

use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let clusters = facts.clusters.as_ref().there();
    clusters.into_iter().flatten().filter_map(one).collect()
}

fn one(cluster: &TenantCluster) -> Option<Finding> {
    let upgrade = cluster.status.as_ref()?.upgrade.as_ref()?;
    let reason = reason(upgrade)?;
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let subject = Subject::new("TenantCluster", &namespace, &name);
    let scope = Scope {
        cluster: Some((namespace, name)),
        pool: None,
    };
    let UpgradeStatus { from, to, .. } = upgrade;
    let why = upgrade.failure.as_ref();
    let because = why.map_or(String::new(), |why| format!(": {}", why.message));
    let cause = match reason {
        Reason::RolledBack => format!("the upgrade to {to} failed, and {from} runs again{because}"),
        Reason::RollingBack => {
            format!("the upgrade to {to} failed, and {from} comes back{because}")
        }
        _ => {
            format!("the upgrade from {from} to {to} failed, and stays as far as it came{because}")
        }
    };
    let mut finding = Finding::of_reason(Check::Upgrade, Level::Warning, subject, reason, &cause);
    finding.since = why.and_then(|why| why.at.parse().ok());
    if let Some(snapshot) = &upgrade.snapshot {
        finding = finding.told_by(&format!("Snapshot {snapshot} was taken before it"));
    }
    Some(finding.within(&scope))
}

/// What is to be told of it; none of one that goes on. What keeps one from beginning, conditions say.
fn reason(upgrade: &UpgradeStatus) -> Option<Reason> {
    match upgrade.phase {
        UpgradePhase::RolledBack => Some(Reason::RolledBack),
        UpgradePhase::RollingBack => Some(Reason::RollingBack),
        _ => upgrade.failure.as_ref().map(|_| Reason::UpgradeFailed),
    }
}
