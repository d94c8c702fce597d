//! Node pools and their machines: what their conditions say, how long machines take, versions.
//!
//! Invariant: machines that are alike in what is wrong with them are told together, by their pool; one that goes is
//! none of this check's business.

use std::collections::BTreeMap;

use api::reason::class::Class;
use api::{ConditionType, Machine, NodePool, Reason, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kit_objects::known::Known;
use kube::ResourceExt as _;

use super::conditions::{self, About, GRACE};
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};
use crate::text;

/// Most machines that are named.
const NAMED: usize = 5;
/// As nodes may be older than the control plane (Kubernetes' version skew policy).
const OLDER: i64 = 3;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let pools = facts.pools.as_ref().there();
    let found = pools
        .into_iter()
        .flatten()
        .flat_map(|pool| one(pool, facts));
    found.collect()
}

fn one(pool: &NodePool, facts: &Facts) -> Vec<Finding> {
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let subject = Subject::new("NodePool", &namespace, &name);
    let scope = Scope {
        cluster: Some((namespace.clone(), pool.spec.cluster_name.clone())),
        pool: Some(name.clone()),
    };
    let join = pool.spec.health.join_timeout.get();
    let join = join.and_then(|join| SignedDuration::try_from(join).ok());
    let grace = join.map_or(GRACE, |join| join / 2).max(GRACE);
    let mut found = Vec::new();
    // What is not known of machines, the pool's own conditions count.
    if let Known::Known(machines) = &facts.machines {
        let ours = machines.iter().filter(|machine| {
            machine.spec.pool_name == name && machine.namespace().as_deref() == Some(&namespace)
        });
        let ours: Vec<_> = ours
            .filter(|m| m.metadata.deletion_timestamp.is_none())
            .collect();
        found.extend(machines_of(&ours, &subject, facts.now, grace));
    }
    let conditions = pool
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let about = About {
        subject: &subject,
        scope: &scope,
        now: facts.now,
        grace,
    };
    found.extend(conditions::check(conditions.unwrap_or_default(), &about));
    if let Known::Known(clusters) = &facts.clusters {
        let mut clusters = clusters.iter();
        let cluster = clusters.find(|cluster| {
            cluster.name_any() == pool.spec.cluster_name
                && cluster.namespace().as_deref() == Some(&namespace)
        });
        found.extend(cluster.and_then(|cluster| skew(pool, cluster, &subject)));
    }
    found
        .into_iter()
        .map(|finding| finding.within(&scope))
        .collect()
}

/// What is wrong with a machine, so that equal ones are told together.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
struct Ill {
    level: std::cmp::Reverse<Level>,
    reason: String,
}

fn machines_of(
    machines: &[&Machine],
    subject: &Subject,
    now: Timestamp,
    grace: SignedDuration,
) -> Vec<Finding> {
    let mut groups: BTreeMap<Ill, Vec<(&Machine, String, Timestamp)>> = BTreeMap::new();
    for machine in machines {
        let conditions = machine
            .status
            .as_ref()
            .map(|status| status.conditions.as_slice());
        let mut conditions = conditions.unwrap_or_default().iter();
        let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str());
        // A condition that is Unknown says nothing of the machine.
        let Some(ready) = ready.filter(|c| c.status == "False") else {
            continue;
        };
        let reason = ready.reason.parse::<Reason>().ok();
        let since = ready.last_transition_time.0;
        let is_late = now.duration_since(since) > grace;
        let level = match reason.map(Reason::class) {
            Some(Class::Person | Class::Bug) => Level::Error,
            _ if is_late => Level::Warning,
            _ => continue,
        };
        let ill = Ill {
            level: std::cmp::Reverse(level),
            reason: ready.reason.clone(),
        };
        groups
            .entry(ill)
            .or_default()
            .push((machine, ready.message.clone(), since));
    }
    let found = groups.into_iter().map(|(ill, of)| {
        let names: Vec<_> = of.iter().map(|(machine, ..)| machine.name_any()).collect();
        let names = text::names(names.iter().map(String::as_str), NAMED);
        let message = of
            .iter()
            .map(|(_, message, _)| message.as_str())
            .find(|m| !m.is_empty());
        let reason = ill.reason.parse::<Reason>().ok();
        let what = message
            .or(reason.map(Reason::meaning))
            .unwrap_or(&ill.reason);
        let what = format!(
            "{} of {} machines are not ready: {what}",
            of.len(),
            machines.len()
        );
        let (level, subject) = (ill.level.0, subject.clone());
        let mut finding = match reason {
            Some(reason) => Finding::of_reason(check_of(reason), level, subject, reason, &what),
            None => {
                let mend = "`kubectl describe machines` says what is waited for";
                Finding::new(Check::Machines, level, subject, &what, mend)
            }
        };
        finding.since = of.iter().map(|(_, _, since)| *since).min();
        finding.told_by(&format!("{}: {names}", ill.reason))
    });
    found.collect()
}

/// What an account may have is a matter of room, as the management cluster's is.
fn check_of(reason: Reason) -> Check {
    match reason {
        Reason::AccountLimitReached => Check::Capacity,
        _ => Check::Machines,
    }
}

fn skew(pool: &NodePool, cluster: &TenantCluster, subject: &Subject) -> Option<Finding> {
    let nodes = pool.status.as_ref()?.version.as_deref()?;
    let control_plane = cluster.status.as_ref()?.version.as_deref()?;
    let behind = minor(control_plane)? - minor(nodes)?;
    let (cause, level) = if behind < 0 {
        (
            format!(
                "nodes of {nodes} are newer than the control plane, which runs {control_plane}"
            ),
            Level::Error,
        )
    } else if behind > OLDER {
        (
            format!(
                "nodes of {nodes} are more than {OLDER} minors older than the control plane, which runs {control_plane}"
            ),
            Level::Error,
        )
    } else if behind == OLDER {
        (
            format!(
                "nodes of {nodes} are {OLDER} minors older than the control plane: it cannot be upgraded any further"
            ),
            Level::Warning,
        )
    } else {
        return None;
    };
    let mend = match behind < 0 {
        true => format!(
            "upgrade the control plane first: `spec.version` of the TenantCluster {}",
            cluster.name_any()
        ),
        false => "raise `spec.version` of the NodePool, which replaces its machines".to_owned(),
    };
    Some(Finding::new(
        Check::Skew,
        level,
        subject.clone(),
        &cause,
        &mend,
    ))
}

/// 35 of `1.35.4`, major versions counted in.
fn minor(version: &str) -> Option<i64> {
    let mut parts = version.trim_start_matches('v').split('.');
    let major: i64 = parts.next()?.parse().ok()?;
    let minor: i64 = parts.next()?.parse().ok()?;
    Some(major * 1000 + minor)
}
