//! `TenantCluster`: one Kubernetes cluster whose control plane runs in the management cluster.
//!
//! Invariant: every field has a doc comment with unit, default and example; what may not change
//! after creation says so by a CEL rule. The status half is in [`status`].

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod addons;
mod audit;
mod authentication;
mod authorization;
mod backup;
mod encryption;
mod etcd;
mod hibernation;
mod identified;
mod identity;
mod maintenance;
mod nodes;
mod pod_metadata;
mod pod_security;
mod profile;
mod resources;
mod rotation;
mod scheduling;
mod service_accounts;
mod status;
mod upgrade;
pub use crate::taints::PodToleration;
pub use addons::{
    Addon, Addons, Autoscaler, AutoscalerLimits, CloudController, Cni, CniType, CoreDns, Csi,
    ForwardedZone, KubeProxy, KubeProxyMode, LoadBalancerLimits, LoadBalancers, Overlay,
    StorageLimits,
};
pub use audit::{Audit, AuditLevel, AuditLog, AuditResources, AuditRule, AuditWebhook};
pub use authentication::{Authentication, Issuer};
pub use authorization::{Authorization, AuthorizationWebhook};
pub use backup::{
    Backup, BackupStatus, OnVolumeLoss, RestoreProgress, RestoreTest, Retention, Salvaged,
};
pub use encryption::{Encryption, EncryptionStatus, KmsChoice, KmsStatus};
pub use etcd::{Bootstrap, Etcd, EtcdEvents, Storage};
pub use hibernation::{
    Hibernation, HibernationPhase, HibernationSchedule, HibernationStatus, HibernationWake,
    HibernationWebhooks, IdleStatus, WebhooksStatus,
};
pub use identity::TenantIdentity;
pub use maintenance::Maintenance;
pub use nodes::{Nodes, Proxy, RegistryMirror};
pub use pod_metadata::PodMetadata;
pub use pod_security::{PodSecurity, PodSecurityLevel};
pub use profile::Profile;
pub use resources::Resources;
pub use rotation::{
    AuthorityTurn, ClusterAuthorityTurn, KeyTurn, KubeconfigTurn, NodeAuthorityTurn, NodesOfBefore,
    Rotation, RotationPhase, RotationStatus, Turn,
};
pub use scheduling::{Scheduling, Spread};
pub use service_accounts::ServiceAccounts;
pub use status::{
    AddressesStatus, CertificateStatus, EndpointStatus, EtcdMemberStatus, EtcdReplacement,
    EtcdStatus, FailedPatch, MinimumVersionStatus, NetworkStatus, PatchStatus, RolledOut,
    RolloutBegun, RolloutStatus, TenantClusterStatus,
};
pub use upgrade::{
    Upgrade, UpgradeFailure, UpgradeFailurePolicy, UpgradeFailureReason, UpgradeFinding,
    UpgradeGuard, UpgradePhase, UpgradeSnapshot, UpgradeStatus,
};

