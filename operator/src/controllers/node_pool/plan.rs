//! Turns one observation of one NodePool into the next step. No I/O, no clock, no chance.
//!
//! In this order: what a quota refuses → Machines of another tenant cluster go → what machines must not
//! reach is known → the template in force → whom the NodePool names goes → which locations are lost
//! ([`outage`]) → who is lost is replaced, a share at a time ([`health`]) → scaling and rollout
//! ([`sizing`]), where nodes that run already come before new machines ([`adoption`]).
//! Invariant: planning again after applying yields an empty plan; only Machines that the pool owns
//! are ever touched, and a Machine's name is never used twice.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Machine, NodePoolStatus, Reason, TenantCluster, names};
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::known::Known;
use kit_objects::object::Object;
use kube::ResourceExt;

use super::observed::{Observed, is_going, number};
use crate::status::Waiting;

mod adoption;
mod autoscaling;
mod budget;
mod capacity;
mod deletion;
mod endpoint;
mod health;
mod hibernation;
mod locations;
mod members;
mod outage;
mod places;
mod release;
mod renewal;
mod sizing;
mod status;
mod template;

use members::Limits;
use template::Template;

/// The next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The status to write before anything else is: it says that there is no room for the machines that
    /// are made all the same.
    pub before: Option<NodePoolStatus>,
    /// Machines to make.
    pub creations: Vec<Object>,
    /// Machines to change: JSON merge patches.
    pub changes: Vec<Change>,
    /// Machines to delete.
    pub deletions: Vec<Target>,
    /// What is to be done to the NodePool itself.
    pub actions: Vec<Action>,
    /// The status as it should be.
    pub status: NodePoolStatus,
    /// Events to publish once all of that is done.
    pub events: Vec<Notice>,
    /// What keeps the pool from being as wanted; waiting is not an error.
    pub waiting_on: Option<Waiting>,
    /// When to reconcile again although nothing happened.
    pub requeue_after: Option<Duration>,
}

/// A Machine to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// JSON merge patch, resource version included.
    pub patch: serde_json::Value,
}

/// A Machine to delete.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Only this one, not a namesake.
    pub uid: String,
    /// Only as it was seen: one that became ready meanwhile is judged anew.
    pub resource_version: String,
    /// Why, as in the Event.
    pub reason: Reason,
}

/// What is to be done to the NodePool itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Put our finalizer on.
    AddFinalizer,
    /// Take our finalizer off.
    RemoveFinalizer,
}

impl Plan {
    /// True when nothing is left to do but, perhaps, to write the status.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.creations.is_empty()
            && self.changes.is_empty()
            && self.deletions.is_empty()
            && self.actions.is_empty()
    }

    /// Adds the deletion of a Machine, unless it goes already or was added before.
    fn delete(&mut self, machine: &Machine, reason: Reason) {
        let name = machine.name_any();
        if is_going(machine) || self.deletions.iter().any(|d| d.name == name) {
            return;
        }
        self.deletions.push(Target {
            name,
            uid: machine.uid().unwrap_or_default(),
            resource_version: machine.resource_version().unwrap_or_default(),
            reason,
        });
    }

    fn publish(&mut self, warning: bool, reason: Reason, message: String) {
        self.events.push(Notice::new(warning, reason, message));
    }
}

/// The next step for one NodePool.
#[must_use]
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    match hibernation::as_it_sleeps(observed) {
        Some(observed) => decide(&observed, now),
        None => decide(observed, now),
    }
}

