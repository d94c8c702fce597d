//! `spec.addons`: what Covey installs inside the tenant cluster.
//!
//! Invariant: every addon can be switched on and off at any time; what has no default of its own is
//! on. Whoever brings something of his own switches ours off.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::quantity::Quantity;

/// What Covey installs inside the tenant cluster. It keeps every object as it should be, and
/// removes those of an addon that is switched off.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Addons {
    /// DNS for pods: CoreDNS behind the tenth address of the Service range.
    /// Default: `{"enabled": true}`. Example: `{"replicas": 4}`.
    #[serde(default, rename = "coreDNS")]
    pub core_dns: CoreDns,

    /// Services for pods: kube-proxy on every node.
    /// Default: `{"enabled": true}`. Example: `{"mode": "iptables"}`.
    #[serde(default)]
    pub kube_proxy: KubeProxy,

    /// Network between pods. Default: `{"type": "flannel"}`. Example: `{"type": "none"}`.
    #[serde(default)]
    pub cni: Cni,

    /// Encrypted tunnels among nodes, also of several sites behind address translations: pods of all of them
    /// reach each other. Needs `cni.type` flannel, whose packets go through it. Switched off, flannel goes
    /// back to the network below first. Default: `{"enabled": false}`.
    /// Example: `{"enabled": true, "cidr": "198.18.0.0/16"}`.
    #[serde(default, skip_serializing_if = "Overlay::is_default")]
    pub overlay: Overlay,

    /// The way from the API server to nodes and pods: exec, logs, port-forward, webhooks and
    /// aggregated APIs. Without it none of them works but exec and logs.
    /// Default: `{"enabled": true}`. Example: `{"enabled": false}`.
    #[serde(default)]
    pub konnectivity: Addon,

    /// Load balancers and node lifecycle: Services of type LoadBalancer get addresses of the
    /// management cluster, nodes go with their machines. Switched off, such Services lose their
    /// addresses. Default: `{"enabled": false}`.
    /// Example: `{"enabled": true, "loadBalancers": {"classes": ["example.com/internal"]}}`.
    #[serde(default)]
    pub cloud_controller: CloudController,

    /// Volumes: claims of the tenant cluster become claims in the management cluster, attached to
    /// the machine on which the pod runs. There is a StorageClass for each class of storage that the
    /// management cluster offers. Switched off, volumes stay, and stay attached, but nothing is
    /// attached, mounted or taken away any more. Default: `{"enabled": false}`.
    /// Example: `{"enabled": true, "classes": ["fast"]}`.
    #[serde(default)]
    pub csi: Csi,

    /// Node pools that grow and shrink by themselves: those with `spec.autoscaling`. A Cluster
    /// Autoscaler runs beside the control plane. Switched off, pools keep the size that they have.
    /// Default: `{"enabled": false}`. Example: `{"enabled": true, "limits": {"nodes": 20}}`.
    #[serde(default)]
    pub autoscaler: Autoscaler,
}

/// An addon that is on unless it is switched off.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Addon {
    /// Whether Covey installs it. Default: `true`. Example: `false`.
    pub enabled: bool,
}

impl Default for Addon {
    fn default() -> Self {
        Self { enabled: true }
    }
}

/// Services for pods.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeProxy {
    /// Whether Covey installs it. Default: `true`. Example: `false`.
    pub enabled: bool,

    /// How it has packets translated: `nftables`, or `iptables` for nodes with a kernel older than 5.13.
    /// A change restarts it node by node. Default: `nftables`. Example: `iptables`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["nftables", "iptables"]))]
    pub mode: Option<KubeProxyMode>,
}

impl Default for KubeProxy {
    fn default() -> Self {
        Self {
            enabled: true,
            mode: None,
        }
    }
}

/// How kube-proxy has packets translated.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum KubeProxyMode {
    /// By nftables.
    #[default]
    Nftables,
    /// By iptables.
    Iptables,
}

impl KubeProxyMode {
    /// The text of `KubeProxyConfiguration.mode`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

/// DNS for pods.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CoreDns {
    /// Whether Covey installs it. Default: `true`. Example: `false`.
    pub enabled: bool,

    /// Number of pods, 1 to 32. Default: 2. Example: 4.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub replicas: Option<i32>,

    /// Zones that other servers are asked for, at most 16. Default: none, the machines' resolver is
    /// asked for whatever is outside of the tenant cluster.
    /// Example: `[{"zone": "corp.example.com", "servers": ["10.1.0.53"]}]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["zone"]))]
    pub forward: Vec<ForwardedZone>,
}