/// A Kubernetes cluster whose API server, etcd and controllers run as pods of the management
/// cluster.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "covey.dev",
    version = "v1alpha1",
    kind = "TenantCluster",
    plural = "tenantclusters",
    shortname = "tc",
    category = "covey",
    namespaced,
    status = "TenantClusterStatus",
    derive = "PartialEq",
    doc = "A Kubernetes cluster whose API server, etcd and controllers run as pods of the management cluster.",
    validation = Rule::new("self.metadata.name.size() <= 46").message("the name may have at most 46 characters, because the tenant namespace is called covey-<name>-<10 characters>; choose a shorter one"),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')").message("the name must be a DNS label that starts with a letter (lower-case letters, digits and -, no dots), because it becomes part of a namespace's name"),
    validation = Rule::new(status::ADDED_POD_CIDR).field_path(".spec.network.podCIDR").message("network.podCIDR cannot be added later, unless it says what is in force (status.network.podCIDR); remove it or create a new tenant cluster"),
    validation = Rule::new(status::ADDED_SERVICE_CIDR).field_path(".spec.network.serviceCIDR").message("network.serviceCIDR cannot be added later, unless it says what is in force (status.network.serviceCIDR); remove it or create a new tenant cluster"),
    validation = Rule::new("!has(oldSelf.status) || !has(oldSelf.status.identity) || (has(self.status) && has(self.status.identity) && self.status.identity == oldSelf.status.identity)").message("status.identity of a TenantCluster cannot change: all its parts bear it; delete the TenantCluster to have them removed"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Endpoint", type_ = "string", json_path = ".status.endpoint.host"),
    printcolumn(name = "Port", type_ = "integer", json_path = ".status.endpoint.port"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Tenant-Namespace", type_ = "string", json_path = ".status.namespace", priority = 1),
    printcolumn(name = "Kubeconfig", type_ = "string", json_path = ".status.kubeconfigSecret", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct TenantClusterSpec {
    /// Kubernetes version of the control plane. Minors 1.34 to 1.36 are supported; it may go up
    /// one minor at a time and never down a minor. Required, no default. Example: `1.35.4`.
    #[schemars(length(max = 32), regex(pattern = r"^v?[0-9]+\.[0-9]+\.[0-9]+$"))]
    pub version: String,

    /// How it goes from one version to the next. Default: it does not begin while something speaks against
    /// it. Example: `{"guard": "Warn"}`.
    #[serde(default, skip_serializing_if = "Upgrade::is_default")]
    pub upgrade: Upgrade,

    /// Which of its authorities and keys are turned, each by the number of the generation that is to sign; how far that
    /// is says `status.rotation`. Default: all stay as they are. Example: `{"usersCA": {"generation": 2}}`.
    #[serde(default, skip_serializing_if = "Rotation::is_default")]
    pub rotation: Rotation,

    /// Which kinds of objects are encrypted in etcd, with the keys that `rotation.encryptionKeys` turns. Default: Secrets.
    /// Example: `{"resources": ["secrets", "configmaps"]}`.
    #[serde(default, skip_serializing_if = "Encryption::is_default")]
    pub encryption: Encryption,

    /// Whether it sleeps: nothing of it runs, and its data, keys and addresses stay. Default: it is awake.
    /// Example: `{"enabled": true}`.
    #[serde(default, skip_serializing_if = "Hibernation::is_default")]
    pub hibernation: Hibernation,

    /// When it follows another operator, and whether it takes patches of Kubernetes by itself (docs/fleet.md). Default: when
    /// its turn comes, and it takes none.
    /// Example: `{"heldUntil": "2027-01-31T12:00:00Z"}`.
    #[serde(default, skip_serializing_if = "Maintenance::is_default")]
    pub maintenance: Maintenance,

    /// The control plane: kube-apiserver, kube-controller-manager and kube-scheduler.
    /// Default: one pod of each kind, reachable inside the management cluster.
    /// Example: `{"replicas": 3}`.
    #[serde(default)]
    pub control_plane: ControlPlane,

    /// The etcd of this tenant cluster alone. Default: one member with a volume of 2Gi.
    /// Example: `{"replicas": 3, "storage": {"size": "8Gi"}}`.
    #[serde(default)]
    pub etcd: Etcd,

    /// Address ranges and DNS domain inside the tenant cluster. None of it can change later.
    /// Default: ranges that no other tenant cluster has, and `cluster.local`.
    /// Example: `{"podCIDR": "10.128.0.0/18", "serviceCIDR": "100.64.0.0/20"}`.
    #[serde(default)]
    pub network: Network,

    /// What Covey installs inside the tenant cluster; each part can be switched on and off later.
    /// Default: CoreDNS, kube-proxy, flannel and konnectivity. Example: `{"cni": {"type": "none"}}`.
    #[serde(default)]
    pub addons: Addons,

    /// What all machines of all node pools are given: mirrors of registries, a proxy, trusted
    /// authorities, time servers. A change holds for machines made afterwards. Default: nothing.
    /// Example: `{"ntpServers": ["ntp.example.com"]}`.
    #[serde(default, skip_serializing_if = "Nodes::is_default")]
    pub nodes: Nodes,

    /// Where the images come from. Default: where the operator is configured to take them from.
    /// Example: `{"registry": "mirror.example.com/k8s"}`.
    #[serde(default)]
    pub images: Images,

    /// Where backups of etcd go, and which are kept. Default: there are none. Example: `{"target": "main"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,

    /// `true`: the operator leaves everything of this tenant cluster as it is, and says so in the
    /// condition `Progressing`. Deletion still works. Default: `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
}

impl TenantCluster {
    /// The version that it is brought to, as its status says; none where that runs. The operator may have taken a newer patch
    /// than `spec.version` asks for.
    #[must_use]
    pub fn version_to_be(&self) -> Option<&str> {
        let status = self.status.as_ref();
        let runs = status.and_then(|status| status.version.as_deref());
        let upgrade = status.and_then(|status| status.upgrade.as_ref());
        let patch = status.and_then(|status| status.rollout.as_ref()?.patch.as_ref());
        let wanted = upgrade.map(|upgrade| upgrade.to.as_str());
        let wanted = wanted.or(patch.map(|patch| patch.version.as_str()));
        let wanted = wanted.unwrap_or(self.spec.version.trim_start_matches('v'));
        (runs != Some(wanted)).then_some(wanted)
    }
}

/// kube-apiserver, and apart from it kube-controller-manager and kube-scheduler, which share a pod.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// Number of pods with a kube-apiserver, and as many with the kube-controller-manager and the
    /// kube-scheduler, of which one leads; 1 to 9. Default: 1. Example: 3.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 9))]
    pub replicas: i32,

    /// How large its programs and those of etcd are made: what they ask for, how many requests are served at a
    /// time, and how eagerly they give memory back. `Small` is for tests and a few nodes, `Large` for more than
    /// fifty. `resources` and `extraArgs` go before it. A change replaces the pods, one after the other.
    /// Default: `Standard`. Example: `Small`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["Small", "Standard", "Large"]))]
    pub profile: Option<Profile>,

    /// How the API is published. Default: `{"type": "ClusterIP"}`.
    /// Example: `{"type": "NodePort", "host": "192.0.2.10", "port": 31443}`.
    #[serde(default)]
    pub endpoint: Endpoint,

    /// Settings of the kube-apiserver. Default: `{}`, none beyond Covey's own.
    /// Example: `{"extraArgs": {"event-ttl": "2h"}}`.
    #[serde(default)]
    pub api_server: Component,

    /// Settings of the kube-controller-manager. Default: `{}`, none beyond Covey's own.
    /// Example: `{"extraArgs": {"node-monitor-grace-period": "60s"}}`.
    #[serde(default)]
    pub controller_manager: Component,

    /// Settings of the kube-scheduler. Default: `{}`, none beyond Covey's own.
    /// Example: `{"extraArgs": {"v": "4"}}`.
    #[serde(default)]
    pub scheduler: Component,

    /// How users prove who they are, besides certificates and ServiceAccounts. Default: not otherwise.
    /// Example: `{"issuers": [{"url": "https://login.example.com", "audiences": ["kubernetes"]}]}`.
    #[serde(default, skip_serializing_if = "Authentication::is_default")]
    pub authentication: Authentication,

    /// Who may allow what, besides nodes' own rights and RBAC. Default: nobody.
    /// Example: `{"webhooks": [{"name": "policy", "url": "https://policy.example.com/authorize"}]}`.
    #[serde(default, skip_serializing_if = "Authorization::is_default")]
    pub authorization: Authorization,

    /// What the API server writes down of requests, and where. Default: who did what, in files of its pod.
    /// Example: `{"rules": [{"level": "Metadata", "verbs": ["create", "delete"]}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,

    /// What tokens of ServiceAccounts say, so that others can believe them. Default: what the tenant cluster
    /// alone believes. Example: `{"issuer": "https://oidc.example.com/demo"}`.
    #[serde(default, skip_serializing_if = "ServiceAccounts::is_default")]
    pub service_accounts: ServiceAccounts,

    /// Features of Kubernetes by the name of their gate, on or off, at most 32: for the API server, the
    /// kube-controller-manager and the kube-scheduler, and for kubelets whose machines are made
    /// later. `docs/flags.md` lists those that can be set, of which the platform allows some. Default:
    /// those of the version. Example: `{"HPAScaleToZero": true}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub feature_gates: BTreeMap<String, bool>,

    /// Versions of API groups that are served or not, at most 16. `docs/flags.md` lists those that can be
    /// set, of which the platform allows some. Default: those of the version.
    /// Example: `{"resource.k8s.io/v1beta2": true}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub runtime_config: BTreeMap<String, bool>,

    /// What pods may be in namespaces that say nothing of it. A change restarts the API server. Default:
    /// anything. Example: `{"enforce": "baseline", "warn": "restricted"}`.
    #[serde(default, skip_serializing_if = "PodSecurity::is_default")]
    pub pod_security: PodSecurity,

    /// Labels and annotations of the pods of the control plane, as far as the platform allows them. A change
    /// replaces the pods. Default: Covey's own. Example: `{"labels": {"example.com/cost-centre": "shop"}}`.
    #[serde(default, skip_serializing_if = "PodMetadata::is_default")]
    pub pod_metadata: PodMetadata,

    /// Where the pods of the control plane run in the management cluster, and those of addons beside
    /// it. Default: as the platform says. Example: `{"spread": "Required"}`.
    #[serde(default, skip_serializing_if = "Scheduling::is_default")]
    pub scheduling: Scheduling,
}

impl Default for ControlPlane {
    fn default() -> Self {
        Self {
            replicas: default_replicas(),
            profile: None,
            endpoint: Endpoint::default(),
            api_server: Component::default(),
            controller_manager: Component::default(),
            scheduler: Component::default(),
            authentication: Authentication::default(),
            authorization: Authorization::default(),
            audit: None,
            service_accounts: ServiceAccounts::default(),
            feature_gates: BTreeMap::new(),
            runtime_config: BTreeMap::new(),
            pod_security: PodSecurity::default(),
            pod_metadata: PodMetadata::default(),
            scheduling: Scheduling::default(),
        }
    }
}

fn default_replicas() -> i32 {
    1
}

/// How the API is published.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type == oldSelf.type").field_path(".type").message("endpoint.type cannot change: kubeconfigs and nodes hold the address; create a new tenant cluster"),
    validation = Rule::new("self.type != 'NodePort' || (has(self.host) && self.host != '')").field_path(".host").message("endpoint.type NodePort needs endpoint.host: the address or DNS name under which clients reach the management cluster's nodes"),
    validation = Rule::new("self.type == 'LoadBalancer' || !has(self.loadBalancerClass)").field_path(".loadBalancerClass").message("endpoint.loadBalancerClass is for endpoint.type LoadBalancer only; remove it or change the type"),
    validation = Rule::new("self.type == 'LoadBalancer' || !has(self.sourceRanges) || self.sourceRanges.size() == 0").field_path(".sourceRanges").message("endpoint.sourceRanges is for endpoint.type LoadBalancer only; remove it or change the type"),
    validation = Rule::new("self.type != 'ClusterIP' || !has(self.externalTrafficPolicy)").field_path(".externalTrafficPolicy").message("endpoint.externalTrafficPolicy is for endpoint.type NodePort and LoadBalancer only; remove it or change the type"),
    validation = Rule::new("self.type == 'LoadBalancer' || !has(self.allocateLoadBalancerNodePorts)").field_path(".allocateLoadBalancerNodePorts").message("endpoint.allocateLoadBalancerNodePorts is for endpoint.type LoadBalancer only; remove it or change the type"),
    validation = Rule::new("self.type != 'ClusterIP' || !has(self.konnectivityPort)").field_path(".konnectivityPort").message("endpoint.konnectivityPort is for endpoint.type NodePort and LoadBalancer only; remove it or change the type"),
    validation = Rule::new("!has(self.konnectivityPort) || self.konnectivityPort != (has(self.port) ? self.port : 6443)").field_path(".konnectivityPort").message("endpoint.konnectivityPort is the port of the API; choose another one"),
    validation = Rule::new("has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass)").field_path(".loadBalancerClass").message("endpoint.loadBalancerClass cannot be added, changed or removed later (Kubernetes does not allow it on a Service); create a new tenant cluster")
)]
pub struct Endpoint {
    /// Type of the Service that publishes the API. Cannot change. Default: `ClusterIP`.
    /// Example: `LoadBalancer`.
    #[serde(default, rename = "type")]
    pub type_: EndpointType,

