//! The objects of a control plane, stage by stage.
//!
//! [`foundation`] → [`user_binding`] → [`base`] → (Secrets of [`crate::certificates`]) →
//! [`workloads`] in the management cluster; [`bootstrap`] inside the tenant cluster.
//!
//! Invariant: everything but [`user_binding`] is in the tenant namespace (or is it), or inside the
//! tenant cluster.

use std::collections::BTreeSet;

use crate::{Addresses, Object, Settings, Validated};

/// The tenant namespace and what lets the operator work in it.
#[must_use]
pub fn foundation(v: &Validated, settings: &Settings) -> Vec<Object> {
    let _ = (v, settings);
    Vec::new()
}

/// What lets the operator write into a user's namespace; one for all TenantClusters there.
#[must_use]
pub fn user_binding(namespace: &str, settings: &Settings) -> Object {
    let _ = settings;
    Object::from_value(serde_json::json!({"metadata": {"namespace": namespace}}))
}

/// What needs no addresses: Services, ServiceAccounts, volumes, NetworkPolicies,
/// PodDisruptionBudgets.
#[must_use]
pub fn base(v: &Validated, settings: &Settings) -> Vec<Object> {
    let _ = (v, settings);
    Vec::new()
}

/// StatefulSet `etcd` and Deployment `control-plane`.
#[must_use]
pub fn workloads(v: &Validated, settings: &Settings, addresses: &Addresses) -> Vec<Object> {
    let _ = (v, settings, addresses);
    Vec::new()
}

/// Objects inside the tenant cluster, those that [`is_privileged`] names first. `cluster-info` and
/// `kubeadm-config` are left out while there is no endpoint.
#[must_use]
pub fn bootstrap(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    ca_pem: &str,
) -> Vec<Object> {
    let _ = (v, settings, addresses, ca_pem);
    Vec::new()
}

/// Whether an object of [`bootstrap`] may be written only by
/// [`crate::certificates::super_admin`]: the operator's own rights and the administrators'.
#[must_use]
pub fn is_privileged(object: &Object) -> bool {
    let _ = object;
    false
}

/// A program of the control plane that takes flags from the user.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Program {
    /// kube-apiserver.
    ApiServer,
    /// kube-controller-manager.
    ControllerManager,
    /// kube-scheduler.
    Scheduler,
}

/// Flags (without dashes) that a user may not set: those that Covey sets, and those that would
/// undo what Covey sets.
#[must_use]
pub fn managed_flags(program: Program) -> BTreeSet<&'static str> {
    let _ = program;
    BTreeSet::new()
}
