//! What to do about a TenantCluster that is being deleted.
//!
//! Invariant: the tenant namespace is deleted by UID and only if it carries the UID of this very
//! TenantCluster; the finalizer goes only once the namespace is gone. Nothing waits for the
//! tenant's API or etcd, so deletion does not depend on either being up. The kubeconfig Secret and
//! the bindings in the user's namespace go by their owner references.
//!
//! Pods are stopped and claims deleted first: the namespace controller would wait for half of the
//! grace period of every pod, and for eight seconds after every finalizer, that it still finds. That
//! is a matter of speed only, so after [`STOP_SECONDS`] the namespace is deleted with whatever is in
//! it.

use std::time::Duration;

use api::Reason;
use jiff::Timestamp;
use kit::events::Notice;
use tenant_cp::object::Key;

/// How long pods and claims may take to go before the namespace is deleted all the same.
const STOP_SECONDS: i64 = 20;
/// Pause between two looks at what is going: there is no watch on pods.
const STOP_PAUSE: Duration = Duration::from_millis(300);

use super::status;
use super::types::{Action, Part, Plan, Target};
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;
use crate::status::Waiting;

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let meta = &observed.cluster.metadata;
    let ours = meta
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == api::names::FINALIZER);
    if !ours {
        return Plan::unchanged(observed);
    }
    let (name, uid) = (
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
    );
    let ns = api::names::tenant_namespace(name, uid);
    let mut plan = Plan::unchanged(observed);
    let mut part = Part::new(PartName::TenantNamespace);
    let label = format!(
        "/metadata/labels/{}",
        api::names::LABEL_TENANT_UID.replace('/', "~1")
    );
    let belongs = observed.text("Namespace", "", &ns, &label) == Some(uid);
    let Some(namespace_uid) = observed
        .text("Namespace", "", &ns, "/metadata/uid")
        .filter(|_| belongs)
    else {
        return Plan::own(observed, Action::RemoveFinalizer);
    };
    let going = observed
        .text("Namespace", "", &ns, "/metadata/deletionTimestamp")
        .is_some();
    if !going && empty(&mut part, observed, &ns, now) {
        plan.parts.push(part);
        let message =
            format!("stops the pods in the tenant namespace {ns} and frees their volumes");
        plan.waiting_on = Some(Waiting {
            reason: Reason::Deleting,
            message,
        });
        let mut plan = status::deleting(plan, observed, now);
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
    plan.waiting_on = Some(Waiting {
        reason: Reason::Deleting,
        message: format!(
            "waits until the tenant namespace {ns} is gone{}",
            held_by(observed, &ns)
        ),
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
fn held_by(observed: &Observed, ns: &str) -> String {
    let conditions = observed
        .object("Namespace", "", ns)
        .and_then(|n| n.pointer("/status/conditions"))
        .and_then(|c| c.as_array());
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