    /// Address or DNS name under which clients reach the API, where it differs from what the
    /// Service reports; required for `NodePort`. Default: the Service's own address.
    /// Example: `demo.example.com`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub host: Option<String>,

    /// Port of the Service; for `NodePort` the port on every node, which must be in the management
    /// cluster's node port range. Default: 6443, and for `NodePort` one that is free.
    /// Example: 31443.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// Port at which konnectivity is published beside the API, by the same Service; for `NodePort` the port on every
    /// node. For nodes that are not in the management cluster's network (Hosts): their agents dial host and this port,
    /// and where the host is an IP address the Service `kubernetes` inside leads to it. For `NodePort` and
    /// `LoadBalancer`. Default: none, konnectivity is reached inside the management cluster only. Example: 8132.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub konnectivity_port: Option<i32>,

    /// Further names and addresses for the serving certificate, at most 32; `*` may stand for the
    /// first part of a name. Default: none beyond host and Service.
    /// Example: `["api.example.com"]`.
    #[serde(default, rename = "certSANs", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 255)), extend("x-kubernetes-list-type" = "set"))]
    pub cert_sans: Vec<String>,

    /// Annotations of the Service, as load balancers read them; at most 64. Default: none.
    /// Example: `{"metallb.io/address-pool": "tenants"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub annotations: BTreeMap<String, String>,

