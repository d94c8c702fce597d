//! The kubeconfig in the user's namespace, and the binding that lets the operator write there.
//!
//! Invariant: it is written only where the one that is there can be read.

use kit_objects::object::Object;
use serde_json::{Value, json};
use tenant_cp::desired::tenant_namespace;
use tenant_cp::{Addresses, Settings, Validated};

use super::rotation;
use super::types::Part;
use crate::controllers::tenant_cluster::observed::Observed;
use crate::controllers::tenant_cluster::part_name::PartName;

/// What lets the operator write it.
pub(super) fn binding(valid: &Validated, observed: &Observed, settings: &Settings) -> Part {
    let mut part = Part::new(PartName::UserNamespace);
    let binding = user_binding(valid, observed, settings);
    part.apply("binding", observed, vec![binding]);
    part
}

pub(super) fn plan(
    valid: &Validated,
    observed: &Observed,
    addresses: Option<&Addresses>,
    may_start: bool,
) -> Part {
    let mut part = Part::new(PartName::Kubeconfig);
    let endpoint = addresses.and_then(|addresses| addresses.endpoint.as_ref());
    if let Some(endpoint) = endpoint.filter(|_| may_start && observed.user_readable) {
        let owner = serde_json::from_value(owner(observed)).ok();
        let store = &observed.material.store;
        let kubeconfig = tenant_cp::kubeconfig::kubeconfig(valid, store, &endpoint.url(), owner);
        let numbered = kubeconfig.map(|secret| rotation::kubeconfig::numbered(secret, observed));
        part.apply("kubeconfig", observed, numbered.into_iter().collect());
    }
    part
}

/// The binding that lets the operator write kubeconfigs into the user's namespace. All
/// TenantClusters of the namespace own it together, so it goes with the last of them.
fn user_binding(valid: &Validated, observed: &Observed, settings: &Settings) -> Object {
    let owners = others(observed, &valid.namespace).into_iter();
    let owners = owners.chain([owner(observed)]);
    shared_binding(&valid.namespace, owners, settings)
}

/// The other TenantClusters of the namespace that stay, as owners.
pub(super) fn others(observed: &Observed, namespace: &str) -> Vec<Value> {
    observed
        .others
        .iter()
        .filter(|o| o.metadata.namespace.as_deref() == Some(namespace))
        .filter(|o| o.metadata.deletion_timestamp.is_none())
        .filter_map(|o| {
            Some(owner_reference(
                o.metadata.name.as_deref()?,
                o.metadata.uid.as_deref()?,
            ))
        })
        .collect()
}

/// The binding as these own it together, in any order.
pub(super) fn shared_binding(
    namespace: &str,
    owners: impl Iterator<Item = Value>,
    settings: &Settings,
) -> Object {
    let mut value = tenant_namespace::user_binding(namespace, settings).value;
    let mut owners: Vec<_> = owners.collect();
    owners.sort_by_key(|o| o["uid"].as_str().map(str::to_owned));
    value["metadata"]["ownerReferences"] = Value::Array(owners);
    Object::from_value(value)
}

fn owner(observed: &Observed) -> Value {
    let meta = &observed.cluster.metadata;
    owner_reference(
        meta.name.as_deref().unwrap_or_default(),
        meta.uid.as_deref().unwrap_or_default(),
    )
}

fn owner_reference(name: &str, uid: &str) -> Value {
    json!({ "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": name, "uid": uid })
}
