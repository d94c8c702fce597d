//! Objects inside the tenant cluster that do not need nodes.
//!
//! Two kinds: those that say who may do what in the tenant cluster as a whole ([`is_privileged`]),
//! written with [`crate::certificates::super_admin`]; and all others, written by the operator's own
//! identity, whose rights are derived from the list of those others.
//! Invariant: the operator can neither raise its own rights nor hand out any it does not need.

mod endpoints;
mod kubeadm;
mod rbac;

pub(crate) use kubeadm::authority;
pub(crate) use rbac::BOOTSTRAPPERS;

use crate::{Addresses, Object, Settings, Validated};

/// Objects inside the tenant cluster, those that [`is_privileged`] names first. `cluster-info` and
/// `kubeadm-config` are left out while there is no endpoint.
#[must_use]
pub fn bootstrap(
    v: &Validated,
    _settings: &Settings,
    addresses: &Addresses,
    ca_pem: &str,
) -> Vec<Object> {
    let mut objects = endpoints::endpoints(v, addresses);
    objects.extend(kubeadm::configuration(v, addresses, ca_pem));
    objects.extend(rbac::for_nodes());
    let mut all = rbac::privileged();
    all.extend(objects);
    all
}

/// Whether an object of [`bootstrap`] may be written only by
/// [`crate::certificates::super_admin`]: the operator's own rights and the administrators'.
#[must_use]
pub fn is_privileged(object: &Object) -> bool {
    rbac::is_privileged(&object.kind, &object.name)
}
