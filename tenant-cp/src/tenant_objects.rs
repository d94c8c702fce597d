//! All that is wanted inside the tenant cluster: what nodes need to join, who may do what, and addons.
//!
//! Two kinds: rights ([`is_privileged`]), written with [`crate::certificates::super_admin`]; and all
//! others, written by the operator's own identity, whose rights are derived from the list of those
//! others. All have the label `app.kubernetes.io/managed-by: covey`, so that one list per kind shows
//! what is there.
//! Invariant: the operator can neither raise its own rights nor hand out any.

use kit_objects::object::Object;

use crate::addons::registry;
use crate::desired::bootstrap::flow_schema::flow_schema;
use crate::desired::bootstrap::rbac::{self, is_privileged};
use crate::desired::bootstrap::{endpoints, kubeadm};
use crate::network::addresses::Addresses;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// Whom nodes and agents believe, as PEM.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// The certificates of the kube-apiserver's authority.
    pub authority: &'a str,
    /// Those of kubelets' serving certificates; none while they are lost.
    pub kubelets: Option<&'a str>,
    /// Those of konnectivity's authority; none while there is none.
    pub konnectivity: Option<&'a str>,
}

/// Objects inside the tenant cluster, those that [`is_privileged`] names first. What names the
/// endpoint is left out while there is none.
#[must_use]
pub fn wanted(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    trust: Trust<'_>,
) -> Vec<Object> {
    let mut objects = endpoints::endpoints(v, addresses);
    objects.extend(kubeadm::configuration(v, addresses, trust.authority));
    objects.extend(trust.kubelets.map(kubeadm::kubelet_authority));
    objects.extend(rbac::for_nodes());
    objects.push(flow_schema());
    objects.extend(registry::objects(
        v,
        settings,
        addresses,
        trust.konnectivity,
    ));
    let mut kept = endpoints::endpoints(v, addresses);
    kept.extend(kubeadm::everything(v));
    kept.extend(registry::every(v, settings));
    kept.push(flow_schema());
    let mut all = rbac::for_administration(&kept);
    let (rights, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(is_privileged);
    all.extend(rights);
    all.extend(others);
    all
}