impl Default for CoreDns {
    fn default() -> Self {
        Self {
            enabled: true,
            replicas: None,
            forward: Vec::new(),
        }
    }
}

/// A zone that other servers are asked for.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedZone {
    /// The zone; names below it belong to it. Required, no default. Example: `corp.example.com`.
    #[schemars(length(min = 1, max = 253))]
    pub zone: String,

    /// Addresses of the servers, at most 4. Required, no default. Example: `["10.1.0.53"]`.
    #[schemars(length(min = 1, max = 4), inner(length(min = 1, max = 45)))]
    pub servers: Vec<String>,
}

/// Encrypted tunnels among nodes.
#[derive(Clone, Debug, Default, Deserialize, Eq, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!self.enabled || has(self.cidr)").message("the overlay has no addresses: set spec.addons.overlay.cidr to a range that nothing at the nodes' sites uses, such as 198.18.0.0/16"),
    validation = Rule::new("!self.enabled || !oldSelf.enabled || !has(oldSelf.cidr) || (has(self.cidr) && self.cidr == oldSelf.cidr)").message("cidr of an overlay that is on cannot change, because nodes have addresses of it; switch spec.addons.overlay.enabled off, wait until the DaemonSet covey-overlay is gone, and switch it on with the other range").field_path(".cidr")
)]
pub struct Overlay {
    /// Whether Covey installs it. Default: `false`. Example: `true`.
    #[serde(default)]
    pub enabled: bool,

    /// Addresses of nodes in the overlay, one for each machine: IPv4 from /8 to /28, and of no range of the tenant
    /// cluster's or the management cluster's. Nothing else that a node is to reach may be in it: all of it leads into
    /// the tunnels. Cannot change while it is on. Default: none; required where it is on.
    /// Example: `198.18.0.0/16`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 43))]
    pub cidr: Option<String>,
}

impl Overlay {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Load balancers and node lifecycle.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CloudController {
    /// Whether Covey installs it. Default: `false`. Example: `true`.
    pub enabled: bool,

    /// What Services of type LoadBalancer inside the tenant cluster may ask of the management cluster's load
    /// balancers. Default: all that the platform allows (`config.loadBalancers` of the chart).
    /// Example: `{"annotations": ["metallb.io/ip-allocated-from-pool"], "addresses": ["203.0.113.0/28"]}`.
    #[serde(skip_serializing_if = "LoadBalancers::is_default")]
    pub load_balancers: LoadBalancers,

    /// The most that the load balancers of this tenant cluster take of the management cluster, where that is to
    /// be less than the platform gives; what is there stays when one is lowered. Default: all that it gives
    /// (`config.loadBalancers` of the chart). Example: `{"services": 20, "ports": 40}`.
    #[serde(skip_serializing_if = "LoadBalancerLimits::is_default")]
    pub limits: LoadBalancerLimits,
}

/// The most that load balancers of a tenant cluster take of the management cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerLimits {
    /// Most load balancers, 0 to 100000 and no more than `config.loadBalancers.maxServices` of the chart.
    /// Default: that many. Example: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub services: Option<i32>,

    /// Most ports of all load balancers together, 0 to 100000 and no more than
    /// `config.loadBalancers.maxPorts` of the chart. Default: that many. Example: 40.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub ports: Option<i32>,

    /// Most nodes that each load balancer leads to, 1 to 100000 and no more than
    /// `config.loadBalancers.maxEndpoints` of the chart. Default: that many. Example: 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub endpoints: Option<i32>,
}

impl LoadBalancerLimits {
    /// Whether all is as the platform gives it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What Services of type LoadBalancer may ask for, and what their load balancers are like.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancers {
    /// Values of `loadBalancerClass` inside the tenant cluster that get a load balancer of the management
    /// cluster, besides Services without a class, at most 16. Default: none.
    /// Example: `["example.com/internal"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub classes: Vec<String>,

    /// Class of the load balancers in the management cluster, one of `config.loadBalancers.classes` of the
    /// chart. Those that there are keep theirs. Default: `config.loadBalancers.defaultClass`.
    /// Example: `example.com/internal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub management_class: Option<String>,

    /// Keys of annotations that load balancers take over from Services, of those that the platform allows; one
    /// that ends in `/` stands for all with this prefix. At most 32. Default: all that it allows.
    /// Example: `["metallb.io/ip-allocated-from-pool"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 317)))]
    pub annotations: Option<Vec<String>>,

    /// Ranges in which the fixed addresses lie that Services may ask for (`loadBalancerIP`, `externalIPs`),
    /// within those that the platform allows. At most 32. Default: all that it allows.
    /// Example: `["203.0.113.0/28"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 45)))]
    pub addresses: Option<Vec<String>>,

