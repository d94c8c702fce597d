//! Locations of a pool that are out: machines are wanted there, none is ready, and other locations have some.
//!
//! Invariant: where no location has a ready machine it is nothing of a location; what a location lacks for a moment is
//! told of no one.

use api::node_pool::LocationStatus;
use api::{ConditionType, Machine, NodePool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::conditions::GRACE;
use crate::check::Check;
use crate::facts::Facts;
use crate::finding::{Finding, Level, Scope, Subject};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let pools = facts.pools.as_ref().there().into_iter().flatten();
    pools.flat_map(|pool| one(pool, facts)).collect()
}

fn one(pool: &NodePool, facts: &Facts) -> Vec<Finding> {
    let Some(status) = &pool.status else {
        return Vec::new();
    };
    let elsewhere: i32 = status.locations.iter().map(|at| at.ready).sum();
    if status.locations.len() < 2 || elsewhere == 0 {
        return Vec::new();
    }
    let (namespace, name) = (pool.namespace().unwrap_or_default(), pool.name_any());
    let machines = facts.machines.as_ref().there().into_iter().flatten();
    let ill = machines.filter_map(|machine| {
        let is_ours =
            machine.spec.pool_name == name && machine.namespace().as_ref() == Some(&namespace);
        let is_going = machine.metadata.deletion_timestamp.is_some();
        Some((machine, not_ready(machine)?)).filter(|_| is_ours && !is_going)
    });
    let ill: Vec<_> = ill.collect();
    let join = pool.spec.health.join_timeout.get();
    let join = join.and_then(|join| SignedDuration::try_from(join).ok());
    let grace = join.map_or(GRACE, |join| join / 2).max(GRACE);
    let is_out = |at: &&LocationStatus| {
        at.desired > 0 && at.ready == 0 && is_late(pool, at, &ill, facts.now, grace)
    };
    let out: Vec<_> = status.locations.iter().filter(is_out).collect();
    // Only where all that is not ready is there does it explain why.
    let is_all = ill.iter().all(|(machine, _)| {
        let place = machine.spec.location.as_deref();
        out.iter().any(|at| Some(at.name.as_str()) == place)
    });
    let scope = Scope {
        cluster: Some((namespace.clone(), pool.spec.cluster_name.clone())),
        pool: Some(name.clone()),
    };
    let scope = match is_all {
        true => scope,
        false => Scope {
            cluster: Some((namespace.clone(), String::new())),
            pool: None,
        },
    };
    let found = out.into_iter().map(|at| {
        let cause = format!(
            "no machine of the location {} is ready, and {} are wanted there; other locations have {elsewhere}",
            at.name, at.desired
        );
        let mend = format!(
            "`kubectl -n {namespace} describe machines` says why; `weight: 0` of the location in `spec.locations` of the pool has its machines made elsewhere"
        );
        let subject = Subject::new("NodePool", &namespace, &name);
        let finding = Finding::new(Check::Locations, Level::Warning, subject, &cause, &mend);
        let told = ill.iter().filter(|(machine, _)| machine.spec.location.as_ref() == Some(&at.name));
        let finding = told.fold(finding, |finding, (machine, condition)| {
            finding.told_by(&format!("{}: {}", machine.name_any(), condition.reason))
        });
        finding.within(&scope)
    });
    found.collect()
}

/// The condition Ready of a machine that is not; what is Unknown says nothing.
fn not_ready(machine: &Machine) -> Option<&Condition> {
    let mut conditions = machine.status.as_ref()?.conditions.iter();
    let ready = conditions.find(|c| c.type_ == ConditionType::Ready.as_str());
    ready.filter(|c| c.status == "False")
}

/// Whether it has been so for a while: by its machines, and where there is none by the pool.
fn is_late(
    pool: &NodePool,
    at: &LocationStatus,
    ill: &[(&Machine, &Condition)],
    now: Timestamp,
    grace: SignedDuration,
) -> bool {
    let of_it = ill
        .iter()
        .filter(|(machine, _)| machine.spec.location.as_ref() == Some(&at.name));
    let since = of_it.map(|(_, ready)| ready.last_transition_time.0).min();
    let conditions = pool
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice());
    let mut conditions = conditions.unwrap_or_default().iter();
    let pools =
        conditions.find(|c| c.type_ == ConditionType::Ready.as_str() && c.status == "False");
    let since = since.or(pools.map(|c| c.last_transition_time.0));
    since.is_some_and(|since| now.duration_since(since) > grace)
}
