//! Whether kube-controller-manager and kube-scheduler work, as far as their pods say.
//!
//! The API answers without them, and nothing that is written there is carried out. A pod is ready while both
//! programs run, also in the seconds between two ends of one that crashes; so after a crash it counts only
//! once it has run as long as its Deployment asks for (`minReadySeconds`).
//! Invariant: a program that ends again and again is never said to work in between.

use api::{ConditionType, Reason};
use kit_objects::known::Known;
use serde_json::Value;
use tenant_cp::names;

use super::super::pods;
use super::conditions::Conditions;
use crate::controllers::tenant_cluster::observed::Observed;

/// What is known of the Deployment.
struct Counts {
    wanted: i64,
    ready: i64,
    /// Those that have been ready for a while.
    available: i64,
}

fn counts(observed: &Observed) -> Known<Counts> {
    let ns = observed.tenant_namespace();
    let deployment = observed.find("Deployment", &ns, names::CONTROLLERS);
    deployment.map(|deployment| {
        let number = |pointer: &str| deployment.pointer(pointer).and_then(Value::as_i64);
        Counts {
            wanted: number("/spec/replicas").unwrap_or(1),
            ready: number("/status/readyReplicas").unwrap_or(0),
            available: number("/status/availableReplicas").unwrap_or(0),
        }
    })
}

/// How many pods count.
fn working(set: &Conditions<'_>, counts: &Counts) -> i64 {
    let told = set.told(ConditionType::ControllersReady);
    match told.is_some_and(|told| told.reason == Reason::CrashLooping) {
        true => counts.available.min(counts.ready),
        false => counts.ready,
    }
}

pub(in super::super) fn report(set: &mut Conditions<'_>, observed: &Observed) {
    let type_ = ConditionType::ControllersReady;
    let counts = match counts(observed) {
        Known::Known(counts) => counts,
        Known::Absent => {
            let message = "they are made once the API answers";
            set.set(type_, false.into(), Reason::PodsNotReady, message);
            return;
        }
        Known::Unknown { .. } => return,
    };
    let (working, wanted) = (working(set, &counts), counts.wanted);
    let message = format!("{working} of {wanted} pods are ready");
    match pods::failure(observed, names::CONTROLLERS) {
        _ if wanted > 0 && working >= wanted => {
            set.set(type_, true.into(), Reason::PodsReady, &message);
        }
        Some(failure) => {
            let message = format!("{message}; {}", failure.message);
            set.set(type_, false.into(), failure.reason, &message);
        }
        // It was started again, and has not run for long: what was said stays.
        None if working < counts.ready => {}
        None => set.set(type_, false.into(), Reason::PodsNotReady, &message),
    }
}

/// Why nothing is carried out, where no pod works; after [`report`].
pub(in super::super) fn missing(set: &Conditions<'_>, observed: &Observed) -> Option<String> {
    let works = match counts(observed) {
        Known::Known(counts) => working(set, &counts) > 0,
        Known::Absent => false,
        // It stays as it was.
        Known::Unknown { .. } => true,
    };
    if works {
        return None;
    }
    let told = set.told(ConditionType::ControllersReady);
    let why = told.map_or("", |told| told.message.as_str());
    Some(format!(
        "the API answers, but no kube-controller-manager and kube-scheduler work on what is written: {why}"
    ))
}
