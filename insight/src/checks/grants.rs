//! AccessGrants: those of programs that let nobody in, or are not renewed, and rights that were to end and did not yet.
//!
//! Invariant: what was refused to a person is told to that person, and is nothing that is wrong with a tenant cluster; a
//! grant that fails is no tenant cluster that does.

use api::condition::is_true;
use api::tenant_cluster::HibernationPhase;
use api::{AccessGrant, ConditionType, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let clusters = facts.clusters.as_ref().there();
    let mut found = Vec::new();
    for grant in facts.grants.as_ref().there().into_iter().flatten() {
        let is_its = |cluster: &&TenantCluster| {
            cluster.name_any() == grant.spec.cluster_name
                && cluster.namespace() == grant.namespace()
        };
        let cluster = clusters.into_iter().flatten().find(is_its);
        found.extend(of(grant, cluster, facts.now));
    }
    found
}

fn of(grant: &AccessGrant, cluster: Option<&TenantCluster>, now: Timestamp) -> Vec<Finding> {
    let is_going = grant.metadata.deletion_timestamp.is_some();
    if grant.spec.secret_name.is_none() && !is_going {
        return Vec::new();
    }
    let namespace = grant.namespace().unwrap_or_default();
    let subject = Subject::new("AccessGrant", &namespace, &grant.name_any());
    let scope = Scope {
        cluster: Some((namespace, grant.spec.cluster_name.clone())),
        pool: None,
    };
    let about = About {
        subject: &subject,
        scope: &scope,
        now,
        grace: GRACE,
    };
    let told = grant.status.as_ref().map(|status| &status.conditions[..]);
    let mut found = conditions::check(told.unwrap_or_default(), &about);
    // Of one that sleeps nothing is renewed.
    if found.is_empty() && !is_going && cluster.is_some_and(|cluster| !is_asleep(cluster)) {
        found.extend(unrenewed(grant, &about));
    }
    for finding in &mut found {
        finding.level = finding.level.min(Level::Warning);
    }
    found
}

/// Its certificate was to be another one for long: half of the third of its life is over that is left then.
fn unrenewed(grant: &AccessGrant, about: &About<'_>) -> Option<Finding> {
    let status = grant.status.as_ref()?;
    if !is_true(&status.conditions, ConditionType::Ready) {
        return None;
    }
    // What cannot be read is not known, and not over.
    let end: Timestamp = status.not_after.as_ref()?.parse().ok()?;
    let late = SignedDuration::from_secs(i64::from(grant.spec.ttl_seconds) / 6);
    if end.duration_since(about.now) > late {
        return None;
    }
    let secret = grant.spec.secret_name.as_deref().unwrap_or_default();
    let cause = format!("the certificate in Secret {secret} ends at {end} and was not renewed");
    let mend = format!(
        "the operator's log says what keeps it; Secret {secret} must not be immutable, and no policy may keep the operator from writing it"
    );
    let subject = about.subject.clone();
    let finding = Finding::new(Check::Grants, Level::Warning, subject, &cause, &mend);
    Some(finding.within(about.scope))
}

fn is_asleep(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let sleep = status.and_then(|status| status.hibernation.as_ref());
    sleep.is_some_and(|sleep| sleep.phase != HibernationPhase::Awake)
}