    /// Further labels of the load balancers' Services in the management cluster, with keys that the platform
    /// allows, at most 16. Default: none. Example: `{"example.com/zone": "public"}`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub labels: BTreeMap<String, String>,
}

impl LoadBalancers {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Volumes.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Csi {
    /// Whether Covey installs it. Default: `false`. Example: `true`.
    pub enabled: bool,

    /// Classes of storage that this tenant cluster gets, of those that the management cluster offers
    /// (`config.storage.classes` of the chart). The offered default stays the default where it is
    /// among them; otherwise the first one named is. Default: all that are offered.
    /// Example: `["fast"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32), inner(length(min = 1, max = 63)))]
    pub classes: Option<Vec<String>>,

    /// The most volumes and snapshots of this tenant cluster, where that is to be less than the platform gives;
    /// what is there stays when one is lowered. Default: all that it gives (`config.storage` of the chart).
    /// Example: `{"volumes": 100, "snapshots": 50}`.
    #[serde(skip_serializing_if = "StorageLimits::is_default")]
    pub limits: StorageLimits,
}

/// The most volumes and snapshots of a tenant cluster.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageLimits {
    /// Most volumes, 0 to 100000 and no more than `config.storage.maxVolumes` of the chart. Default: that
    /// many. Example: 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub volumes: Option<i32>,

    /// Most snapshots, 0 to 100000 and no more than `config.storage.maxSnapshots` of the chart. Default: that
    /// many. Example: 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100_000))]
    pub snapshots: Option<i32>,
}

impl StorageLimits {
    /// Whether all is as the platform gives it.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Node pools that grow and shrink by themselves.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Autoscaler {
    /// Whether Covey installs it. Default: `false`. Example: `true`.
    pub enabled: bool,

    /// What all nodes of the tenant cluster may amount to; nothing grows beyond it. Default: no
    /// limit but those of the pools. Example: `{"nodes": 20, "cpu": 64, "memory": "256Gi"}`.
    #[serde(skip_serializing_if = "AutoscalerLimits::is_unlimited")]
    pub limits: AutoscalerLimits,

    /// `true`: pools whose nodes are alike (same size, same labels but those of places) are kept at the
    /// same number of nodes when they grow, such as one pool for each zone. Default: `false`.
    /// Example: `true`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub balance_similar_node_groups: bool,

    /// Keys of taints that a node has only until something on it is ready, such as a device plugin, at
    /// most 16: a node with one counts as one that starts, and pods are taken to fit an empty pool with
    /// it. Default: none. Example: `["example.com/agent-not-ready"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 317)), extend("x-kubernetes-list-type" = "set"))]
    pub startup_taints: Vec<String>,

    /// How long a node may take from the decision until it is ready; then its pool is passed over for a
    /// while and the machine given back: hours (h), minutes (m), seconds (s), 30s or more. Default: the
    /// Cluster Autoscaler's, 15 minutes. Example: `25m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_provision_time: Option<Duration>,

    /// How long a node has to be not ready, and unneeded, before it goes: hours (h), minutes (m), seconds
    /// (s), 30s or more. Default: the Cluster Autoscaler's, 20 minutes. Example: `40m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_unready_time: Option<Duration>,

    /// How long after any pool grew nothing is given back, whatever the pools' `scaleDownDelay` says:
    /// hours (h), minutes (m), seconds (s). Default: the Cluster Autoscaler's, 10 minutes.
    /// Example: `2m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_delay_after_add: Option<Duration>,
}

/// What all nodes of a tenant cluster may amount to.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerLimits {
    /// Most nodes, 1 to 5000. Default: no limit. Example: 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 5000))]
    pub nodes: Option<i32>,

    /// Most processors, 1 to 100000. Default: no limit. Example: 64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub cpu: Option<i32>,

    /// Most memory in bytes with the suffixes of Kubernetes, 1Gi or more; the Cluster Autoscaler
    /// counts whole GiB. Default: no limit. Example: `256Gi`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
}

impl AutoscalerLimits {
    /// Whether nothing is limited.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// Network between pods.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cni {
    /// Who makes it. `none`: you install one yourself, with Helm or Flux; nodes stay NotReady until
    /// it is there. Nodes keep the configuration that they have: replace them after a change.
    /// Default: `flannel`. Example: `none`.
    #[serde(rename = "type")]
    pub type_: CniType,
}

/// Who makes the network between pods.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CniType {
    /// flannel with VXLAN, which needs nothing of the network between the nodes but UDP.
    #[default]
    Flannel,
    /// Nobody: bring your own.
    None,
}
