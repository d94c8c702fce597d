//! The addon `csi`: volumes of the storage that is offered.
//!
//! In the tenant namespace: the Deployment `csi` ([`deployment`]) with our driver and the stock
//! [`sidecars`], and the driver's rights ([`rules`]). Inside the tenant cluster: [`node`], and what the
//! sidecars may do.
//! Invariant: volumes are not among its parts: they outlive the addon.

pub(crate) mod deployment;
pub(crate) mod names;
pub(crate) mod node;
mod rules;
pub(crate) mod sidecars;

pub use names::{CLUSTER_ROLE, DRIVER, NAME};
pub use rules::{rules_on_nodes, rules_outside};
pub use sidecars::{Sidecar, certificates, sidecars, tenant_objects};

use crate::addons::adapter;
use crate::validate::validated::Validated;
use kit_objects::object::{Key, Object};

/// Everything in the tenant namespace by name, in the order in which it has to go, the Secret last:
/// whoever lists the namespace sees by it that something is left. Volumes are not among it.
#[must_use]
pub fn parts(tenant_namespace: &str) -> Vec<Key> {
    [
        "Deployment",
        "RoleBinding",
        "NetworkPolicy",
        "ServiceAccount",
        "Secret",
    ]
    .map(|kind| Key::new(kind, tenant_namespace, NAME))
    .into()
}

/// Account, rights and NetworkPolicy in the tenant namespace.
pub(crate) fn base(v: &Validated) -> Vec<Object> {
    let mut objects = Vec::from(adapter::account(v, NAME, CLUSTER_ROLE));
    objects.push(adapter::both_apis(v, NAME));
    objects
}
