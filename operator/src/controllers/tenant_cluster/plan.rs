//! Turns one observation of one TenantCluster into the next step. No I/O, no clock, no chance.
//!
//! A part for each thing that can fail by itself. What one part needs of another (addresses, Secrets, a
//! turn to start) it takes from the observation, so the step after the one that made it goes on with it,
//! and whatever fails or waits holds up only what truly needs its value. Objects inside the tenant cluster
//! come last ([`tenant_objects`]); its API is asked whatever failed before.
//!
//! Invariant: planning again after applying yields an empty plan; a plan never says to write what
//! is already so, and never deletes what the spec wants.

use std::collections::BTreeSet;

use api::Reason;
use jiff::Timestamp;
use kit_objects::object::Object;
use tenant_cp::rollout::order::{self, Allowed, Facts, Progress};
use tenant_cp::rollout::template;
use tenant_cp::{Addresses, Settings, Validated, management_objects, names, validate};

use super::observed::{Observed, Tenant};
use super::part_name::PartName;
use crate::restoring::{ALL, Workload, begin};
use crate::rollouts::queue::Answer;
use crate::status::Waiting;

mod awaited;
mod backup;
mod certificates;
mod deletion;
mod endpoint;
mod etcd;
mod halted;
mod handover;
mod kubeconfig;
mod pods;
mod prune;
mod restoring;
mod rollout;
mod status;
mod tenant_namespace;
pub mod tenant_objects;
pub mod types;
mod workloads;

use etcd::Care;
use halted::Halt;
use rollout::Rollout;
use types::rest_what_failed;
pub use types::{Action, Changes, LIST_SWEEP, Mode, Part, Plan, SLOW_SWEEP, Stage, Target};
use workloads::Objects;

/// The next step for one TenantCluster.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let mut plan = decide(observed, settings, now);
    if observed.cluster.metadata.deletion_timestamp.is_none() {
        backup::report(&mut plan.status, observed, now);
    }
    plan
}

fn decide(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let cluster = &observed.cluster;
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
    match valid.map(|valid| etcd::sizes::as_it_is(valid, observed)) {
        Ok(valid) => match restoring::own(&valid, observed, now) {
            Some(action) => Plan::own(observed, action),
            None => plan_parts(&valid, observed, settings, now),
        },
        Err(problems) => halted::plan(observed, &Halt::refused(&problems), now),
    }
}

