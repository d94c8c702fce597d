//! What the addon `cloudController` consists of: the Deployment `ccm` in the tenant namespace, its
//! rights there and inside the tenant cluster, its client certificate, and the ways that it and
//! load balancers need through the NetworkPolicies.
//!
//! The rules are data, here, so that whoever lays them and whoever needs them agree: crate `ccm`
//! compares them with what its code declares.
//! Invariant: no right on Secrets, pods or Machines, and none outside the tenant namespace.

use std::collections::BTreeMap;

use api::storage::Hotplug;
use api::tenant_cluster::Addons;
use api::{ConditionType, Reason, TenantCluster};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{Container, PodSpec, PodTemplateSpec},
        networking::v1::{NetworkPolicyIngressRule, NetworkPolicySpec},
        rbac::v1::PolicyRule,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta},
};
use kit_objects::kinds;
use kit_objects::object::{self, Object};
use pki::{Store, Want};
use serde_json::{Value, json};

use crate::addons::adapter::{self, ADMIN_PORT, Right};
use crate::addons::addon::{Addon, Leftover, Release};
use crate::addons::manifest::Inputs;
use crate::amounts::{self, Amounts};
use crate::desired::pod;
use crate::desired::tenant_namespace::disruption_budgets;
use crate::generations::bundle;
use crate::meta::{labels, meta, selector};
use crate::names;
use crate::network::addresses::Addresses;
use crate::secret_files::Files;
use crate::settings::Settings;
use crate::validate::limits;
use crate::validate::validated::{LoadBalancers, Validated};

/// Deployment, ServiceAccount, RoleBinding, PodDisruptionBudget, Secret and component label.
pub const NAME: &str = "ccm";
/// User inside the tenant cluster.
pub const USER: &str = "covey-ccm";
/// NetworkPolicy for what load balancers need.
pub const LOAD_BALANCERS: &str = "load-balancers";
/// ClusterRole of the chart with [`rules_outside`], bound in tenant namespaces (docs/adr/0001).
pub const CLUSTER_ROLE: &str = "covey-ccm";
/// Lease, which it makes itself.
pub const LEASE: &str = api::names::LEASE_CLOUD_CONTROLLER;
/// ClusterRole and ClusterRoleBinding inside the tenant cluster.
pub const ROLE: &str = "covey:ccm";
/// Annotation of the pod: hash of the certificate that it starts with.
const ANNOTATION_CERTIFICATE: &str = "covey.dev/certificate-hash";
/// Most replicas: one leads, one waits.
const REPLICAS: i32 = 2;
/// Where a kubelet and kube-proxy have node ports (`--service-node-port-range`, its default).
const NODE_PORTS: (i32, i32) = (30000, 32767);

/// Everywhere inside the tenant cluster.
const INSIDE: &[Right] = &[
    ("", "nodes", &["delete", "list", "patch", "watch"]),
    ("", "nodes/status", &["patch"]),
    ("", "services", &["list", "patch", "watch"]),
    ("", "services/status", &["patch"]),
    ("coordination.k8s.io", "leases", &["get"]),
    ("discovery.k8s.io", "endpointslices", &["list", "watch"]),
    ("events.k8s.io", "events", &["create"]),
];

/// In the tenant namespace.
const OUTSIDE: &[Right] = &[
    (
        "",
        "services",
        &["create", "delete", "get", "list", "patch", "watch"],
    ),
    (
        "coordination.k8s.io",
        "leases",
        &["create", "get", "update"],
    ),
    ("covey.dev", "machineaddresses", &["list", "watch"]),
    (
        "discovery.k8s.io",
        "endpointslices",
        &["create", "delete", "list", "patch", "watch"],
    ),
    (
        "kubevirt.io",
        "virtualmachineinstances",
        &["get", "list", "watch"],
    ),
    ("kubevirt.io", "virtualmachines", &["get", "list", "watch"]),
];

/// What it may do everywhere inside the tenant cluster.
#[must_use]
pub fn rules_inside() -> Vec<PolicyRule> {
    adapter::rules(INSIDE)
}

