//! Turns one observation of one TenantCluster into the next step. No I/O, no clock, no chance.
//!
//! A part for each thing that can fail by itself. What one part needs of another (addresses, Secrets, a
//! turn to start) it takes from the observation, so the step after the one that made it goes on with it,
//! and whatever fails or waits holds up only what truly needs its value. Objects inside the tenant cluster
//! come last ([`tenant_objects`]); its API is asked whatever failed before.
//!
//! Invariant: planning again after applying yields an empty plan; a plan never says to write what
//! is already so, and never deletes what the spec wants.

use std::net::IpAddr;

use jiff::Timestamp;
use tenant_cp::{Settings, Validated, validate};

use super::observed::Observed;
use crate::restoring::{ALL, Workload, begin};

mod awaited;
mod backup;
mod certificates;
mod deletion;
mod endpoint;
mod etcd;
mod events;
mod halted;
mod handed_over;
mod handover;
mod hibernation;
mod kubeconfig;
mod namespace;
mod pods;
mod prune;
mod restoring;
mod rollout;
mod rotation;
mod status;
mod tenant_namespace;
pub mod tenant_objects;
pub mod types;
mod upgrade;
mod workloads;

use halted::Halt;
use hibernation::Sleep;
use namespace::NamespacePlan;
use rollout::Rollout;
use rotation::Rotations;
use rotation::seen::HowFar;
use types::rest_what_failed;
pub use types::{Action, Changes, LIST_SWEEP, Mode, Part, Plan, SLOW_SWEEP, Stage, Target};
use upgrade::Upgrade;

/// The next step for one TenantCluster.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = decide(observed, settings, now);
    if observed.cluster.metadata.deletion_timestamp.is_none() {
        backup::report(&mut plan.status, observed, now);
    }
    status::conditions::keep_transition_times(&mut plan.status, observed);
    plan
}

fn decide(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let cluster = &observed.cluster;
    if let Some(plan) = handed_over::plan(observed, settings) {
        return plan;
    }
    if cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(observed, settings, now);
    }
    if let Some(why) = tenant_namespace::taken(observed) {
        return halted::plan(observed, &Halt::Taken(why), now);
    }
    if cluster.spec.paused {
        return halted::plan(observed, &Halt::Paused, now);
    }
    let finalizers = cluster.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|f| f == api::names::FINALIZER) {
        return Plan::own(observed, Action::AddFinalizer);
    }
    // Before it has address ranges: they are bounded, too.
    if !observed.quotas.is_empty() {
        return halted::plan(observed, &Halt::refused(&observed.quotas), now);
    }
    if !observed.standby.is_empty() {
        return Plan::own(observed, Action::TakeOver(observed.standby.clone()));
    }
    let ranges = match &observed.network {
        Ok(ranges) => ranges,
        Err(problem) => {
            let halt = Halt::refused(std::slice::from_ref(problem));
            return halted::plan(observed, &halt, now);
        }
    };
    if cluster.status.as_ref().and_then(|s| s.network.as_ref()) != Some(ranges) {
        return Plan::own(observed, Action::KeepNetwork(ranges.clone()));
    }
    let valid = validate::validate(cluster, settings);
    match valid.map(|valid| {
        let valid = etcd::sizes::as_it_is(valid, observed);
        events::as_it_is(valid, observed, now)
    }) {
        Ok(valid) => match restoring::own(&valid, observed, now) {
            Some(action) => Plan::own(observed, action),
            None => plan_parts(&valid, observed, settings, now),
        },
        Err(problems) => halted::plan(observed, &Halt::refused(&problems), now),
    }
}

