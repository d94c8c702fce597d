//! A TenantCluster that can be built: what every later step sees of it.
//!
//! Invariant: it holds what is in force (the operator's defaults are filled in, ranges are decided), so
//! nobody later looks at the raw object.

use std::collections::{BTreeMap, BTreeSet};

use api::tenant_cluster::{
    Addons, Audit, AuthorizationWebhook, EndpointType, ExternalTrafficPolicy, ForwardedZone,
    Issuer, KubeProxyMode, PodMetadata, PodSecurity, Profile, ServiceAccounts, Spread,
    TenantIdentity,
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Toleration;
use semver::Version;

use crate::validate::quantity;

/// Bytes of a volume for write-ahead log and snapshots, beside the database.
const SPARE: u64 = 512 << 20;

/// A TenantCluster that can be built.
#[derive(Clone, Debug, PartialEq)]
pub struct Validated {
    /// Name of the TenantCluster.
    pub name: String,
    /// Its namespace: the user's.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
    /// The name and UID that its parts bear: its own, or those of what it took over.
    pub identity: TenantIdentity,
    /// Its generation.
    pub generation: i64,
    /// The tenant namespace.
    pub tenant_namespace: String,
    /// Kubernetes version.
    pub version: Version,
    /// The minor (of 1.x) that its kube-apiservers serve in place of their own, while it is upgraded.
    pub emulated: Option<u64>,
    /// Number of control-plane pods.
    pub replicas: i32,
    /// How large its programs are made; requests, limits and flags of the programs are in force already.
    pub profile: Profile,
    /// How the API is published.
    pub endpoint: Endpoint,
    /// Settings of the kube-apiserver.
    pub api_server: Component,
    /// Settings of the kube-controller-manager.
    pub controller_manager: Component,
    /// Settings of the kube-scheduler.
    pub scheduler: Component,
    /// Where the pods of the control plane run, and those of addons beside it.
    pub scheduling: Scheduling,
    /// Further labels and annotations of the pods of the control plane.
    pub pod_metadata: PodMetadata,
    /// Settings of etcd.
    pub etcd: Etcd,
    /// Address ranges: given by the user or by the operator (`status.network`).
    pub network: Network,
    /// Who may say who somebody is, besides the tenant cluster itself.
    pub issuers: Vec<Issuer>,
    /// Who may allow what nobody else allows; asked through konnectivity, so none without it.
    pub authorization_webhooks: Vec<AuthorizationWebhook>,
    /// What is written down of requests, and where; its webhook is reached through konnectivity, so there is
    /// none without it.
    pub audit: Option<Audit>,
    /// What tokens of ServiceAccounts say.
    pub service_accounts: ServiceAccounts,
    /// Feature gates, on or off; every one is known to the version.
    pub feature_gates: BTreeMap<String, bool>,
    /// API versions, served or not; every one is known to the version.
    pub runtime_config: BTreeMap<String, bool>,
    /// Which addons are asked for, and how.
    pub addons: Addons,
    /// Settings of CoreDNS.
    pub dns: Dns,
    /// How kube-proxy has packets translated.
    pub kube_proxy_mode: KubeProxyMode,
    /// What pods may be in namespaces that say nothing of it.
    pub pod_security: PodSecurity,
    /// Storage that it is offered; none where it wants no volumes.
    pub storage: Option<api::storage::Offer>,
    /// How node pools grow and shrink by themselves; none where they do not.
    pub autoscaler: Option<api::tenant_cluster::Autoscaler>,
    /// What load balancers of Services may be given, and what they are like.
    pub load_balancers: LoadBalancers,
    /// Names of the KMSs whose plugins run beside its kube-apiservers, or are to.
    pub kms: BTreeSet<String>,
    /// Registry without a trailing slash.
    pub registry: String,
}

/// What load balancers of Services may be given, and what they are like; what the platform does not allow is
/// not among it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadBalancers {
    /// Values of `loadBalancerClass` inside the tenant cluster that get one, besides none.
    pub classes: Vec<String>,
    /// Their class in the management cluster.
    pub management_class: Option<String>,
    /// Keys of annotations that they take over; one that ends in `/` stands for all with this prefix.
    pub annotations: Vec<String>,
    /// Where fixed addresses lie that Services may ask for.
    pub addresses: Vec<IpNet>,
    /// Further labels of their Services.
    pub labels: BTreeMap<String, String>,
}

