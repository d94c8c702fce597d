//! The status that follows from an observation, and the plans that only change the status.
//!
//! Invariant: `readyReplicas` counts nodes that are ready; what goes is not counted anywhere, so
//! that an autoscaler is never told of a machine that it cannot count on.

use std::time::Duration;

use api::tenant_cluster::TenantIdentity;
use api::{ConditionStatus, ConditionType, Machine, NodePool, Reason, set_condition};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use placement::targets::Targets;
use tenant_cp::problem::Problem;

use super::health::{Held, Verdict};
use super::members::{self, Limits};
use super::outage::Outlook;
use super::sizing::Sizing;
use super::template::Template;
use super::{Plan, adoption, list, locations, tally, unchanged};
use crate::controllers::node_pool::observed::{Observed, is_going};
use crate::status::Waiting;

/// Longest time between two reconciles of a pool where nothing happens.
pub(super) const SLOW_SWEEP: Duration = Duration::from_secs(10 * 3600);
/// A deadline is looked at a moment after it, so that one look is enough.
const AFTER: Duration = Duration::from_millis(200);

/// What the status is made from.
pub(super) struct Seen<'a> {
    pub(super) machines: &'a [&'a Machine],
    pub(super) template: &'a Template,
    pub(super) verdict: &'a Verdict,
    pub(super) sizing: &'a Sizing,
    pub(super) limits: &'a Limits,
    pub(super) outlook: &'a Outlook,
}

/// One condition.
pub(super) type Said = (ConditionType, ConditionStatus, Reason, String);

pub(super) fn set(
    plan: &mut Plan,
    observed: &Observed,
    now: Timestamp,
    said: impl IntoIterator<Item = Said>,
) {
    let generation = observed.pool.metadata.generation;
    plan.status.observed_generation = generation;
    for (type_, value, reason, message) in said {
        let list = &mut plan.status.conditions;
        set_condition(list, type_, value, reason, &message, generation, Time(now));
    }
}

/// Counts the Machines that stay; without a template nobody knows which of them are of the newest, and as
/// many are said to be as before, but no more than there are. What nodes offer is told in any case: a pool that
/// is refused is a node group of the autoscaler's all the same.
fn count(
    plan: &mut Plan,
    observed: &Observed,
    machines: &[&Machine],
    decided: Option<(&Template, &Targets, &Outlook)>,
) {
    let staying = || machines.iter().filter(|m| !is_going(m));
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    plan.status.replicas = number(staying().count());
    let cluster = observed.cluster.as_ref().there();
    plan.status.tenant_namespace = match cluster {
        Some(cluster) => cluster.taken_over().map(TenantIdentity::tenant_namespace),
        // Whoever may size it may still.
        None => plan.status.tenant_namespace.take(),
    };
    plan.status.ready_replicas = number(staying().filter(|m| members::is_ready(m)).count());
    plan.status.locations = locations::status(observed, machines, decided);
    plan.status.spread = locations::spread(&plan.status.locations);
    plan.status.updated_replicas = match decided {
        Some((template, ..)) => number(staying().filter(|m| template.fits(m)).count()),
        None => plan.status.updated_replicas.min(plan.status.replicas),
    };
}