fn plan_parts(valid: &Validated, observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let upgrade = Upgrade::new(valid, observed, settings, now);
    let now_wanted = upgrade.as_it_is_now(valid, observed);
    let valid = now_wanted.as_ref().unwrap_or(valid);
    let as_it_is = rotation::as_it_is(observed);
    let observed = &*as_it_is;
    let with_kms = rotation::with_kms(valid, observed);
    let valid = with_kms.as_ref().unwrap_or(valid);
    let known_kms = settings.encryption.kms.iter();
    let known_kms = known_kms.map(|plugin| plugin.name.clone()).collect();
    let mut parts = vec![
        tenant_namespace::plan(valid, observed, settings),
        kubeconfig::binding(valid, observed, settings),
    ];
    let restoring = restoring::next(valid, observed, now);
    let mut namespace = NamespacePlan::new(valid, observed, settings);
    let busy = busy(&upgrade, restoring.is_some(), observed);
    let is_busy = busy.or_else(|| hibernation::busy(observed));
    let scheduled = crate::hibernation::scheduled(&observed.cluster, now);
    let sleep = Sleep::new(observed, scheduled, is_busy, restoring.is_some(), now);
    let sleep = sleep.filter(|_| observed.readable);
    let sleeps = sleep.as_ref().is_some_and(Sleep::is_on);
    let members = etcd::identity::addresses(valid, observed);
    let how_far = HowFar {
        progress: namespace.progress,
        has_other: &|annotation| namespace.has_other(annotation, observed),
        are_addons_current: &|| namespace.are_addons_current(observed),
        busy: busy.or(sleeps.then_some("the tenant cluster to wake")),
        api: api_of(valid, observed),
        members: &members,
        known_kms: &known_kms,
        now,
    };
    let rotations = Rotations::new(observed, how_far);
    let signs_anew = rotations.as_it_is_now(observed);
    if let Some(now_observed) = &signs_anew {
        namespace = NamespacePlan::new(valid, now_observed, settings);
    }
    let observed = signs_anew.as_ref().unwrap_or(observed);
    let goes_on = upgrade.goes_on() && !upgrade.is_own(observed);
    let takes_patch = upgrade.takes_patch(observed);
    let facts = namespace.facts(observed, settings, (goes_on, takes_patch));
    let Rollout { mut allowed, part } =
        rollout::plan(observed, facts, upgrade.keeps_its_place(observed), now);
    rotations.allow(&mut allowed);
    let held = restoring.as_ref().map(|next| next.held.clone());
    let mut held = held.unwrap_or_default();
    if begin::awaits(&observed.cluster) {
        held.extend(ALL);
    }
    held.extend(sleep.iter().flat_map(Sleep::held));
    // What cannot be read is not known to be absent: nothing else is planned by it.
    if observed.readable {
        if let Some(next) = &restoring {
            parts.push(restoring::part(valid, observed, settings, next));
        }
        // Who sleeps waits for no turn.
        parts.extend(Some(part).filter(|_| !sleeps));
        let care = restoring::care(&observed.cluster, restoring.as_ref());
        let care = sleep.as_ref().map_or(care, |sleep| sleep.care(care));
        // What only helps later comes after everything else (operations.md §1.2, law 5).
        let rests = facts.wanted().is_none() && observed.was_ready();
        let may = (allowed, rests, care, (&held, sleep.as_ref()));
        parts.extend(namespace.parts(valid, observed, settings, may, &rotations, now));
        parts.push(rotations.part(observed, now));
        parts.extend(sleep.as_ref().map(|sleep| sleep.part(valid, observed)));
    }
    rest_what_failed(&mut parts, observed);
    let mut in_place = None;
    // Nobody is there to ask, or to write to, while no control plane may run.
    let is_held = held.contains(&Workload::ControlPlane);
    let is_open = observed.readable && !is_held;
    if is_open && parts.iter().all(Part::is_settled) {
        parts.push(prune::plan(valid, observed, facts.control_plane));
        rest_what_failed(&mut parts, observed);
    }
    // What was left goes before anything inside does.
    if is_open && parts.iter().all(Part::is_settled) {
        let inside = namespace.inside(observed, settings);
        let (objects, hash) = tenant_objects::plan(valid, observed, inside, allowed);
        in_place = hash.filter(|_| !observed.failures.contains_key(&objects.name));
        parts.push(objects);
        rest_what_failed(&mut parts, observed);
    }
    let is_settled = is_open && parts.iter().all(Part::is_settled);
    // It takes effect when it wakes.
    if !sleeps {
        parts.push(upgrade.part(valid, observed, is_settled, now));
    }
    if is_settled && parts.iter().all(Part::is_settled) {
        parts.extend(hibernation::idle::part(observed, now));
    }
    let mut plan = status::report(parts, in_place, facts, valid, observed, now);
    upgrade.report(&mut plan, observed, now);
    rotations.report(&mut plan, observed, now);
    if let Some(sleep) = &sleep {
        sleep.report(&mut plan, observed, now);
    }
    hibernation::idle::report(&mut plan, observed, sleep.as_ref(), now);
    hibernation::wake_up(&mut plan, observed, scheduled, now);
    plan
}

/// Where the tenant's API is asked.
fn api_of(valid: &Validated, observed: &Observed) -> Option<(IpAddr, u16)> {
    let addresses = endpoint::addresses(valid, observed)?;
    Some((addresses.cluster_ip, endpoint::service_port(valid)))
}

/// What changes a tenant cluster so that no rotation goes on beside it (operations.md §1.2, law 5).
fn busy(upgrade: &Upgrade, is_restored: bool, observed: &Observed) -> Option<&'static str> {
    match (observed.has_been_ready(), is_restored) {
        (false, _) => Some("the API to answer for the first time"),
        (true, true) => Some("the Restore to be over"),
        (true, false) => upgrade.goes_on().then_some("the upgrade to be over"),
    }
}
