//! Turns one observation of one TenantCluster into the next step. No I/O, no clock, no chance.
//!
//! A part for each thing that can fail by itself. What one part needs of another (addresses, Secrets, a
//! turn to start) it takes from the observation, so the step after the one that made it goes on with it,
//! and whatever fails or waits holds up only what truly needs its value. Objects inside the tenant cluster
//! come last ([`tenant_objects`]); its API is asked whatever failed before.
//!
//! Invariant: planning again after applying yields an empty plan; a plan never says to write what
//! is already so, and never deletes what the spec wants.

use jiff::Timestamp;
use tenant_cp::{Settings, Validated, names, validate};

use super::observed::Observed;
use super::part_name::PartName;
use crate::rollouts::queue::Answer;
use crate::status::Waiting;

mod certificates;
mod deletion;
mod endpoint;
mod etcd;
mod halted;
mod kubeconfig;
mod pods;
mod prune;
mod status;
mod tenant_namespace;
pub mod tenant_objects;
mod types;
mod workloads;

use halted::Halt;
use types::rest_what_failed;
pub use types::{Action, Changes, LIST_SWEEP, Mode, Part, Plan, SLOW_SWEEP, Stage, Target};
use workloads::Objects;

/// The next step for one TenantCluster.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let cluster = &observed.cluster;
    if cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(observed, now);
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
    match validate::validate(cluster, settings) {
        Ok(valid) => plan_parts(&valid, observed, settings, now),
        Err(problems) => halted::plan(observed, &Halt::refused(&problems), now),
    }
}

fn plan_parts(valid: &Validated, observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let mut parts = vec![
        tenant_namespace::plan(valid, observed, settings),
        kubeconfig::binding(valid, observed, settings),
    ];
    // What cannot be read is not known to be absent: nothing else is planned by it.
    if observed.readable {
        parts.extend(parts_in_the_namespace(valid, observed, settings, now));
    }
    rest_what_failed(&mut parts, observed);
    let mut in_place = None;
    if observed.readable && parts.iter().all(Part::is_settled) {
        parts.push(prune::plan(valid, observed));
        rest_what_failed(&mut parts, observed);
    }
    // What was left goes before anything inside does.
    if observed.readable && parts.iter().all(Part::is_settled) {
        let (objects, hash) = tenant_objects::plan(valid, observed, settings);
        in_place = hash.filter(|_| !observed.failures.contains_key(&objects.name));
        parts.push(objects);
        rest_what_failed(&mut parts, observed);
    }
    status::report(parts, in_place, valid, observed, now)
}

fn parts_in_the_namespace(
    valid: &Validated,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> [Part; 7] {
    let addresses = endpoint::addresses(valid, observed);
    let addresses = addresses.as_ref();
    let its_turn = observed.is_started() || observed.start == Answer::Go;
    let mut base = Objects::base(valid, settings);
    let mut pods = match addresses {
        Some(addresses) if its_turn && (addresses.endpoint.is_some() || observed.is_started()) => {
            Objects::workloads(valid, observed, settings, addresses)
        }
        _ => Objects::none(),
    };
    let mut part = |name, base_stage, pods_stage| {
        let mut part = Part::new(name);
        part.apply(base_stage, observed, base.take(name));
        part.apply(pods_stage, observed, pods.take(name));
        part
    };
    let policies = part(PartName::NetworkPolicies, "network policies", "");
    let mut control_plane = part(PartName::ControlPlane, "base of the control plane", "pods");
    let adapters = part(PartName::Adapters, "base of the adapters", "adapters");
    control_plane.problem = pods::lasting_failure(observed, names::CONTROL_PLANE);
    if !its_turn {
        control_plane.waiting = Some(Waiting {
            reason: "WaitingForStart",
            message: "other control planes start first: users' namespaces take turns".to_owned(),
        });
    }
    let members = pods.take(PartName::Etcd).pop();
    [
        certificates::plan(valid, observed, settings, addresses, its_turn, now),
        endpoint::plan(valid, observed, base.take(PartName::Endpoint), addresses),
        policies,
        etcd::plan(valid, observed, base.take(PartName::Etcd), members),
        control_plane,
        adapters,
        kubeconfig::plan(valid, observed, addresses, its_turn),
    ]
}