fn decide(observed: &Observed, now: Timestamp) -> Plan {
    let meta = &observed.pool.metadata;
    if meta.deletion_timestamp.is_some() {
        return deletion::plan(observed, now);
    }
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|f| f == names::FINALIZER_NODE_POOL) {
        return Plan {
            actions: vec![Action::AddFinalizer],
            ..unchanged(observed)
        };
    }
    // Nothing grows, and nothing that is there goes.
    if let Some(problem) = observed.quotas.first() {
        return status::refused(unchanged(observed), observed, problem, now);
    }
    let cluster = match &observed.cluster {
        Known::Known(cluster) if !is_deleted(cluster) => cluster,
        Known::Known(_) | Known::Absent => return deletion::without_cluster(observed, now),
        // What runs keeps running, and what was said stays said.
        Known::Unknown { why } => {
            return Plan {
                waiting_on: Some(Waiting {
                    reason: Reason::WaitingForCluster,
                    message: (*why).to_owned(),
                }),
                ..unchanged(observed)
            };
        }
    };
    let mut plan = if cluster.spec.paused {
        status::paused(observed, now)
    } else {
        beside(observed, cluster, now)
    };
    autoscaling::say(&mut plan, observed, cluster, now);
    capacity::say(&mut plan, observed, now);
    release::say(&mut plan, observed, now);
    plan
}

/// The next step for one that has its TenantCluster.
fn beside(observed: &Observed, cluster: &TenantCluster, now: Timestamp) -> Plan {
    let mut plan = unchanged(observed);
    let machines = sorted(observed);
    strangers(&mut plan, cluster, &machines);
    if let Some(problem) = &observed.reserved_unknown {
        return status::refused(plan, observed, problem, now);
    }
    match template::template(&observed.pool, cluster) {
        Ok(Some(template)) => plan_machines(plan, observed, cluster, &template, &machines, now),
        Ok(None) => status::waits_for_cluster(plan, observed, now),
        Err(problem) => status::refused(plan, observed, &problem, now),
    }
}

fn unchanged(observed: &Observed) -> Plan {
    let mut status = observed.pool.status.clone().unwrap_or_default();
    status.selector = Some(names::pool_selector(&observed.pool.name_any()));
    Plan {
        status,
        ..Plan::default()
    }
}