    /// Labels of the Service, at most 16, besides Covey's own. Default: none.
    /// Example: `{"example.com/pool": "tenants"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub labels: BTreeMap<String, String>,

    /// `Local`: only nodes on which a pod of the control plane runs answer, and they see who asks.
    /// For `NodePort` and `LoadBalancer`. Default: `Cluster`, every node answers. Example: `Local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["Cluster", "Local"]))]
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,

    /// `false`: the load balancer needs no port on the nodes. For `LoadBalancer`. Default: `true`.
    /// Example: `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocate_load_balancer_node_ports: Option<bool>,

    /// Class of the load balancer. Cannot change. Default: the management cluster's default.
    /// Example: `example.com/internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub load_balancer_class: Option<String>,

    /// Address ranges that may reach the load balancer, at most 32. Default: all.
    /// Example: `["10.0.0.0/8"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)), extend("x-kubernetes-list-type" = "set"))]
    pub source_ranges: Vec<String>,
}

/// Which nodes answer for a Service.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ExternalTrafficPolicy {
    /// Every one.
    Cluster,
    /// Those with a pod of it.
    Local,
}

impl ExternalTrafficPolicy {
    /// The text of `Service.spec.externalTrafficPolicy`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

/// Type of the Service that publishes the API.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum EndpointType {
    /// Reachable inside the management cluster.
    #[default]
    ClusterIP,
    /// Reachable on every node of the management cluster.
    NodePort,
    /// Reachable through a load balancer, by address or by host name.
    LoadBalancer,
}

