//! The objects of a control plane, stage by stage.
//!
//! [`foundation`] → [`user_binding`] → [`base`] → (Secrets of [`crate::certificates`]) →
//! [`workloads`] in the management cluster; [`bootstrap`] inside the tenant cluster.
//!
//! Invariant: everything but [`user_binding`] and that of [`autoscaler`] is in the tenant namespace (or
//! is it), or inside the tenant cluster.

mod addons;
mod apiserver;
pub mod autoscaler;
mod between;
mod bootstrap;
pub mod cloud_controller;
mod control_plane;
mod controller_manager;
pub mod csi;
mod disruption;
mod etcd;
mod flags;
mod konnectivity;
pub mod names;
mod namespace;
mod network_policy;
mod pod;
mod scheduler;
mod service;
mod service_account;
mod storage;

pub use addons::Addon;
pub(crate) use bootstrap::{BOOTSTRAPPERS, authority};
pub use bootstrap::{KINDS, Trust, WATCHED, bootstrap, is_privileged};
pub use flags::{Program, managed_flags};
pub use namespace::{foundation, user_binding};
pub use service::port as service_port;

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{Addresses, Object, Settings, Validated};

/// What needs no addresses: Services, ServiceAccounts, volumes, NetworkPolicies,
/// PodDisruptionBudgets.
#[must_use]
pub fn base(v: &Validated, settings: &Settings) -> Vec<Object> {
    // Services first: their addresses are what the next stage waits for.
    let mut objects = service::services(v);
    objects.extend(storage::volumes(v));
    objects.extend(service_account::service_accounts(v));
    objects.extend(network_policy::network_policies(v, settings));
    objects.extend(disruption::budgets(v));
    if v.addons.cloud_controller {
        objects.extend(cloud_controller::base(v));
    }
    if v.storage.is_some() {
        objects.extend(csi::base(v));
    }
    if v.autoscaler.is_some() {
        objects.extend(autoscaler::base(v));
    }
    objects
}

/// StatefulSet `etcd`, Deployments `control-plane` and, where wanted, `ccm`, `csi`, `autoscaler` and
/// `cluster-autoscaler`. `store` is what the Secrets hold: what a program reads only when it starts
/// shows in its pod.
#[must_use]
pub fn workloads(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    store: &pki::Store,
) -> Vec<Object> {
    let mut objects = vec![
        etcd::stateful_set(v, settings, addresses),
        control_plane::deployment(v, settings, addresses, store),
    ];
    if v.addons.cloud_controller {
        let pair = store.get(cloud_controller::NAME);
        objects.push(cloud_controller::deployment(v, settings, pair));
    }
    if let Some(offer) = &v.storage {
        objects.push(csi::deployment(v, settings, offer));
    }
    if let Some(limits) = &v.autoscaler {
        objects.extend(autoscaler::deployments(v, settings, limits, store));
    }
    objects
}

/// Labels of an object in the tenant namespace, or of the kubeconfig's Secret.
pub(crate) fn labels(v: &Validated, component: &str) -> BTreeMap<String, String> {
    let mut labels = selector(component);
    labels.insert(
        api::names::LABEL_MANAGED_BY.to_owned(),
        api::names::MANAGED_BY.to_owned(),
    );
    labels.insert(api::names::LABEL_TENANT_UID.to_owned(), v.uid.clone());
    labels.insert(api::names::LABEL_TENANT_NAME.to_owned(), v.name.clone());
    labels.insert(
        api::names::LABEL_TENANT_NAMESPACE.to_owned(),
        v.namespace.clone(),
    );
    labels
}

/// Labels by which pods are selected. They can never change: a Deployment's selector is immutable.
pub(crate) fn selector(component: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(api::names::LABEL_COMPONENT.to_owned(), component.to_owned())])
}

/// Metadata of an object in the tenant namespace.
pub(crate) fn meta(v: &Validated, name: &str, component: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(v.tenant_namespace.clone()),
        labels: Some(labels(v, component)),
        ..ObjectMeta::default()
    }
}

/// The `n`th address of a range: 1 is the `kubernetes` Service, 10 the DNS Service.
pub(crate) fn network_address(range: &IpNet, n: u8) -> IpAddr {
    match range.network() {
        IpAddr::V4(first) => {
            Ipv4Addr::from_bits(first.to_bits().saturating_add(u32::from(n))).into()
        }
        IpAddr::V6(first) => {
            Ipv6Addr::from_bits(first.to_bits().saturating_add(u128::from(n))).into()
        }
    }
}

/// How a program listens on all addresses of its pod, in the family of the management cluster.
pub(crate) fn any_address(addresses: &Addresses) -> &'static str {
    if addresses.cluster_ip.is_ipv6() {
        "[::]"
    } else {
        "0.0.0.0"
    }
}
