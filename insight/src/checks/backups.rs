//! Backups: how old the newest full snapshot is, and what Snapshots and Restores say of themselves.
//!
//! Invariant: a tenant cluster without a wish for backups is whole without one; a Snapshot or Restore that fails is
//! no tenant cluster that does.

use api::TenantCluster;
use api::tenant_cluster::HibernationPhase;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    for cluster in facts.clusters.as_ref().there().into_iter().flatten() {
        found.extend(age(cluster, facts.now));
    }
    for one in facts.snapshots.as_ref().there().into_iter().flatten() {
        let told = one.status.as_ref().map(|status| &status.conditions[..]);
        let namespace = one.namespace().unwrap_or_default();
        let subject = Subject::new("Snapshot", &namespace, &one.name_any());
        found.extend(of_object(subject, &one.spec.cluster_name, told, facts.now));
    }
    for one in facts.restores.as_ref().there().into_iter().flatten() {
        let told = one.status.as_ref().map(|status| &status.conditions[..]);
        let namespace = one.namespace().unwrap_or_default();
        let subject = Subject::new("Restore", &namespace, &one.name_any());
        found.extend(of_object(subject, &one.spec.cluster_name, told, facts.now));
    }
    found
}

/// The newest full snapshot is older than two of them should be apart. Of one that sleeps nothing changes, so its last one
/// stays the newest.
fn age(cluster: &TenantCluster, now: Timestamp) -> Option<Finding> {
    let wanted = cluster.spec.backup.as_ref()?;
    let every = SignedDuration::try_from(wanted.full.get()?).ok()?;
    let status = cluster.status.as_ref()?;
    let hibernation = status.hibernation.as_ref();
    if hibernation.is_some_and(|told| told.phase != HibernationPhase::Awake) {
        return None;
    }
    let last = status.backup.as_ref()?;
    // What cannot be read is not known, and not old.
    let last: Timestamp = last.last_full.as_ref()?.parse().ok()?;
    let age = now.duration_since(last);
    if age <= every * 2 {
        return None;
    }
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let subject = Subject::new("TenantCluster", &namespace, &name);
    let cause = format!(
        "the newest full snapshot is of {last}, {} hours old; one every {} was asked for",
        age.as_hours(),
        wanted.full.0
    );
    let space = cluster.status.as_ref().and_then(|s| s.namespace.as_deref());
    let mend = format!(
        "`kubectl -n {} logs deployment/backup` says what keeps it",
        space.unwrap_or("NAMESPACE")
    );
    let scope = Scope {
        cluster: Some((namespace, name)),
        pool: None,
    };
    let finding = Finding::new(Check::Backup, Level::Warning, subject, &cause, &mend);
    Some(finding.within(&scope))
}

fn of_object(
    subject: Subject,
    cluster: &str,
    conditions: Option<&[Condition]>,
    now: Timestamp,
) -> Vec<Finding> {
    let namespace = subject.namespace.clone().unwrap_or_default();
    let scope = Scope {
        cluster: Some((namespace, cluster.to_owned())),
        pool: None,
    };
    let about = About {
        subject: &subject,
        scope: &scope,
        now,
        grace: GRACE,
    };
    let mut told = conditions::check(conditions.unwrap_or_default(), &about);
    for finding in &mut told {
        finding.level = finding.level.min(Level::Warning);
    }
    told
}