fn plan_parts(valid: &Validated, observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let mut parts = vec![
        tenant_namespace::plan(valid, observed, settings),
        kubeconfig::binding(valid, observed, settings),
    ];
    let namespace = NamespacePlan::new(valid, observed, settings);
    let facts = namespace.facts(observed, settings);
    let Rollout { allowed, part } = rollout::plan(observed, facts);
    let restoring = restoring::next(valid, observed, now);
    let held = restoring.as_ref().map(|next| next.held.clone());
    let mut held = held.unwrap_or_default();
    if begin::awaits(&observed.cluster) {
        held.extend(ALL);
    }
    // What cannot be read is not known to be absent: nothing else is planned by it.
    if observed.readable {
        if let Some(next) = &restoring {
            parts.push(restoring::part(valid, observed, settings, next));
        }
        parts.push(part);
        let care = restoring::care(&observed.cluster, restoring.as_ref());
        // What only helps later comes after everything else (operations.md §1.2, law 5).
        let rests = facts.wanted().is_none() && observed.was_ready();
        let may = (allowed, rests, care, &held);
        parts.extend(namespace.parts(valid, observed, settings, may, now));
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
    status::report(parts, in_place, facts, valid, observed, now)
}

/// Whether kube-controller-manager, kube-scheduler and the Cluster Autoscaler may be there. They wait for an API
/// that does not answer yet, but longer after each try, up to ten seconds, or end: made when it answers they
/// work sooner, and take no processors from a kube-apiserver that starts.
fn has_answered(observed: &Observed) -> bool {
    observed.has_been_ready() || matches!(observed.tenant, Tenant::Answers { .. })
}

/// What is wanted in the tenant namespace, before anybody asks whether it may be changed now.
struct NamespacePlan {
    addresses: Option<Addresses>,
    /// Whether it may start, or has.
    its_turn: bool,
    /// None while pods cannot be asked for.
    workloads: Vec<Object>,
    /// How far etcd, the control plane and its controllers are.
    progress: [Progress; 3],
    /// Why etcd stays as it is.
    etcd_is_held: Option<Waiting>,
    /// The tenant cluster as what follows its control plane and controllers sees it.
    served: Validated,
}

impl NamespacePlan {
    fn new(valid: &Validated, observed: &Observed, settings: &Settings) -> Self {
        let addresses = endpoint::addresses(valid, observed);
        let is_started = observed.started().there().is_some();
        let its_turn = is_started || observed.start == Answer::Go;
        let can_start =
            |addresses: &&Addresses| its_turn && (addresses.endpoint.is_some() || is_started);
        let material = &observed.material;
        let of = |valid: &Validated| match addresses.as_ref().filter(can_start) {
            Some(addresses) => management_objects::workloads(valid, settings, addresses, material),
            None => Vec::new(),
        };
        let smaller = etcd::volumes::smaller(valid, observed);
        let mut workloads = of(smaller.as_ref().unwrap_or(valid));
        let etcd_is_held = rollout::hold_etcd(&mut workloads, observed);
        let progress = |workloads: &[Object], kind, name, replicas| {
            rollout::progress(observed, workloads, (kind, name), replicas)
        };
        // What follows is of the version that serves.
        let follow = |workloads: &mut Vec<Object>, served: &Validated, part: PartName| {
            let follows = |object: &Object| workloads::part_of(object) == part;
            if served.version != valid.version {
                workloads.retain(|object| !follows(object));
                workloads.extend(of(served).into_iter().filter(follows));
            }
        };
        let etcd = progress(&workloads, "StatefulSet", names::ETCD, valid.etcd.replicas);
        let deployment =
            |workloads: &[Object], name| progress(workloads, "Deployment", name, valid.replicas);
        let control_plane = deployment(&workloads, names::CONTROL_PLANE);
        let served = rollout::as_seen_after(valid, observed, control_plane);
        follow(&mut workloads, &served, PartName::Controllers);
        let has_answered = has_answered(observed);
        workloads.retain(|object| has_answered || !workloads::needs_the_api(object));
        let controllers = deployment(&workloads, names::CONTROLLERS);
        let programs = order::programs(control_plane, controllers);
        let served = rollout::as_seen_after(valid, observed, programs);
        follow(&mut workloads, &served, PartName::Adapters);
        workloads.retain(|object| has_answered || !workloads::needs_the_api(object));
        Self {
            addresses,
            its_turn,
            workloads,
            progress: [etcd, control_plane, controllers],
            etcd_is_held,
            served,
        }
    }

    /// What is wanted inside the tenant cluster: dozens of objects, so nobody asks who need not know.
    fn inside(&self, observed: &Observed, settings: &Settings) -> Option<tenant_objects::Wanted> {
        let addresses = self.addresses.as_ref()?;
        tenant_objects::Wanted::new(&self.served, observed, settings, addresses)
    }

    fn facts(&self, observed: &Observed, settings: &Settings) -> Facts {
        let [etcd, control_plane, controllers] = self.progress;
        let known = observed.rollout();
        let other_templates = known.and_then(|r| r.templates.as_ref()) != Some(&observed.templates);
        let is_behind = |wanted: &Object| {
            let live = observed.objects.get(&wanted.key());
            workloads::part_of(wanted) == PartName::Adapters
                && live.is_some_and(|live| template::is_behind(wanted, live))
        };
        // Where the templates are those that it runs from, only its user can want something else.
        let rest_is_behind = other_templates
            && observed.has_been_ready()
            && (self.workloads.iter().any(is_behind)
                || self
                    .inside(observed, settings)
                    .is_some_and(|inside| !inside.is_in_place(observed)));
        Facts {
            etcd,
            control_plane,
            controllers,
            rest_is_behind,
            has_run: observed.has_been_ready() && !self.workloads.is_empty(),
            was_current: known.is_some_and(|r| {
                // Before there were controllers apart, all was current with the other two.
                let controllers = r.controllers.is_some() || r.templates.is_some();
                r.etcd.is_some() && r.control_plane.is_some() && controllers
            }),
            other_templates,
            wanted_now: rollout::is_wanted_now(observed, &self.workloads),
            keys_are_lost: rollout::are_keys_lost(observed),
        }
    }

    fn parts(
        &self,
        valid: &Validated,
        observed: &Observed,
        settings: &Settings,
        (allowed, rests, care, held): (Allowed, bool, Care, &BTreeSet<Workload>),
        now: Timestamp,
    ) -> [Part; 9] {
        let addresses = self.addresses.as_ref();
        let mut base = Objects::base(valid, settings);
        let mut workloads = rollout::held_back(self.workloads.clone(), observed, allowed);
        restoring::hold(&mut workloads, held);
        if care == Care::Awaited {
            // Not one pod is asked for yet, and no place among those that start.
            workloads.clear();
        }
        let mut pods = Objects::workloads(workloads, observed);
        let mut part = |name, base_stage, pods_stage| {
            let mut part = Part::new(name);
            part.apply(base_stage, observed, base.take(name));
            part.apply(pods_stage, observed, pods.take(name));
            part
        };
        let policies = part(PartName::NetworkPolicies, "network policies", "");
        let mut control_plane = part(PartName::ControlPlane, "base of the control plane", "pods");
        let base_of_controllers = "base of the controllers";
        let mut controllers = part(PartName::Controllers, base_of_controllers, "controllers");
        let adapters = part(PartName::Adapters, "base of the adapters", "adapters");
        control_plane.problem = pods::problem(observed, names::CONTROL_PLANE);
        controllers.problem = pods::problem(observed, names::CONTROLLERS);
        if !self.its_turn {
            control_plane.waiting = Some(Waiting {
                reason: Reason::WaitingForStart,
                message: "other control planes start first: users' namespaces take turns"
                    .to_owned(),
            });
        }
        let members = pods.take(PartName::Etcd).pop();
        let etcd_base = base.take(PartName::Etcd);
        let is_claim = |object: &&Object| object.kind == "PersistentVolumeClaim";
        let claims = etcd_base.iter().filter(is_claim).cloned().collect();
        let may = (allowed.etcd, rests, care);
        let mut etcd = etcd::plan(valid, observed, etcd_base, members, may, now);
        etcd.problem = etcd.problem.or_else(|| self.etcd_is_held.clone());
        [
            certificates::plan(valid, observed, settings, addresses, self.its_turn, now),
            endpoint::plan(valid, observed, base.take(PartName::Endpoint), addresses),
            policies,
            etcd,
            etcd::volumes::plan(valid, observed, claims),
            control_plane,
            controllers,
            adapters,
            kubeconfig::plan(valid, observed, addresses, self.its_turn),
        ]
    }
}