/// Fills in everything that follows from the observation.
pub(super) fn report(mut plan: Plan, observed: &Observed, seen: &Seen<'_>, now: Timestamp) -> Plan {
    let machines = seen.machines;
    let decided = Some((seen.template, &seen.sizing.targets, seen.outlook));
    count(&mut plan, observed, machines, decided);
    let replicas = observed.pool.spec.replicas;
    let possible = i32::try_from(seen.sizing.possible).unwrap_or(i32::MAX);
    let missing = replicas.saturating_sub(possible);
    // A rollout has those too for which there were places when they were made.
    let possible = possible.max(plan.status.replicas.min(replicas));
    let (ready, updated) = (plan.status.ready_replicas, plan.status.updated_replicas);
    let settled = plan.is_settled();
    let going = machines.iter().filter(|m| is_going(m)).count();
    // Those that are lost with their location are waited for, and others have their places.
    let silent: i32 = plan.status.locations.iter().map(|at| at.silent).sum();
    let there = plan.status.replicas - silent;

    let enough = ready >= replicas;
    let message = format!("{ready} of {replicas} nodes are ready{}", trouble(machines));
    let reason = if enough {
        Reason::NodesReady
    } else {
        Reason::NodesNotReady
    };
    let ready_said = (ConditionType::Ready, enough.into(), reason, message);

    let (reason, message) = if !settled {
        (
            Reason::Applying,
            "writes what differs from the wanted state".to_owned(),
        )
    } else if updated < there {
        (
            Reason::RollingOut,
            format!("{updated} of {replicas} machines are of the newest template"),
        )
    } else if adoption::awaits(observed, seen.sizing) {
        (
            Reason::WaitingForNodes,
            "waits until it is known which Hosts with adopt: true are nodes already".to_owned(),
        )
    } else if seen.sizing.held > 0 {
        (
            Reason::LocationOut,
            format!(
                "{} machines more are not made: placement.failover.maxExtra",
                seen.sizing.held
            ),
        )
    } else if there < possible {
        (
            Reason::WaitingForDeletion,
            format!("{going} machines are going; others are made once they are gone"),
        )
    } else if ready < possible {
        (
            Reason::WaitingForNodes,
            format!("{} nodes are not ready yet", possible - ready),
        )
    } else if going > 0 {
        (
            Reason::WaitingForDeletion,
            format!("{going} machines are going"),
        )
    } else if there > replicas {
        let message = format!(
            "{} machines above replicas are there until those above their location's share can go",
            there - replicas
        );
        (Reason::Rebalancing, message)
    } else {
        (Reason::AsDesired, String::new())
    };
    let progressing = reason != Reason::AsDesired;
    if progressing && settled {
        plan.waiting_on = Some(Waiting {
            reason,
            message: message.clone(),
        });
    }
    let progressing = (
        ConditionType::Progressing,
        progressing.into(),
        reason,
        message,
    );
    let degraded = degraded(observed, seen, missing);
    let was = degraded_reason(&observed.pool);
    if degraded.1 == ConditionStatus::True && was.as_deref() != Some(degraded.2.as_str()) {
        plan.publish(true, degraded.2, degraded.3.clone());
    }
    set(
        &mut plan,
        observed,
        now,
        [ready_said, progressing, degraded],
    );
    let again = seen
        .outlook
        .again(seen.template, (machines, seen.limits), now);
    plan.requeue_after = Some(again.unwrap_or(SLOW_SWEEP).min(requeue(seen, now)));
    plan
}

fn degraded(observed: &Observed, seen: &Seen<'_>, missing: i32) -> Said {
    let kept = seen.verdict.kept.len();
    let (value, reason, message) = match seen.verdict.held {
        Some(Held::AllSilent) => (
            true,
            Reason::AllNodesSilent,
            "all nodes of the tenant cluster went silent together, so the network between them and \
             the control plane is looked at first: none is replaced; mend it, or delete the Machines \
             that are to be replaced"
                .to_owned(),
        ),
        Some(Held::Share) => (
            true,
            Reason::TooManyUnhealthy,
            format!(
                "{kept} machines are lost and wait until others have been replaced \
                 (health.maxReplaced at a time)"
            ),
        ),
        None if missing > 0 => {
            let message = locations::missing(observed.pool.spec.replicas, seen.template, missing);
            (true, Reason::LocationsFull, message)
        }
        None => (false, Reason::AsExpected, String::new()),
    };
    (ConditionType::Degraded, value.into(), reason, message)
}

/// Why machines are not ready, most telling first: the reasons of their conditions.
fn trouble(machines: &[&Machine]) -> String {
    let not_ready = || {
        machines
            .iter()
            .filter(|m| !is_going(m) && !members::is_ready(m))
    };
    let reason = |m: &&&Machine| {
        let status = m.status.as_ref()?;
        let mut found = status.conditions.iter();
        let condition = found.find(|c| c.type_ == ConditionType::Ready.as_str())?;
        Some((condition.reason.clone(), condition.message.clone()))
    };
    let found: Vec<_> = not_ready().filter_map(|m| reason(&m)).collect();
    let Some((first, message)) = found.iter().min() else {
        return String::new();
    };
    let counts = tally(found.iter().map(|(reason, _)| reason.as_str()));
    let example = match message.is_empty() {
        true => String::new(),
        false => format!("; {first}: {message}"),
    };
    format!(" ({counts}){example}")
}

