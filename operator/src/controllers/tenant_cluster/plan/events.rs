//! The etcd that has Events alone: whether kube-apiservers are told of it, and how it goes once it is not wanted any more.
//!
//! Invariant: nothing waits for it. Where it does not work, or what is seen of it says nothing, everything else goes on.

use std::time::Duration;

use api::Reason;
use api::tenant_cluster::EncryptionStatus;
use jiff::Timestamp;
use kit_objects::object::{Key, Object};
use serde_json::Value;
use tenant_cp::desired::etcd_events;
use tenant_cp::flags::apiserver::EVENTS_ELSEWHERE;
use tenant_cp::rollout::order::Progress;
use tenant_cp::validate::validated::{Etcd, EtcdEvents};
use tenant_cp::{Validated, names};

use super::etcd::sizes::argument;
use super::pods;
use super::types::{Part, Target};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::observed::component_pods::{number, rolled_out};
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::etcd_events::{Decision, PATIENCE, PAUSE, Seen, Store, decide};
use crate::rollouts::queue::Answer;
use crate::rotation::told::goes_on;
use crate::status::Waiting;
use crate::upgrades::versions;

/// The tenant cluster with what is decided of Events now.
pub(super) fn as_it_is(valid: Validated, observed: &Observed, now: Timestamp) -> Validated {
    let Some(events) = valid.etcd.events.clone() else {
        return valid;
    };
    let decided = decision(observed, now);
    let lost = match may_roll(observed) {
        true => decided.lost,
        false => noted(observed),
    };
    let events = EtcdEvents {
        named: decided.named,
        lost: lost.map(|lost| lost.to_string()),
        ..events
    };
    let etcd = Etcd {
        events: Some(events),
        ..valid.etcd
    };
    Validated { etcd, ..valid }
}

/// When to decide again although nothing happened.
pub(super) fn again(valid: &Validated, observed: &Observed, now: Timestamp) -> Option<Duration> {
    valid.etcd.events.as_ref()?;
    decision(observed, now).again
}

fn decision(observed: &Observed, now: Timestamp) -> Decision {
    decide(&Seen {
        named: live(observed, names::CONTROL_PLANE).is_some_and(names_it),
        store: store(observed),
        lost: noted(observed),
        calm: is_calm(observed),
        now,
    })
}

/// When it was last lost, as its Deployment bears it.
fn noted(observed: &Observed) -> Option<Timestamp> {
    let events = live(observed, names::ETCD_EVENTS)?;
    let lost = &events["metadata"]["annotations"][names::EVENTS_LOST];
    lost.as_str()?.parse().ok()
}

/// Whether kube-apiservers may be made from another template in this very step. Since when it is lost is noted beside
/// that and not before: a Deployment is of another generation once an annotation of it changes (kubernetes
/// `pkg/registry/apps/deployment/strategy.go`), and until its controller has seen that nobody knows how it is.
fn may_roll(observed: &Observed) -> bool {
    observed.turn == Some(Answer::Go) || !observed.has_been_ready()
}

fn live<'a>(observed: &'a Observed, deployment: &str) -> Option<&'a Value> {
    let ns = observed.tenant_namespace();
    observed.find("Deployment", &ns, deployment).there()
}

/// Whether the kube-apiservers of a Deployment are told of it.
pub(super) fn names_it(deployment: &Value) -> bool {
    argument(deployment, &format!("--{EVENTS_ELSEWHERE}=")).is_some()
}

/// What its Deployment says, which calls it available once its pod has been ready for half a minute.
fn store(observed: &Observed) -> Store {
    let Some(events) = live(observed, names::ETCD_EVENTS) else {
        return Store::Unknown;
    };
    let number = |pointer| number(events, pointer).unwrap_or(0);
    let is_going = !events["metadata"]["deletionTimestamp"].is_null();
    let is_seen = number("/status/observedGeneration") >= number("/metadata/generation");
    // While the tenant cluster sleeps it has no pod, and no kube-apiserver misses it.
    let is_held = number("/spec/replicas") == 0;
    if is_going || !is_seen || is_held {
        return Store::Unknown;
    }
    let conditions = events
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let Some(available) = conditions.find(|condition| condition["type"] == "Available") else {
        return Store::Unknown;
    };
    let ready = number("/status/readyReplicas") > 0;
    let since = available["lastTransitionTime"].as_str();
    match (available["status"].as_str(), ready, since.map(str::parse)) {
        (Some("True"), true, _) => Store::Steady,
        (Some("False"), true, _) => Store::Ready,
        (Some("False"), false, Some(Ok(since))) => Store::Away(since),
        _ => Store::Unknown,
    }
}