fn is_deleted(cluster: &TenantCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

/// The pool's Machines, the oldest first, whatever the order of the observation.
fn sorted(observed: &Observed) -> Vec<&Machine> {
    let mut machines: Vec<_> = observed.owned().collect();
    machines.sort_by(|a, b| members::age(a).cmp(&members::age(b)));
    machines
}

/// Machines that joined an earlier tenant cluster of the same name.
fn strangers(plan: &mut Plan, cluster: &TenantCluster, machines: &[&Machine]) {
    let uid = cluster.identity_uid();
    let strange = |m: &&&Machine| !is_going(m) && m.spec.cluster_uid != uid;
    let strangers: Vec<_> = machines.iter().filter(strange).collect();
    if strangers.is_empty() {
        return;
    }
    let message = format!(
        "deletes {}: they belong to another tenant cluster than the present {}",
        list(strangers.iter().map(|m| m.name_any())),
        cluster.name_any()
    );
    plan.publish(false, Reason::Deleting, message);
    strangers
        .into_iter()
        .for_each(|m| plan.delete(m, Reason::Deleting));
}

fn plan_machines(
    mut plan: Plan,
    observed: &Observed,
    cluster: &TenantCluster,
    template: &Template,
    machines: &[&Machine],
    now: Timestamp,
) -> Plan {
    let pool = &observed.pool;
    plan.status.version = Some(template.version.clone());
    let staying = |plan: &Plan| {
        let stays =
            |m: &&Machine| !is_going(m) && !plan.deletions.iter().any(|d| d.name == m.name_any());
        machines.iter().copied().filter(stays).collect::<Vec<_>>()
    };
    let named = named(observed);
    let victims: Vec<_> = staying(&plan)
        .into_iter()
        .filter(|m| named.contains(&m.name_any()))
        .collect();
    if !victims.is_empty() {
        let message = format!(
            "deletes {}, which the annotation {} names",
            list(victims.iter().map(|m| m.name_any())),
            names::ANNOTATION_DELETE_MACHINE
        );
        plan.publish(false, Reason::ScalingDown, message);
        victims
            .into_iter()
            .for_each(|m| plan.delete(m, Reason::ScalingDown));
    }
    let left = staying(&plan);
    let limits = limits(observed);
    let drains = |m: &&Machine| {
        !template.fits(m) && members::awaited_until(m, &limits).is_some_and(|until| now < until)
    };
    let outdated: Vec<_> = machines.iter().copied().filter(drains).collect();
    let is_still = plan.deletions.is_empty() && !machines.iter().any(|m| is_going(m));
    let target = size_of(pool, is_still, limits.answers_since.is_some());
    let outlook = outage::judge(observed, template, now);
    let mut spread = places::spread(
        &pool.spec,
        template,
        (&outdated, &outlook, &observed.prices),
        now,
    );
    let mut purse = budget::purse(observed);
    if let Some(purse) = &purse {
        purse.cap(&mut spread);
    }
    let sized = (target, &spread, &outlook);
    let (verdict, mut sizing) = health::judge(observed, template, &left, sized, &limits);
    if let Some(purse) = &mut purse {
        purse.cut(&mut sizing);
    }
    let find = |name: &String| left.iter().copied().find(|m| m.name_any() == *name);
    let goes: [(Reason, &Vec<String>, bool, &str); 3] = [
        (
            Reason::Replacing,
            &verdict.replaced,
            true,
            "their nodes are lost",
        ),
        (
            Reason::ScalingDown,
            &sizing.surplus,
            false,
            "the pool has more machines than replicas",
        ),
        (
            Reason::RollingOut,
            &sizing.outdated,
            false,
            "newer ones take their place",
        ),
    ];
    for (reason, gone, warning, why) in goes {
        if !gone.is_empty() {
            let message = format!("deletes {}: {why}", list(gone.iter().cloned()));
            plan.publish(warning, reason, message);
            gone.iter()
                .filter_map(find)
                .for_each(|m| plan.delete(m, reason));
        }
    }
    give_way(&mut plan, observed, cluster, template, &sizing);
    create(&mut plan, observed, cluster, template, machines, &sizing);
    follow(&mut plan, pool, machines);
    renewal::plan(&mut plan, cluster, template, machines);
    let seen = status::Seen {
        machines,
        template,
        verdict: &verdict,
        sizing: &sizing,
        limits: &limits,
        outlook: &outlook,
    };
    let mut plan = status::report(plan, observed, &seen, now);
    outage::say(&mut plan, observed, &outlook, &sizing, now);
    budget::say(&mut plan, observed, purse.as_ref(), now);
    endpoint::say(&mut plan, observed, &outlook, now);
    if adoption::awaits(observed, &sizing) {
        let again = plan.requeue_after.unwrap_or(adoption::AWAITED);
        plan.requeue_after = Some(again.min(adoption::AWAITED));
    }
    plan
}

/// Machines follow the pool, those that drain already too: who shortens its `drainTimeout` waits for
/// them. Not those that go now: the change would be a write for nothing.
fn follow(plan: &mut Plan, pool: &api::NodePool, machines: &[&Machine]) {
    let goes_now = |m: &&Machine| plan.deletions.iter().any(|d| d.name == m.name_any());
    let followers = machines.iter().copied().filter(|m| !goes_now(m));
    let changes: Vec<_> = followers
        .filter_map(|m| template::change(pool, m))
        .collect();
    plan.changes.extend(changes);
}

/// Names that the annotation on the NodePool gives, in the same write as the new size.
fn named(observed: &Observed) -> Vec<String> {
    let annotations = observed.pool.metadata.annotations.as_ref();
    let text = annotations.and_then(|a| a.get(names::ANNOTATION_DELETE_MACHINE));
    let names = text.into_iter().flat_map(|text| text.split(','));
    names.map(|name| name.trim().to_owned()).collect()
}

fn limits(observed: &Observed) -> Limits {
    let health = &observed.pool.spec.health;
    let minutes = |n: u64| Duration::from_secs(n * 60);
    Limits {
        join: health.join_timeout.get().unwrap_or(minutes(10)),
        not_ready: health.not_ready_timeout.get().unwrap_or(minutes(10)),
        answers_since: observed.answers_since(),
    }
}

fn size_of(pool: &api::NodePool, is_still: bool, is_known: bool) -> sizing::Size {
    let (surge, unavailable) = pool.spec.rollout.resolve(pool.spec.replicas);
    let count = |number: i32| usize::try_from(number).unwrap_or_default();
    sizing::Size {
        replicas: count(pool.spec.replicas),
        surge: count(surge),
        unavailable: count(unavailable),
        is_still,
        is_known,
    }
}

/// Makes Machines in these locations, with the next free names.
fn create(
    plan: &mut Plan,
    observed: &Observed,
    cluster: &TenantCluster,
    template: &Template,
    machines: &[&Machine],
    sizing: &sizing::Sizing,
) {
    let status = observed.pool.status.as_ref();
    let last = status.and_then(|s| s.last_machine_number);
    let known = machines.iter().map(|m| number(m));
    let mut last = known.chain(last).max().unwrap_or_default().max(0);
    let locations = || template.locations.iter();
    let find = |name: &String| locations().find(|at| at.shown == *name);
    let mut nodes = adoption::Left::new(observed, cluster);
    let wanted = sizing.create.iter().enumerate();
    for (at, location) in wanted.filter_map(|(at, name)| Some((at, find(name)?))) {
        let from = (template, location);
        if let Some(node) = nodes.take(&location.shown) {
            last += 1;
            let machine = template::adopting(&observed.pool, cluster, from, node, last);
            plan.creations.push(machine);
            continue;
        }
        if adoption::is_awaited(observed, &location.shown) {
            continue;
        }
        let name = loop {
            last += 1;
            let name = template::name(&observed.pool, last);
            if !observed.is_taken(&name) {
                break name;
            }
        };
        let machine = template::machine(&observed.pool, cluster, from, &name, last);
        let machine = match at < sizing.for_lost {
            true => template::for_lost(machine),
            false => machine,
        };
        plan.creations.push(machine);
    }
    // As observed, so that a crash before the status is written loses nothing: whatever was made is
    // observed next time.
    plan.status.last_machine_number = Some(last).filter(|last| *last > 0);
    if !plan.creations.is_empty() {
        let made = list(plan.creations.iter().map(|m| m.name.clone()));
        let (reason, message) = match sizing.create.as_slice() {
            [to] if sizing.moves => (
                Reason::Rebalancing,
                format!("makes {made} in {to}, so that one above its share can go elsewhere"),
            ),
            _ => (Reason::ScalingUp, format!("makes {made}")),
        };
        plan.publish(false, reason, message);
    }
}

/// Machines that have nothing yet go where nodes run for which there is no place else.
fn give_way(
    plan: &mut Plan,
    observed: &Observed,
    cluster: &TenantCluster,
    template: &Template,
    sizing: &sizing::Sizing,
) {
    let is_deleted = |m: &Machine| plan.deletions.iter().any(|d| d.name == m.name_any());
    let gone = adoption::that_give_way(observed, cluster, template, sizing, is_deleted);
    if gone.is_empty() {
        return;
    }
    let nodes: Vec<_> = gone.iter().map(|(_, node)| *node).collect();
    let message = format!(
        "deletes {}, which wait for a Host: the nodes {} run already and take their place",
        list(gone.iter().map(|(machine, _)| machine.name_any())),
        nodes.join(", ")
    );
    plan.publish(false, Reason::Replacing, message);
    for (machine, _) in gone {
        plan.delete(machine, Reason::Replacing);
    }
}

/// Names for people: the first five, and how many more there are.
fn list(names: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 5;
    let names: Vec<_> = names.collect();
    let noun = if names.len() == 1 {
        "machine"
    } else {
        "machines"
    };
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => format!("{noun} {shown}"),
        more => format!("{noun} {shown} and {more} more"),
    }
}

/// How many Machines there are of each kind of trouble, for messages.
fn tally<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let parts = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"));
    parts.collect::<Vec<_>>().join(", ")
}