fn degraded_reason(pool: &NodePool) -> Option<String> {
    let conditions = &pool.status.as_ref()?.conditions;
    let mut found = conditions.iter();
    let condition = found.find(|c| c.type_ == ConditionType::Degraded.as_str())?;
    (condition.status == "True").then(|| condition.reason.clone())
}

/// When the next deadline of a Machine is over.
fn requeue(seen: &Seen<'_>, now: Timestamp) -> Duration {
    let deadline = |m: &&Machine| match is_going(m) {
        true => members::awaited_until(m, seen.limits).filter(|until| *until > now),
        false => members::health(m, seen.limits, now).deadline(),
    };
    let deadlines = seen.machines.iter().filter_map(deadline);
    deadlines.min().map_or(SLOW_SWEEP, |at| {
        let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
        (left + AFTER).min(SLOW_SWEEP)
    })
}

pub(super) fn paused(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let message = "the TenantCluster is paused; set its spec.paused to false to go on";
    let said = (
        ConditionType::Progressing,
        ConditionStatus::False,
        Reason::Paused,
        message.to_owned(),
    );
    set(&mut plan, observed, now, [said]);
    plan
}

/// Nothing can be made before the control plane runs for the first time.
pub(super) fn waits_for_cluster(mut plan: Plan, observed: &Observed, now: Timestamp) -> Plan {
    let name = &observed.pool.spec.cluster_name;
    let message = format!("TenantCluster {name} does not say yet which version it runs");
    let reason = Reason::WaitingForCluster;
    let said = [
        (
            ConditionType::Ready,
            ConditionStatus::False,
            reason,
            message.clone(),
        ),
        (
            ConditionType::Progressing,
            ConditionStatus::True,
            reason,
            message.clone(),
        ),
        (
            ConditionType::Degraded,
            ConditionStatus::False,
            Reason::AsExpected,
            String::new(),
        ),
    ];
    set(&mut plan, observed, now, said);
    plan.waiting_on = Some(Waiting { reason, message });
    plan
}

/// The spec cannot be carried out; what runs keeps running as it is.
pub(super) fn refused(plan: Plan, observed: &Observed, problem: &Problem, now: Timestamp) -> Plan {
    let message = format!("{}: {}", problem.field, problem.message);
    unusable(plan, observed, problem.reason, message, now)
}

/// Nothing can be made; the reason says why.
pub(super) fn unusable(
    mut plan: Plan,
    observed: &Observed,
    reason: Reason,
    message: String,
    now: Timestamp,
) -> Plan {
    let machines: Vec<_> = observed.owned().collect();
    count(&mut plan, observed, &machines, None);
    let enough = plan.status.ready_replicas >= observed.pool.spec.replicas.max(1);
    if degraded_reason(&observed.pool).as_deref() != Some(reason.as_str()) {
        plan.publish(true, reason, message.clone());
    }
    let said = [
        (ConditionType::Ready, enough.into(), reason, message.clone()),
        (
            ConditionType::Progressing,
            ConditionStatus::False,
            reason,
            message.clone(),
        ),
        (
            ConditionType::Degraded,
            ConditionStatus::True,
            reason,
            message,
        ),
    ];
    set(&mut plan, observed, now, said);
    plan
}

pub(super) fn going(mut plan: Plan, observed: &Observed, now: Timestamp) -> Plan {
    let machines: Vec<_> = observed.owned().collect();
    count(&mut plan, observed, &machines, None);
    let message = match machines.is_empty() {
        true => String::new(),
        false => format!(
            "waits until {} are gone",
            list(machines.iter().map(|m| m.name_any()))
        ),
    };
    let said = [
        (
            ConditionType::Ready,
            ConditionStatus::False,
            Reason::Deleting,
            message.clone(),
        ),
        (
            ConditionType::Progressing,
            ConditionStatus::True,
            Reason::Deleting,
            message,
        ),
    ];
    set(&mut plan, observed, now, said);
    plan
}