/// Whether a rollout of the control plane may begin for it: none goes on, and no flow does.
fn is_calm(observed: &Observed) -> bool {
    let Some(control_plane) = live(observed, names::CONTROL_PLANE) else {
        // The next ones are told from the start.
        return true;
    };
    let status = observed.cluster.status.as_ref();
    let of = rolled_out(control_plane);
    let rollout = observed.rollout();
    let is_over = of.is_some() && rollout.is_some_and(|rollout| rollout.control_plane == of);
    let is_flow = status.is_some_and(|status| {
        let mut rotations = status.rotation.iter();
        let replaces = status
            .etcd
            .as_ref()
            .is_some_and(|etcd| etcd.replacing.is_some());
        status.restore.is_some()
            || status.hibernation.is_some()
            || replaces
            || status
                .encryption
                .as_ref()
                .is_some_and(EncryptionStatus::goes_on)
            || rotations.any(goes_on)
    });
    is_over && !is_flow && observed.was_ready() && versions::wanted(&observed.cluster).is_none()
}

/// `base` and `workload`: what is wanted of it; nothing where it is not wanted.
pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    (base, workload): (Vec<Object>, Vec<Object>),
    control_plane: Progress,
    now: Timestamp,
) -> Part {
    let mut part = Part::new(PartName::EtcdEvents);
    if valid.etcd.events.is_none() {
        part.deletions = left(valid, observed, control_plane);
        return part;
    }
    part.apply("base of the etcd of Events", observed, base);
    part.apply("etcd of Events", observed, workload);
    let Store::Away(since) = store(observed) else {
        return part;
    };
    let away = now.duration_since(since);
    if observed.has_been_ready() && away >= PATIENCE {
        part.problem = Some(told(observed));
    }
    let is_used = !(control_plane == Progress::Current
        && live(observed, names::CONTROL_PLANE).is_some_and(|live| !names_it(live)));
    if away >= PAUSE && !is_used {
        part.deletions = broken(observed);
    }
    part
}

fn told(observed: &Observed) -> Waiting {
    let why = pods::failure(observed, names::ETCD_EVENTS);
    let why = why.map(|failure| format!(": {}", failure.message));
    Waiting {
        reason: Reason::EventsUnavailable,
        message: format!(
            "the etcd for Events (Deployment etcd-events) has no pod that is ready{}; Events are kept with \
             everything else until it has been ready for half a minute",
            why.unwrap_or_default()
        ),
    }
}

/// What is left of it, once no kube-apiserver is told of it any more; what runs goes first.
fn left(valid: &Validated, observed: &Observed, control_plane: Progress) -> Vec<Target> {
    let is_named = live(observed, names::CONTROL_PLANE).is_some_and(names_it);
    if is_named || (control_plane != Progress::Current && observed.has_been_ready()) {
        return Vec::new();
    }
    let parts = etcd_events::parts(&valid.tenant_namespace).into_iter();
    let targets = parts.filter_map(|key| Target::seen(&observed.objects, key));
    targets.collect()
}

/// A pod of it that runs and has not become ready for long: its database is full, or its data is damaged. Another one
/// begins with nothing, and nobody asks this one any more.
fn broken(observed: &Observed) -> Vec<Target> {
    let pods = observed.pods.iter().flatten();
    let mut its = pods.filter(|pod| pod.component == names::ETCD_EVENTS);
    let target = its
        .find(|pod| !pod.ready && !pod.terminating)
        .and_then(|pod| {
            let key = Key::new("Pod", &observed.tenant_namespace(), &pod.name);
            let live = observed.objects.get(&key)?;
            // One that waits for a node or an image would wait again.
            let runs = live["status"]["phase"] == "Running";
            runs.then(|| Target::seen(&observed.objects, key)).flatten()
        });
    target.into_iter().collect()
}