/// What it may do in the tenant namespace.
#[must_use]
pub fn rules_outside() -> Vec<PolicyRule> {
    adapter::rules(OUTSIDE)
}

/// Its client certificate, by the tenant cluster's authority `client-ca`.
#[must_use]
pub fn certificate(settings: &Settings) -> Want {
    adapter::certificate(settings, NAME, USER)
}

/// ClusterRole and ClusterRoleBinding, inside the tenant cluster.
#[must_use]
pub fn tenant_objects() -> Vec<Object> {
    adapter::tenant_rights(ROLE, USER, rules_inside()).into()
}

/// Load balancers and node lifecycle: only rights are inside.
#[derive(Debug)]
pub struct CloudController;

impl Addon for CloudController {
    fn name(&self) -> &'static str {
        "cloud-controller"
    }

    fn condition(&self) -> ConditionType {
        ConditionType::CloudControllerReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.cloud_controller.enabled
    }

    fn takes(&self, tc: &TenantCluster, settings: &Settings) -> Amounts {
        let replicas = tc.spec.control_plane.replicas.clamp(0, REPLICAS);
        amounts::program(&settings.resources.cloud_controller).times(i128::from(replicas))
    }

    fn certificates(&self, _: &Validated, settings: &Settings, _: Option<&Addresses>) -> Vec<Want> {
        vec![certificate(settings)]
    }

    fn secrets(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn secret(&self, v: &Validated, store: &Store, name: &str) -> Option<Files> {
        Files::of_client(v, store, name)
    }

    fn base(&self, v: &Validated, settings: &Settings) -> Vec<Object> {
        base(v, settings)
    }

    fn deployment_names(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn deployments(&self, v: &Validated, settings: &Settings, store: &Store) -> Vec<Object> {
        vec![deployment(v, settings, store)]
    }

    fn cluster_roles(&self) -> &'static [&'static str] {
        &[CLUSTER_ROLE]
    }

    fn rules_outside(&self, _: Hotplug) -> Vec<PolicyRule> {
        rules_outside()
    }

    fn leftovers(&self) -> &'static [Leftover] {
        const LEFT: &[Leftover] = &[
            Leftover::applied(kinds::DEPLOYMENT, NAME),
            Leftover::applied(kinds::ROLE_BINDING, NAME),
            Leftover {
                kind: kinds::LEASE,
                name: LEASE,
                made_by_itself: true,
            },
            Leftover::applied(kinds::POD_DISRUPTION_BUDGET, NAME),
            Leftover::applied(kinds::NETWORK_POLICY, NAME),
            Leftover::applied(kinds::NETWORK_POLICY, LOAD_BALANCERS),
            Leftover::applied(kinds::SERVICE_ACCOUNT, NAME),
            Leftover::applied(kinds::SECRET, NAME),
        ];
        LEFT
    }

    fn release(&self) -> Option<Release> {
        Some(Release {
            component: api::names::COMPONENT_LOAD_BALANCER,
            reason: Reason::RemovingCloudController,
        })
    }

    fn manifests(&self, _: &Inputs<'_>) -> Vec<Value> {
        let objects = tenant_objects().into_iter();
        objects.map(|object| object.value).collect()
    }
}

/// Disruption budget, account, rights and NetworkPolicies in the tenant namespace.
fn base(v: &Validated, settings: &Settings) -> Vec<Object> {
    let mut objects = vec![disruption_budgets::budget(v, NAME)];
    objects.extend(adapter::account(v, NAME, CLUSTER_ROLE));
    objects.extend([adapter::both_apis(v, settings, NAME), node_ports_policy(v)]);
    objects
}

