//! Objects inside the tenant cluster: what nodes need to join, who may do what, and addons.
//!
//! Two kinds: rights ([`is_privileged`]), written with [`crate::certificates::super_admin`]; and all
//! others, written by the operator's own identity, whose rights are derived from the list of those
//! others. All have the label `app.kubernetes.io/managed-by: covey`, so that one list per kind shows
//! what is there.
//! Invariant: the operator can neither raise its own rights nor hand out any.

mod endpoints;
mod kubeadm;
mod rbac;

pub(crate) use kubeadm::authority;
pub(crate) use rbac::BOOTSTRAPPERS;

use super::addons;
use crate::{Addresses, Object, Settings, Validated};

/// Kinds of what is laid inside a tenant cluster: apiVersion and kind.
pub const KINDS: [(&str, &str); 16] = [
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "Namespace"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "StorageClass"),
];

/// Those of [`KINDS`] that the operator watches.
pub const WATCHED: [&str; 4] = ["ConfigMap", "DaemonSet", "Deployment", "Service"];

/// Whom nodes and agents believe, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// The tenant's authority.
    pub authority: &'a str,
    /// Konnectivity's authority; none while there is none.
    pub konnectivity: Option<&'a str>,
}

/// Objects inside the tenant cluster, those that [`is_privileged`] names first. What names the
/// endpoint is left out while there is none.
#[must_use]
pub fn bootstrap(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    trust: Trust<'_>,
) -> Vec<Object> {
    let mut objects = endpoints::endpoints(v, addresses);
    objects.extend(kubeadm::configuration(v, addresses, trust.authority));
    objects.extend(rbac::for_nodes());
    objects.extend(addons::objects(v, settings, addresses, trust.konnectivity));
    let mut kept = endpoints::endpoints(v, addresses);
    kept.extend(kubeadm::everything(v));
    kept.extend(addons::every(v, settings));
    let mut all = rbac::for_administration(&kept);
    let (rights, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_privileged);
    all.extend(rights);
    all.extend(others);
    all
}

/// Whether an object of [`bootstrap`] may be written only by
/// [`crate::certificates::super_admin`]: it gives somebody rights, or such objects lie in it.
#[must_use]
pub fn is_privileged(object: &Object) -> bool {
    rbac::is_privileged(object)
}
