//! What the addon `autoscaler` consists of: the stock Cluster Autoscaler and our adapter, which maps
//! its node groups onto NodePools, a Deployment each in the tenant namespace; the adapter's rights in
//! the user's namespace, where the NodePools are; rights of both inside the tenant cluster; and the
//! small authority by which the two know each other.
//!
//! Invariant: only the adapter speaks to the management API; the Cluster Autoscaler reaches nothing
//! but the adapter and the tenant's API. Nobody gets a right on Secrets.

use api::names::autoscaler_binding;
use api::storage::Hotplug;
use api::tenant_cluster::Addons;
use api::{ConditionType, TenantCluster};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit_objects::kinds;
use kit_objects::object::Object;
use pki::{Store, Want};
use serde_json::Value;

use crate::addons::adapter;
use crate::addons::addon::{Addon, Leftover};
use crate::addons::manifest::Inputs;
use crate::amounts::{self, Amounts};
use crate::generations;
use crate::meta::{meta, selector, users_labels};
use crate::network::addresses::Addresses;
use crate::secret_files::{Files, TLS};
use crate::settings::Settings;
use crate::validate::validated::Validated;

pub(crate) mod certificates;
pub(crate) mod names;
mod network_policies;
mod rules;
pub(crate) mod tenant_objects;
pub(crate) mod workloads;

pub use names::{
    AUTHORITY, CLIENT, CLUSTER_ROLE, GRPC_DIR, NAME, PORT, ROLE, SERVER, STOCK, STOCK_ROLE,
    STOCK_USER, USER,
};
pub use rules::{rules_inside, rules_kube_system, rules_outside};
pub use tenant_objects::tenant_objects;

/// Node pools that grow and shrink: rights are inside, and what the two programs write there.
#[derive(Debug)]
pub struct Autoscaler;

impl Addon for Autoscaler {
    fn name(&self) -> &'static str {
        NAME
    }

    fn condition(&self) -> ConditionType {
        ConditionType::AutoscalerReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.autoscaler.enabled
    }

    fn is_wanted(&self, v: &Validated) -> bool {
        v.autoscaler.is_some()
    }

    fn takes(&self, _: &TenantCluster, settings: &Settings) -> Amounts {
        let stock = amounts::program(&settings.resources.cluster_autoscaler);
        amounts::program(&settings.resources.autoscaler).plus(&stock)
    }

    fn certificates(&self, v: &Validated, settings: &Settings, _: Option<&Addresses>) -> Vec<Want> {
        certificates::certificates(v, settings)
    }

    fn authorities(&self) -> &'static [&'static str] {
        &[AUTHORITY]
    }

    fn secrets(&self) -> &'static [&'static str] {
        &[NAME, SERVER, STOCK, CLIENT]
    }

    fn secret(&self, v: &Validated, store: &Store, name: &str) -> Option<Files> {
        if [NAME, STOCK].contains(&name) {
            return Files::of_client(v, store, name);
        }
        let mut files = Files::default();
        files.pair(TLS, store.get(name)?);
        files.put("ca.crt", &generations::bundle(store, AUTHORITY)?);
        if name == CLIENT {
            files.put(certificates::CLOUD_CONFIG, &certificates::cloud_config(v));
        }
        Some(files)
    }

    fn base(&self, v: &Validated, settings: &Settings) -> Vec<Object> {
        base(v, settings)
    }

    fn deployment_names(&self) -> &'static [&'static str] {
        &[STOCK, NAME]
    }

    fn deployments(&self, v: &Validated, settings: &Settings, store: &Store) -> Vec<Object> {
        let wanted = v.autoscaler.iter();
        wanted
            .flat_map(|wanted| workloads::deployments(v, settings, wanted, store))
            .collect()
    }

    /// It ends itself when it does not reach the API for long; the adapter goes on asking.
    fn deployments_that_need_the_api(&self) -> &'static [&'static str] {
        &[STOCK]
    }

    fn deployments_that_size_pools(&self) -> &'static [&'static str] {
        &[NAME, STOCK]
    }

    fn cluster_roles(&self) -> &'static [&'static str] {
        &[CLUSTER_ROLE]
    }

    fn rules_outside(&self, _: Hotplug) -> Vec<PolicyRule> {
        rules_outside()
    }

    fn user_binding(&self, cluster: &str) -> Option<String> {
        Some(autoscaler_binding(cluster))
    }

    fn leftovers(&self) -> &'static [Leftover] {
        const LEFT: &[Leftover] = &[
            Leftover::applied(kinds::DEPLOYMENT, STOCK),
            Leftover::applied(kinds::DEPLOYMENT, NAME),
            Leftover::applied(kinds::SERVICE, NAME),
            Leftover::applied(kinds::NETWORK_POLICY, STOCK),
            Leftover::applied(kinds::NETWORK_POLICY, NAME),
            Leftover::applied(kinds::SERVICE_ACCOUNT, STOCK),
            Leftover::applied(kinds::SERVICE_ACCOUNT, NAME),
            Leftover::applied(kinds::SECRET, STOCK),
            Leftover::applied(kinds::SECRET, CLIENT),
            Leftover::applied(kinds::SECRET, SERVER),
            Leftover::applied(kinds::SECRET, AUTHORITY),
            Leftover::applied(kinds::SECRET, NAME),
        ];
        LEFT
    }

    fn manifests(&self, _: &Inputs<'_>) -> Vec<Value> {
        let objects = tenant_objects().into_iter();
        objects.map(|object| object.value).collect()
    }

    /// It makes the first node.
    fn needs_nodes(&self) -> bool {
        false
    }
}

/// Service, accounts and NetworkPolicies in the tenant namespace, and the binding in the user's.
fn base(v: &Validated, settings: &Settings) -> Vec<Object> {
    let mut objects = vec![
        service(v),
        adapter::bare_account(v, NAME),
        adapter::bare_account(v, STOCK),
        user_binding(v),
    ];
    objects.extend(network_policies::policies(v, settings));
    objects
}

fn service(v: &Validated) -> Object {
    Object::new(&Service {
        metadata: meta(v, NAME, NAME),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector(NAME)),
            ports: Some(vec![ServicePort {
                name: Some("grpc".to_owned()),
                port: PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::Int(PORT)),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

/// It goes with the TenantCluster, which owns it, however that goes.
fn user_binding(v: &Validated) -> Object {
    let metadata = ObjectMeta {
        name: Some(autoscaler_binding(&v.name)),
        namespace: Some(v.namespace.clone()),
        labels: Some(users_labels(v, NAME)),
        owner_references: Some(vec![OwnerReference {
            api_version: format!("{}/{}", api::GROUP, api::VERSION),
            kind: "TenantCluster".to_owned(),
            name: v.name.clone(),
            uid: v.uid.clone(),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    };
    adapter::binding(v, metadata, NAME, CLUSTER_ROLE)
}
