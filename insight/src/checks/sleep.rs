//! Tenant clusters that sleep, and those that do not although they are asked to.
//!
//! Invariant: sleep is nothing that is wrong; many that sleep are one note.

use api::TenantCluster;
use api::tenant_cluster::{HibernationPhase, HibernationStatus};
use kube::ResourceExt as _;

use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};
use crate::text;

/// Most sleepers that are named.
const NAMED: usize = 5;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let clusters = facts.clusters.as_ref().there().into_iter().flatten();
    let told: Vec<_> = clusters
        .filter_map(|cluster| Some((cluster, cluster.status.as_ref()?.hibernation.as_ref()?)))
        .collect();
    let mut found: Vec<_> = told
        .iter()
        .filter_map(|(of, told)| woken(of, told))
        .collect();
    let asleep = told
        .iter()
        .filter(|(_, told)| told.phase == HibernationPhase::Asleep);
    let asleep: Vec<_> = asleep.collect();
    found.extend(match asleep.as_slice() {
        [] => None,
        [(one, told)] => Some(sleeper(one, told)),
        many => Some(sleepers(many.iter().map(|(of, _)| *of))),
    });
    found
}

fn subject(cluster: &TenantCluster) -> (Subject, Scope) {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let subject = Subject::new("TenantCluster", &namespace, &name);
    let scope = Scope {
        cluster: Some((namespace, name)),
        pool: None,
    };
    (subject, scope)
}

/// One that is asked to sleep, and that a request woke.
fn woken(cluster: &TenantCluster, told: &HibernationStatus) -> Option<Finding> {
    if told.phase != HibernationPhase::Awake || !cluster.spec.hibernation.enabled {
        return None;
    }
    let (subject, scope) = subject(cluster);
    let cause = "spec.hibernation.enabled is true, and a request woke it: it stays awake until it is put to sleep anew";
    let mend = format!("`covey sleep {}` puts it to sleep", subject.name);
    let finding = Finding::new(Check::Sleep, Level::Info, subject, cause, &mend);
    Some(finding.within(&scope))
}

fn sleeper(cluster: &TenantCluster, told: &HibernationStatus) -> Finding {
    let (subject, scope) = subject(cluster);
    let cause = "it sleeps, as spec.hibernation asks for: nothing of it runs";
    let mend = format!("`covey wake {}` wakes it", subject.name);
    let mut finding = Finding::new(Check::Sleep, Level::Info, subject, cause, &mend);
    finding.since = told.since.parse().ok();
    finding.within(&scope)
}

fn sleepers<'a>(all: impl Iterator<Item = &'a TenantCluster>) -> Finding {
    let names = all.map(|one| {
        let namespace = one.namespace().unwrap_or_default();
        format!("{namespace}/{}", one.name_any())
    });
    let names: Vec<_> = names.collect();
    let cause = format!(
        "{} tenant clusters sleep, as they are asked to: {}",
        names.len(),
        text::names(names.iter().map(String::as_str), NAMED)
    );
    let mend = "`covey wake NAME` wakes one";
    let subject = Subject::management();
    let finding = Finding::new(Check::Sleep, Level::Info, subject, &cause, mend);
    // It explains nothing of anybody.
    finding.within(&Scope {
        cluster: Some((String::new(), String::new())),
        pool: None,
    })
}
