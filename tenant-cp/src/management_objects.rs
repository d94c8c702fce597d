//! All that is wanted in the management cluster for one tenant cluster, stage by stage.
//!
//! [`foundation`](crate::desired::tenant_namespace::foundation) →
//! [`user_binding`](crate::desired::tenant_namespace::user_binding) → [`base`] → (Secrets of
//! [`crate::certificates`]) → [`workloads`].
//! Invariant: everything but the user's binding and those of addons there is in the tenant namespace, or
//! is it.

use kit_objects::object::Object;

use crate::addons::registry::wanted;
use crate::desired::etcd::{self, volumes};
use crate::desired::tenant_namespace::{disruption_budgets, network_policies, service_accounts};
use crate::desired::{control_plane, controllers, etcd_events, services};
use crate::material::Material;
use crate::network::addresses::Addresses;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// What needs no addresses: Services, ServiceAccounts, volumes, NetworkPolicies,
/// PodDisruptionBudgets.
#[must_use]
pub fn base(v: &Validated, settings: &Settings) -> Vec<Object> {
    // Services first: their addresses are what the next stage waits for.
    let mut objects = services::services(v);
    objects.extend(volumes::volumes(v));
    objects.extend(etcd_events::base(v));
    objects.extend(service_accounts::service_accounts(v));
    objects.extend(network_policies::network_policies(v, settings));
    objects.extend(disruption_budgets::budgets(v));
    objects.extend(wanted(v).flat_map(|addon| addon.base(v, settings)));
    objects
}

/// StatefulSet `etcd`, Deployments `control-plane`, `controllers` and `etcd-events`, and those of addons. `material` is what
/// the Secrets hold: what a program reads only when it starts
/// shows in its pod.
#[must_use]
pub fn workloads(
    v: &Validated,
    settings: &Settings,
    addresses: &Addresses,
    material: &Material,
) -> Vec<Object> {
    let store = &material.store;
    let mut objects = vec![
        etcd::stateful_set(v, settings, addresses, material),
        control_plane::deployment(v, settings, addresses, material),
        controllers::deployment(v, material),
    ];
    let events = etcd_events::deployment(v, settings, addresses, material);
    objects.extend(events);
    objects.extend(wanted(v).flat_map(|addon| addon.deployments(v, settings, store)));
    objects
}
