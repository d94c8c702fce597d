//! What to do about a TenantCluster that is being deleted.
//!
//! Invariant: the tenant namespace is deleted by UID and only if it carries the UID of this very
//! TenantCluster; the finalizer goes only once the namespace is gone. Nothing waits for the
//! tenant's API or etcd, so deletion does not depend on either being up. The kubeconfig Secret and
//! the binding in the user's namespace go by their owner references.

use jiff::Timestamp;
use tenant_cp::object::Key;

use super::{Action, Notice, Plan, Target, Waiting, status, unchanged};
use crate::tenant_cluster::observed::Observed;

pub(super) fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let meta = &observed.cluster.metadata;
    let ours = meta.finalizers.iter().flatten().any(|f| f == api::names::FINALIZER);
    if !ours {
        return unchanged(observed);
    }
    let (name, uid) =
        (meta.name.as_deref().unwrap_or_default(), meta.uid.as_deref().unwrap_or_default());
    let ns = api::names::tenant_namespace(name, uid);
    let mut plan = unchanged(observed);
    let label = format!("/metadata/labels/{}", api::names::LABEL_TENANT_UID.replace('/', "~1"));
    let belongs = observed.text("Namespace", "", &ns, &label) == Some(uid);
    let Some(namespace_uid) = observed.text("Namespace", "", &ns, "/metadata/uid").filter(|_| belongs)
    else {
        plan.actions.push(Action::RemoveFinalizer);
        return plan;
    };
    if observed.text("Namespace", "", &ns, "/metadata/deletionTimestamp").is_none() {
        plan.deletions.push(Target {
            key: Key::new("Namespace", "", &ns),
            uid: namespace_uid.to_owned(),
        });
        plan.events.push(Notice {
            warning: false,
            reason: "Deleting",
            message: format!("deletes the tenant namespace {ns} with everything in it"),
        });
    }
    plan.waiting_on = Some(Waiting {
        reason: "Deleting",
        message: format!("waits until the tenant namespace {ns} is gone{}", held_by(observed, &ns)),
    });
    status::deleting(plan, observed, now)
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
    if texts.is_empty() { String::new() } else { format!(": {}", texts.join("; ")) }
}
