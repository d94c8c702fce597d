//! Machines: what follows from one observation. Nothing carries it out yet.
//!
//! Invariant: it does not matter why a plan was asked for, nor where the last one was cut off; a
//! tenant whose API does not answer costs a bounded wait.

use std::collections::BTreeMap;

use api::{Machine, names};
use kube::ResourceExt;

pub mod observed;
pub mod plan;
#[cfg(test)]
mod tests;

/// More steps than any life needs; reaching it is a bug in a plan.
#[cfg(test)]
const MAX_STEPS: usize = 12;

/// The tenant namespace that a Machine's virtual machine is in.
#[must_use]
pub fn tenant_namespace(machine: &Machine) -> String {
    names::tenant_namespace(&machine.spec.cluster_name, &machine.spec.cluster_uid)
}

/// Labels of the Secret that belongs to a Machine, in the tenant namespace.
#[must_use]
pub fn labels(machine: &Machine) -> BTreeMap<String, String> {
    let spec = &machine.spec;
    let labels = [
        (names::LABEL_MANAGED_BY, names::MANAGED_BY.to_owned()),
        (names::LABEL_TENANT_UID, spec.cluster_uid.clone()),
        (names::LABEL_TENANT_NAME, spec.cluster_name.clone()),
        (
            names::LABEL_TENANT_NAMESPACE,
            machine.namespace().unwrap_or_default(),
        ),
        (names::LABEL_NODE_POOL, spec.pool_name.clone()),
        (names::LABEL_MACHINE, machine.name_any()),
        (names::LABEL_MACHINE_UID, machine.uid().unwrap_or_default()),
    ];
    labels.map(|(key, value)| (key.to_owned(), value)).into()
}
