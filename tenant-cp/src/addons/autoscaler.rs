//! What the addon `autoscaler` consists of: the stock Cluster Autoscaler and our adapter, which maps
//! its node groups onto NodePools, a Deployment each in the tenant namespace; the adapter's rights in
//! the user's namespace, where the NodePools are; rights of both inside the tenant cluster; and the
//! small authority by which the two know each other.
//!
//! Invariant: only the adapter speaks to the management API; the Cluster Autoscaler reaches nothing
//! but the adapter and the tenant's API. Nobody gets a right on Secrets.

use api::names::autoscaler_binding;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::addons::adapter;
use crate::meta::{labels, meta, selector};
use crate::validate::validated::Validated;
use kit_objects::object::{Key, Object};

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

/// Everything outside the tenant cluster by name, in the order in which it has to go. First the
/// Deployments: what they ran is to size nothing any more. Then the right in the user's namespace. Last
/// a Secret: whoever lists the tenant namespace sees by it that something is left.
#[must_use]
pub fn parts(tenant_namespace: &str, user_namespace: &str, cluster: &str) -> Vec<Key> {
    let here = |kind: &str, name: &str| Key::new(kind, tenant_namespace, name);
    vec![
        here("Deployment", STOCK),
        here("Deployment", NAME),
        Key::new("RoleBinding", user_namespace, &autoscaler_binding(cluster)),
        here("Service", NAME),
        here("NetworkPolicy", STOCK),
        here("NetworkPolicy", NAME),
        here("ServiceAccount", STOCK),
        here("ServiceAccount", NAME),
        here("Secret", STOCK),
        here("Secret", CLIENT),
        here("Secret", SERVER),
        here("Secret", AUTHORITY),
        here("Secret", NAME),
    ]
}

/// Service, accounts and NetworkPolicies in the tenant namespace, and the binding in the user's.
pub(crate) fn base(v: &Validated) -> Vec<Object> {
    let mut objects = vec![
        service(v),
        adapter::bare_account(v, NAME),
        adapter::bare_account(v, STOCK),
        user_binding(v),
    ];
    objects.extend(network_policies::policies(v));
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
        labels: Some(labels(v, NAME)),
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
