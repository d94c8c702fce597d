//! What to do about a TenantCluster that is being deleted.
//!
//! Invariant: the tenant namespace is deleted by UID and only if it carries the UID of this very
//! TenantCluster; the finalizer goes only once the namespace is gone, or is somebody else's for
//! certain. Nothing waits for the tenant's API or etcd, so deletion does not depend on either being
//! up. The kubeconfig Secret and the bindings in the user's namespace go by their owner references; that by which keys
//! of Hosts are read is handed over to Hosts that are to be reset ([`handover`]).
//!
//! Pods are stopped and claims deleted first: the namespace controller would wait for half of the
//! grace period of every pod, and for eight seconds after every finalizer, that it still finds. That
//! is a matter of speed only, so after [`STOP_SECONDS`] the namespace is deleted with whatever is in
//! it.

use std::time::Duration;

use api::Reason;
use jiff::Timestamp;
use kit::events::Notice;
use kit_objects::known::Known;
use kit_objects::object::Key;
use serde_json::Value;
use tenant_cp::Settings;

/// How long pods and claims may take to go before the namespace is deleted all the same.
const STOP_SECONDS: i64 = 20;
/// Pause between two looks at what is going: there is no watch on pods.
const STOP_PAUSE: Duration = Duration::from_millis(300);

use super::handover;
use super::status;
use super::tenant_namespace::{Whose, whose};
use super::types::{Action, Part, Plan, Target};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

pub(super) fn plan(observed: &Observed, settings: &Settings, now: Timestamp) -> Plan {
    let meta = &observed.cluster.metadata;
    let ours = meta
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == api::names::FINALIZER);
    if !ours {
        return Plan::unchanged(observed);
    }
    let ns = observed.tenant_namespace();
    let mut plan = Plan::unchanged(observed);
    // Before anything goes, and again where it was taken away since.
    if let Some(part) = handover::plan(observed, settings) {
        plan.parts.push(part);
        return plan;
    }
    let mut part = Part::new(PartName::TenantNamespace);
    let live = match observed.find("Namespace", "", &ns) {
        Known::Known(live) => live,
        Known::Absent => return let_go(plan, observed, now),
        Known::Unknown { why } => {
            let message = format!("waits until the tenant namespace {ns} can be looked at: {why}");
            return waits(plan, observed, message, now);
        }
    };
    let going = !live["metadata"]["deletionTimestamp"].is_null();
    let until_gone = format!(
        "waits until the tenant namespace {ns} is gone{}",
        held_by(live)
    );
    let namespace_uid = live.pointer("/metadata/uid").and_then(Value::as_str);
    let namespace_uid = match (whose(observed, live), namespace_uid) {
        (Whose::Ours, Some(uid)) => uid,
        (Whose::Others, _) => return let_go(plan, observed, now),
        (Whose::Unlabelled, _) if going => return waits(plan, observed, until_gone, now),
        // What is in it may run on, and the operator may not write a namespace without the label.
        (Whose::Unlabelled, _) | (Whose::Ours, None) => {
            let (label, uid) = (
                api::names::LABEL_TENANT_UID,
                observed.cluster.identity_uid(),
            );
            let message = format!(
                "waits until somebody says whose the tenant namespace {ns} is: its label was taken off; \
                 give it the label {label}={uid} again, or another value if it is to stay, or delete it"
            );
            return waits(plan, observed, message, now);
        }
    };
    if !going && empty(&mut part, observed, &ns, now) {
        plan.parts.push(part);
        let message =
            format!("stops the pods in the tenant namespace {ns} and frees their volumes");
        let mut plan = waits(plan, observed, message, now);
        plan.requeue_after = Some(STOP_PAUSE);
        return plan;
    }
    if !going {
        part.deletions.push(Target {
            key: Key::new("Namespace", "", &ns),
            uid: namespace_uid.to_owned(),
            resource_version: None,
            with_dependents: false,
        });
        let message = format!("deletes the tenant namespace {ns} with everything in it");
        plan.events.push(Notice::normal(Reason::Deleting, message));
    }
    plan.parts.push(part);
    waits(plan, observed, until_gone, now)
}

/// Nothing of it is left, or nothing that is its own.
fn let_go(plan: Plan, observed: &Observed, now: Timestamp) -> Plan {
    match handover::is_awaited(observed, now) {
        Some(message) => waits(plan, observed, message, now),
        None => Plan::own(observed, Action::RemoveFinalizer),
    }
}

fn waits(mut plan: Plan, observed: &Observed, message: String, now: Timestamp) -> Plan {
    plan.waiting_on = Some(Waiting {
        reason: Reason::Deleting,
        message,
    });
    status::deleting(plan, observed, now)
}

/// True while there is something to wait for.
fn empty(part: &mut Part, observed: &Observed, ns: &str, now: Timestamp) -> bool {
    let since = observed
        .cluster
        .metadata
        .deletion_timestamp
        .as_ref()
        .map_or(now, |t| t.0);
    let kinds = ["Pod", "PersistentVolumeClaim"];
    let left = || {
        observed
            .objects
            .iter()
            .filter(|(key, _)| kinds.contains(&key.kind.as_str()))
    };
    if left().next().is_none() || now.duration_since(since).as_secs() >= STOP_SECONDS {
        return false;
    }
    if left().any(|(_, object)| object.pointer("/metadata/deletionTimestamp").is_none()) {
        part.actions.push(Action::Empty {
            namespace: ns.to_owned(),
        });
    }
    true
}

/// What the namespace controller says holds the namespace.
fn held_by(namespace: &Value) -> String {
    let conditions = namespace.pointer("/status/conditions");
    let conditions = conditions.and_then(|c| c.as_array());
    let texts: Vec<_> = conditions
        .into_iter()
        .flatten()
        .filter(|c| c["status"] == "True")
        .filter_map(|c| c["message"].as_str())
        .collect();
    if texts.is_empty() {
        String::new()
    } else {
        format!(": {}", texts.join("; "))
    }
}
