//! What the addon `autoscaler` consists of: the stock Cluster Autoscaler and our adapter, which maps
//! its node groups onto NodePools, a Deployment each in the tenant namespace; the adapter's rights in
//! the user's namespace, where the NodePools are; rights of both inside the tenant cluster; and the
//! small authority by which the two know each other.
//!
//! The rules are data, here, so that whoever lays them and whoever needs them agree: crate
//! `autoscaler` compares them with what its code declares.
//! Invariant: only the adapter speaks to the management API; the Cluster Autoscaler reaches nothing
//! but the adapter and the tenant's API. Nobody gets a right on Secrets.

use api::names::autoscaler_binding;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::between::{self, Right};
use super::{labels, meta, selector};
use crate::{Object, Validated, object::Key};

mod certificates;
mod inside;
mod network;
mod workloads;

pub use certificates::{AUTHORITY, CLIENT, SERVER};
pub(crate) use certificates::{CLOUD_CONFIG, certificates, cloud_config};
pub use inside::{STOCK_ROLE, inside};
pub(super) use workloads::deployments;

/// Deployment, ServiceAccount, Service, NetworkPolicy, Secret and component label of the adapter.
pub const NAME: &str = "autoscaler";
/// The same of the Cluster Autoscaler, and its ConfigMap.
pub const STOCK: &str = "cluster-autoscaler";
/// User of the adapter inside the tenant cluster.
pub const USER: &str = "covey-autoscaler";
/// User of the Cluster Autoscaler there.
pub const STOCK_USER: &str = "covey-cluster-autoscaler";
/// ClusterRole of the chart with [`rules_outside`], bound in users' namespaces (docs/adr/0004).
pub const CLUSTER_ROLE: &str = "covey-autoscaler";
/// ClusterRole and ClusterRoleBinding of the adapter inside the tenant cluster, and a Role and
/// RoleBinding in its `kube-system`.
pub const ROLE: &str = "covey:autoscaler";
/// Port of the adapter's gRPC service, in its pod and of its Service.
pub const PORT: i32 = 8086;
/// Where the two mount the Secrets of their own authority.
pub const GRPC_DIR: &str = "/etc/covey/grpc";

/// Everywhere inside the tenant cluster, for the adapter.
const INSIDE: &[Right] = &[("", "nodes", &["list", "patch", "watch"])];

/// In the user's namespace, for the adapter.
const OUTSIDE: &[Right] = &[
    ("covey.dev", "machines", &["list", "watch"]),
    ("covey.dev", "nodepools", &["get", "list", "patch", "watch"]),
    ("events.k8s.io", "events", &["create"]),
];

/// What the adapter may do everywhere inside the tenant cluster.
#[must_use]
pub fn rules_inside() -> Vec<PolicyRule> {
    between::rules(INSIDE)
}

/// What the adapter may do in `kube-system` of the tenant cluster: keep the priorities of pools.
#[must_use]
pub fn rules_kube_system() -> Vec<PolicyRule> {
    let mut rules = between::rules(&[("", "configmaps", &["get", "patch"])]);
    for rule in &mut rules {
        rule.resource_names = Some(vec![api::names::PRIORITY_EXPANDER.to_owned()]);
    }
    rules
}

/// What the adapter may do in the user's namespace.
#[must_use]
pub fn rules_outside() -> Vec<PolicyRule> {
    between::rules(OUTSIDE)
}

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
pub(super) fn base(v: &Validated) -> Vec<Object> {
    let mut objects = vec![
        service(v),
        between::bare_account(v, NAME),
        between::bare_account(v, STOCK),
        user_binding(v),
    ];
    objects.extend(network::policies(v));
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
    between::binding(v, metadata, NAME, CLUSTER_ROLE)
}
