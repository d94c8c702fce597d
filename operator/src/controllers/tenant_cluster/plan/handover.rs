//! What of the last TenantCluster of a namespace goes on to Hosts and Machines: the operator's binding there.
//!
//! Machines are reset with keys that are Secrets of the user's namespace, and that may end after the TenantCluster is
//! gone, whose binding lets the operator read them. So while a TenantCluster is being deleted the binding is given to
//! the Hosts that Machines have; whoever reconciles Hosts takes it away once no Machine has one. It is not enough to
//! add them when there is a claim: with a deletion in the foreground the garbage collector takes the binding first.
//! Machines of clouds are deleted with credentials that are Secrets there, too; they get it as well, and it goes with the
//! last of them.
//! Invariant: nobody who stays loses the binding; the TenantCluster that goes never owns what is handed over, so the
//! garbage collector does not take it along.

use jiff::{SignedDuration, Timestamp};
use kit_objects::known::Known;
use kube::ResourceExt;
use serde_json::{Value, json};
use tenant_cp::Settings;

use super::kubeconfig;
use super::types::Part;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;

/// How long after the deletion a binding that cannot be written holds the TenantCluster: an API that refuses it for so
/// long (the user's namespace goes, too) refuses it for good.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

/// What is to be written; none where nothing is, or where it failed a moment ago.
pub(super) fn plan(observed: &Observed, settings: &Settings) -> Option<Part> {
    let (hosts, machines) = (&observed.claimed_hosts, &observed.cloud_machines);
    let is_nobodys = hosts.is_empty() && machines.is_empty();
    if is_nobodys || is_kept_by_others(observed) || failed(observed) {
        return None;
    }
    let namespace = observed.cluster.namespace().unwrap_or_default();
    let heir = |kind: &'static str| move |(name, uid): &(String, String)| json!({ "apiVersion": "covey.dev/v1alpha1", "kind": kind, "name": name, "uid": uid });
    let heirs = hosts.iter().map(heir("Host"));
    let heirs = heirs.chain(machines.iter().map(heir("Machine")));
    let owners = kubeconfig::others(observed, &namespace).into_iter();
    let binding = kubeconfig::shared_binding(&namespace, owners.chain(heirs), settings);
    let mut part = Part::new(PartName::UserNamespace);
    part.apply("binding", observed, vec![binding]);
    (!part.is_settled()).then_some(part)
}

/// What is waited for before the TenantCluster may go; none: nothing.
pub(super) fn is_awaited(observed: &Observed, now: Timestamp) -> Option<String> {
    let failure = observed.failures.get(&PartName::UserNamespace)?;
    let since = observed.cluster.metadata.deletion_timestamp.as_ref();
    let since = since.map_or(now, |time| time.0);
    (now.duration_since(since) < PATIENCE).then(|| {
        format!(
            "waits until the operator may go on reading the keys of Hosts that are to be reset, and the credentials of clouds: {}",
            failure.message
        )
    })
}

fn failed(observed: &Observed) -> bool {
    observed.failures.contains_key(&PartName::UserNamespace)
}

/// Whether another TenantCluster that stays owns the binding already.
fn is_kept_by_others(observed: &Observed) -> bool {
    let namespace = observed.cluster.namespace().unwrap_or_default();
    let name = api::names::OPERATOR_BINDING;
    let Known::Known(live) = observed.find("RoleBinding", &namespace, name) else {
        return false;
    };
    let owners = live.pointer("/metadata/ownerReferences");
    let owners = owners.and_then(Value::as_array).into_iter().flatten();
    let stay = kubeconfig::others(observed, &namespace);
    owners
        .filter_map(|owner| owner["uid"].as_str())
        .any(|uid| stay.iter().any(|other| other["uid"] == uid))
}
