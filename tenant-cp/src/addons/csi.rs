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

use api::storage::Hotplug;
use api::tenant_cluster::Addons;
use api::{ConditionType, TenantCluster};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kit_objects::kinds;
use kit_objects::object::{Key, Object};
use pki::{Store, Want};
use serde_json::Value;

use crate::addons::adapter;
use crate::addons::addon::{Addon, Leftover};
use crate::addons::manifest::Inputs;
use crate::amounts::{self, Amounts};
use crate::desired::services;
use crate::kubeconfig;
use crate::network::addresses::Addresses;
use crate::secret_files::Files;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// Volumes.
#[derive(Debug)]
pub struct Csi;

impl Addon for Csi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn condition(&self) -> ConditionType {
        ConditionType::CSIReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.csi.enabled
    }

    fn is_wanted(&self, v: &Validated) -> bool {
        v.storage.is_some()
    }

    fn takes(&self, tc: &TenantCluster, settings: &Settings) -> Amounts {
        let offer = settings.storage.only(tc.spec.addons.csi.classes.as_deref());
        let beside = i128::try_from(sidecars(&offer).count()).unwrap_or_default();
        let sidecar = amounts::program(&settings.resources.csi_sidecar);
        amounts::program(&settings.resources.csi).plus(&sidecar.times(beside))
    }

    fn certificates(&self, v: &Validated, settings: &Settings, _: Option<&Addresses>) -> Vec<Want> {
        let offer = v.storage.iter();
        offer
            .flat_map(|offer| certificates(settings, offer))
            .collect()
    }

    fn secrets(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn secret(&self, v: &Validated, store: &Store, _: &str) -> Option<Files> {
        let mut files = Files::default();
        let control_plane = crate::names::CONTROL_PLANE;
        let server = format!("https://{control_plane}:{}", services::port(v));
        for sidecar in sidecars(v.storage.as_ref()?) {
            files.pair(sidecar.name, store.get(sidecar.name)?);
            let kubeconfig = kubeconfig::of_client(sidecar.name, &server);
            files.put(&sidecar.kubeconfig(), &kubeconfig);
        }
        files.trusted(crate::names::CA, store)?;
        Some(files)
    }

    fn base(&self, v: &Validated, settings: &Settings) -> Vec<Object> {
        let mut objects = Vec::from(adapter::account(v, NAME, CLUSTER_ROLE));
        objects.push(adapter::both_apis(v, settings, NAME));
        objects
    }

    fn deployment_names(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn deployments(&self, v: &Validated, settings: &Settings, store: &Store) -> Vec<Object> {
        let offer = v.storage.iter();
        offer
            .map(|offer| deployment::deployment(v, settings, offer, store))
            .collect()
    }

    fn cluster_roles(&self) -> &'static [&'static str] {
        &[CLUSTER_ROLE]
    }

    fn rules_outside(&self, hotplug: Hotplug) -> Vec<PolicyRule> {
        rules_outside(hotplug)
    }

    /// Volumes are not among it.
    fn leftovers(&self) -> &'static [Leftover] {
        const LEFT: &[Leftover] = &[
            Leftover::applied(kinds::DEPLOYMENT, NAME),
            Leftover::applied(kinds::ROLE_BINDING, NAME),
            Leftover::applied(kinds::NETWORK_POLICY, NAME),
            Leftover::applied(kinds::SERVICE_ACCOUNT, NAME),
            Leftover::applied(kinds::SECRET, NAME),
        ];
        LEFT
    }

    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        node::manifests(inputs)
    }

    fn every_manifest(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        node::names(inputs)
    }

    fn workload(&self) -> Option<Key> {
        Some(Key::new("DaemonSet", node::NAMESPACE, node::NAME))
    }
}