/// The Deployment. `store` is what the Secret [`NAME`] holds: its certificate, `ca.crt` and `kubeconfig`.
fn deployment(v: &Validated, settings: &Settings, store: &Store) -> Object {
    let pair = store.get(NAME).map(|pair| &pair.certificate);
    let certificate = object::hash(&json!([pair, bundle(store, names::CA)]));
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels(v, NAME)),
            // It reads its kubeconfig when it starts.
            annotations: Some(BTreeMap::from([(
                ANNOTATION_CERTIFICATE.to_owned(),
                certificate,
            )])),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            // The one part of a tenant cluster that speaks to the management API.
            automount_service_account_token: Some(true),
            containers: vec![container(v, settings)],
            volumes: Some(vec![pod::secret_volume(NAME)]),
            ..pod::spec(NAME, &v.scheduling)
        }),
    };
    Object::new(&Deployment {
        metadata: meta(v, NAME, NAME),
        spec: Some(DeploymentSpec {
            replicas: Some(v.replicas.min(REPLICAS)),
            revision_history_limit: Some(2),
            selector: LabelSelector {
                match_labels: Some(selector(NAME)),
                ..LabelSelector::default()
            },
            template,
            ..DeploymentSpec::default()
        }),
        ..Deployment::default()
    })
}

fn container(v: &Validated, settings: &Settings) -> Container {
    let images = &settings.images;
    Container {
        name: NAME.to_owned(),
        image: Some(pod::own_image(settings, &images.ccm_registry, &images.ccm)),
        args: Some(args(v, settings)),
        env: Some(vec![pod::own_name("POD_NAME")]),
        ports: Some(vec![adapter::admin_port()]),
        resources: Some(pod::resources(
            &settings.resources.cloud_controller,
            &BTreeMap::new(),
        )),
        security_context: Some(pod::container_security()),
        liveness_probe: Some(pod::probe("/livez", ADMIN_PORT, "HTTP", 20, 6)),
        // Ready once both APIs were listed; nothing depends on it but a rollout.
        readiness_probe: Some(pod::probe("/readyz", ADMIN_PORT, "HTTP", 5, 3)),
        volume_mounts: Some(vec![pod::mount(NAME, names::SECRET_DIR, true)]),
        ..Container::default()
    }
}

fn args(v: &Validated, settings: &Settings) -> Vec<String> {
    let mut args = vec![
        format!("--tenant-kubeconfig={}/kubeconfig", names::SECRET_DIR),
        format!("--namespace={}", v.tenant_namespace),
        format!("--cluster-uid={}", v.identity.uid),
        format!("--admin-address=0.0.0.0:{ADMIN_PORT}"),
        "--machine-addresses=published".to_owned(),
    ];
    let policy = &settings.load_balancers;
    let (services, ports, endpoints) =
        limits::of_load_balancers(&v.addons.cloud_controller.limits, policy);
    for (flag, most) in [
        ("max-services", services),
        ("max-ports", ports),
        ("max-endpoints", endpoints.get()),
    ] {
        args.push(format!("--{flag}={most}"));
    }
    let LoadBalancers {
        classes,
        management_class,
        annotations,
        addresses,
        labels,
    } = &v.load_balancers;
    let annotations = annotations.iter().map(|key| match key.ends_with('/') {
        true => format!("{key}*"),
        false => key.clone(),
    });
    let class: Vec<String> = management_class.iter().cloned().collect();
    for (flag, values) in [
        ("load-balancer-classes", classes.clone()),
        ("mirror-class", class),
        ("allow-annotations", annotations.collect()),
        (
            "allow-addresses",
            addresses.iter().map(ToString::to_string).collect(),
        ),
        (
            "mirror-labels",
            labels
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
        ),
    ] {
        if !values.is_empty() {
            args.push(format!("--{flag}={}", values.join(",")));
        }
    }
    if !policy.node_ports {
        args.push("--no-node-ports".to_owned());
    }
    if policy.proxy_ip_mode {
        args.push("--proxy-ip-mode".to_owned());
    }
    args
}

/// Clients of load balancers come from anywhere, to node ports.
fn node_ports_policy(v: &Validated) -> Object {
    let (first, last) = NODE_PORTS;
    let ports = ["TCP", "UDP", "SCTP"].map(|protocol| adapter::port(protocol, first, Some(last)));
    adapter::policy(
        v,
        LOAD_BALANCERS,
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(selector(api::names::COMPONENT_WORKER)),
                ..LabelSelector::default()
            }),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(vec![NetworkPolicyIngressRule {
                from: None,
                ports: Some(ports.into()),
            }]),
            ..NetworkPolicySpec::default()
        },
    )
}