/// Settings of CoreDNS.
#[derive(Clone, Debug, PartialEq)]
pub struct Dns {
    /// Number of pods.
    pub replicas: i32,
    /// Zones that other servers are asked for.
    pub forward: Vec<ForwardedZone>,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            replicas: 2,
            forward: Vec::new(),
        }
    }
}

/// How the API is published.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    /// Type of the Service.
    pub type_: EndpointType,
    /// Host that the user named.
    pub host: Option<String>,
    /// Port of the Service; for NodePort also the node port, where the user named one.
    pub port: Option<i32>,
    /// Port at which konnectivity is published by the same Service; for NodePort the node port. None without
    /// konnectivity.
    pub konnectivity_port: Option<i32>,
    /// Further names for the serving certificate.
    pub cert_sans: Vec<String>,
    /// Annotations of the Service.
    pub annotations: BTreeMap<String, String>,
    /// Further labels of the Service.
    pub labels: BTreeMap<String, String>,
    /// Which nodes answer; none: the API server's default.
    pub external_traffic_policy: Option<ExternalTrafficPolicy>,
    /// Whether a load balancer needs ports of nodes; none: the API server's default.
    pub allocate_node_ports: Option<bool>,
    /// Class of the load balancer.
    pub load_balancer_class: Option<String>,
    /// Who may reach the load balancer.
    pub source_ranges: Vec<String>,
}

/// Settings of one component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Component {
    /// Requests, resource name to quantity; the operator's defaults are already among them.
    pub requests: BTreeMap<String, String>,
    /// Limits, resource name to quantity.
    pub limits: BTreeMap<String, String>,
    /// Further flags without leading dashes; none of them is one that Covey sets.
    pub extra_args: BTreeMap<String, String>,
}

/// Settings of etcd.
#[derive(Clone, Debug, PartialEq)]
pub struct Etcd {
    /// Members that there are or are to be, from the first on: as many as are wanted, or more while some are to be
    /// taken away.
    pub replicas: i32,
    /// Members that are wanted: 1 or 3.
    pub wanted: i32,
    /// Members that kube-apiservers ask: as many as are wanted, or fewer while some have no vote yet.
    pub servers: i32,
    /// Size of each member's volume.
    pub storage_size: String,
    /// StorageClass; none means the management cluster's default.
    pub storage_class_name: Option<String>,
    /// Requests; the operator's defaults are already among them.
    pub requests: BTreeMap<String, String>,
    /// Limits.
    pub limits: BTreeMap<String, String>,
    /// Most bytes of the database, where the user says so.
    pub quota_backend_bytes: Option<u64>,
    /// Whether a member that lost its data is replaced by itself.
    pub auto_replace: bool,
    /// The etcd that has Events alone; none where Events are kept with everything else.
    pub events: Option<EtcdEvents>,
    /// Further labels and annotations of its pods.
    pub pod_metadata: PodMetadata,
    /// Where its pods run.
    pub scheduling: Scheduling,
}

/// The etcd that has Events alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EtcdEvents {
    /// Most bytes on the disk of its node.
    pub size: String,
    /// Requests; the operator's defaults are already among them.
    pub requests: BTreeMap<String, String>,
    /// Limits.
    pub limits: BTreeMap<String, String>,
    /// Whether kube-apiservers keep Events there: not before it works, and not any more once it does not.
    pub named: bool,
    /// Since when it had not been ready when kube-apiservers were last told to do without it.
    pub lost: Option<String>,
}

impl Etcd {
    /// The same while a volume holds only so much: volumes grow after they are asked to, if at all, and a
    /// database that may be larger than its volume breaks it.
    #[must_use]
    pub fn within(&self, volume: &str) -> Self {
        let most = quantity::bytes(volume).map(|volume| volume.saturating_sub(SPARE));
        Self {
            storage_size: volume.to_owned(),
            quota_backend_bytes: self
                .quota_backend_bytes
                .map(|asked| most.map_or(asked, |most| asked.min(most))),
            ..self.clone()
        }
    }
}

/// Where pods run in the management cluster: what the platform says and what the user chose, together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scheduling {
    /// Labels that a node has to have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that do not keep the pods away.
    pub tolerations: Vec<Toleration>,
    /// Whether two of a kind may share a node.
    pub spread: Spread,
    /// Their PriorityClass.
    pub priority_class_name: Option<String>,
    /// Their RuntimeClass.
    pub runtime_class_name: Option<String>,
}

/// Address ranges inside the tenant cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Addresses of pods.
    pub pod_cidr: IpNet,
    /// Addresses of Services; at least 16.
    pub service_cidr: IpNet,
    /// DNS domain.
    pub dns_domain: String,
}