impl EndpointType {
    /// The text of `Service.spec.type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}

/// Settings of one component.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// CPU and memory of the container. Default: what the operator is configured with.
    /// Example: `{"requests": {"memory": "512Mi"}}`.
    #[serde(default)]
    pub resources: Resources,

    /// Further flags without the leading `--`, at most 64. Flags that Covey sets itself are
    /// refused. Default: none. Example: `{"v": "2"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub extra_args: BTreeMap<String, String>,
}

/// Address ranges and DNS domain inside the tenant cluster.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.podCIDR) || (has(self.podCIDR) && self.podCIDR == oldSelf.podCIDR)").field_path(".podCIDR").message("network.podCIDR cannot change: nodes and pods hold addresses of it; create a new tenant cluster"),
    validation = Rule::new("!has(oldSelf.serviceCIDR) || (has(self.serviceCIDR) && self.serviceCIDR == oldSelf.serviceCIDR)").field_path(".serviceCIDR").message("network.serviceCIDR cannot change: Services hold addresses of it; create a new tenant cluster"),
    validation = Rule::new("(has(oldSelf.dnsDomain) ? oldSelf.dnsDomain : 'cluster.local') == (has(self.dnsDomain) ? self.dnsDomain : 'cluster.local')").field_path(".dnsDomain").message("network.dnsDomain cannot change: certificates and pods hold it; create a new tenant cluster")
)]
pub struct Network {
    /// Addresses of the tenant's pods: an IPv4 range of /8 to /24. Cannot change. Default: a range
    /// that no other tenant cluster has, from the operator's pool; it then stands in
    /// `status.network`. Example: `10.128.0.0/18`.
    #[serde(default, rename = "podCIDR", skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub pod_cidr: Option<String>,

    /// Addresses of the tenant's Services: an IPv4 range of /12 to /28. Cannot change. Default: as
    /// for `podCIDR`. Example: `100.64.0.0/20`.
    #[serde(
        default,
        rename = "serviceCIDR",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 128))]
    pub service_cidr: Option<String>,

    /// DNS domain inside the tenant cluster. Cannot change. Default: `cluster.local`.
    /// Example: `demo.internal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub dns_domain: Option<String>,
}

/// Where the images come from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Images {
    /// Registry, and path below it, that the image names are appended to, also that of flannel
    /// (`flannel-io/flannel`, from `ghcr.io` by default). Default: what the operator is configured
    /// with, normally `registry.k8s.io`. Example: `mirror.example.com/k8s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255))]
    pub registry: Option<String>,
}
