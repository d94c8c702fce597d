//! What the operator is configured with (the chart's `config` value), as plain data.
//!
//! Invariant: every field has a default that works on an ordinary management cluster.

use std::collections::BTreeMap;

use api::storage::Offer;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;

pub(crate) mod access;
pub(crate) mod encryption;
pub mod golden_start;
pub(crate) mod metrics;
mod node_programs;
pub(crate) mod policy;
pub(crate) mod providers;
pub(crate) mod tenant_pods;
pub(crate) mod versions;
pub use access::AccessSettings;
pub use encryption::{EncryptionSettings, KmsPlugin};
use golden_start::GoldenStart;
pub use metrics::{MetricsSettings, Scraper};
pub use node_programs::NodePrograms;
pub use policy::{ApiServerPolicy, EndpointPolicy, LoadBalancerPolicy, Prefixes};
pub use providers::{
    AwsSettings, AwsWebIdentity, AzureSettings, GcpSettings, HetznerSettings, ImagePullPolicy,
    KernelSettings, KubeVirtSettings, MachinePolicy, ProviderSettings, StaticSettings,
};
pub use tenant_pods::{SchedulingPolicy, TenantPods};
pub use versions::MinimumVersion;

/// Free mebibytes of its database from which on a member of etcd writes it anew when it starts
/// (`--bootstrap-defrag-threshold-megabytes`).
pub const ETCD_BOOTSTRAP_DEFRAG_MIB: u64 = 100;

/// Configuration of the operator that decides what objects are wanted.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Registry for tenants that name none. Default: `registry.k8s.io`.
    pub registry: String,
    /// Registries, with or without a path, that tenant clusters may name besides that one. Default:
    /// none.
    pub allowed_registries: Prefixes,
    /// Images, or registries with or without a path, that machines may be made of besides those of
    /// `providers`. Default: none.
    pub allowed_machine_images: Prefixes,
    /// What users may choose of how their tenant cluster's API is published.
    pub endpoint: EndpointPolicy,
    /// What load balancers of tenant clusters may be given, and what they are like.
    pub load_balancers: LoadBalancerPolicy,
    /// What users may have their kube-apiservers do.
    pub api_server: ApiServerPolicy,
    /// StorageClasses of the management cluster that etcd's volumes may be of, besides its default.
    /// Default: none.
    pub etcd_storage_classes: Vec<String>,
    /// Image repository path and tag of etcd below the registry. Default: `etcd:3.6.16-0`.
    pub etcd_image: String,
    /// What new tenant clusters begin with in place of an empty etcd, by the whole version of Kubernetes (`1.36.3`): golden
    /// files of the image of etcd-agent. A version that is left out begins without data. Default: none.
    pub golden_starts: BTreeMap<String, GoldenStart>,
    /// How many control planes run that nobody has asked for yet, by the whole version of Kubernetes (`1.36.3`): a new
    /// TenantCluster of such a version that has no wishes of its own for its control plane takes one over. Each costs what a
    /// tenant cluster costs. They are in the namespace of the operator's with `-standby` behind. Default: none.
    pub standby: BTreeMap<String, u16>,
    /// Images of addons.
    pub images: AddonImages,
    /// Where address ranges come from for tenants that name none.
    pub network: NetworkSettings,
    /// Requests per container for tenants that name none.
    pub resources: DefaultResources,
    /// Limits of memory for tenants that name none.
    pub memory_limits: MemoryLimits,
    /// Where pods of tenant namespaces run.
    pub tenant_pods: TenantPods,
    /// How long certificates last.
    pub certificates: CertificateSettings,
    /// How DNS pods of the management cluster are found by a NetworkPolicy.
    pub dns: DnsSettings,
    /// Where programs in tenant namespaces reach the management API.
    pub management_api: ManagementApi,
    /// Namespace of the operator. Default: `covey-system`.
    pub operator_namespace: String,
    /// ServiceAccount of the operator. Default: `covey-operator`.
    pub operator_service_account: String,
    /// ClusterRole of the chart which a RoleBinding in each tenant namespace grants the operator.
    pub tenant_namespace_role: String,
    /// ClusterRole of the chart which a RoleBinding in each user's namespace grants the operator.
    pub user_namespace_role: String,
    /// Control planes that may start at the same time; more only slow each other down.
    /// Default: 2 (the cores of the smallest sensible management cluster).
    pub max_concurrent_starts: usize,
    /// Tenant clusters that are brought to other templates at the same time, after an upgrade of the
    /// operator or a change of this configuration. Those that do not work with them keep their places, so
    /// this is also how many bad templates break. Default: 2.
    pub max_concurrent_rollouts: usize,
    /// Patches of Kubernetes that tenant clusters with `spec.maintenance.autoPatch` take by themselves, the newest of their
    /// minor: those that every registry has. A change makes no other pods. Default: none. Example: `[1.34.9, 1.35.6]`.
    pub patch_versions: Vec<String>,
    /// Least patches of Kubernetes, at most one for each minor: what is older is refused, and patched whatever its
    /// `spec.maintenance` says. Default: none. Example: `[{version: 1.35.6, from: "2027-01-31T12:00:00Z"}]`.
    pub minimum_versions: Vec<MinimumVersion>,
    /// Who makes machines.
    pub providers: ProviderSettings,
    /// Storage that tenant clusters are offered. Default: none.
    pub storage: Offer,
    /// What encrypts their etcd, beside keys of Covey's. Default: nothing.
    pub encryption: EncryptionSettings,
    /// What becomes of tenant namespaces whose TenantCluster is gone.
    pub orphans: OrphanSettings,
    /// Who may be let into tenant clusters by AccessGrants.
    pub access: AccessSettings,
    /// Who reads the metrics of programs in tenant namespaces.
    pub metrics: MetricsSettings,
}

/// What becomes of tenant namespaces whose TenantCluster is gone: somebody took its finalizer off, or it
/// was lost with the management cluster's etcd.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OrphanSettings {
    /// How long such a namespace is kept after it was found, for example `24h`. `0s` or null: for ever.
    /// Default: `24h`.
    pub remove_after: Option<api::Duration>,
}

impl OrphanSettings {
    /// How long it is kept; none for ever.
    #[must_use]
    pub fn remove_after(&self) -> Option<std::time::Duration> {
        let after = self.remove_after.as_ref()?.get()?;
        (!after.is_zero()).then_some(after)
    }
}

/// Images of addons: repository path and tag below the registry.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AddonImages {
    /// Konnectivity's server, in the control plane's pod.
    /// Default: `kas-network-proxy/proxy-server:v0.34.0`.
    pub konnectivity_server: String,
    /// Konnectivity's agent, on the nodes. Default: `kas-network-proxy/proxy-agent:v0.34.0`.
    pub konnectivity_agent: String,
    /// CoreDNS. Default: `coredns/coredns:v1.13.1`.
    pub core_dns: String,
    /// flannel. Default: `flannel-io/flannel:v0.28.4`.
    pub flannel: String,
    /// Registry of flannel for tenants whose registry is `registry.k8s.io`, which has no flannel.
    /// Default: `ghcr.io`.
    pub flannel_registry: String,
    /// The cloud controller manager, in the tenant namespace. Default: `covey-dev/ccm:` and the
    /// version of the operator.
    pub ccm: String,
    /// Registry of that where `registry` is `registry.k8s.io`, which does not have it.
    /// Default: `ghcr.io`.
    pub ccm_registry: String,
    /// Our CSI driver, in the tenant namespace and on nodes. Default: `covey-dev/csi:` and the
    /// version of the operator.
    pub csi: String,
    /// Registry of that where `registry` is `registry.k8s.io`, which does not have it.
    /// Default: `ghcr.io`.
    pub csi_registry: String,
    /// The stock csi-provisioner. Default: `sig-storage/csi-provisioner:v6.3.0`.
    pub csi_provisioner: String,
    /// The stock csi-attacher. Default: `sig-storage/csi-attacher:v4.13.0`.
    pub csi_attacher: String,
    /// The stock csi-resizer. Default: `sig-storage/csi-resizer:v2.3.0`.
    pub csi_resizer: String,
    /// The stock csi-snapshotter. Default: `sig-storage/csi-snapshotter:v8.7.0`.
    pub csi_snapshotter: String,
    /// The stock snapshot-controller. Default: `sig-storage/snapshot-controller:v8.7.0`.
    pub snapshot_controller: String,
    /// The Cluster Autoscaler's adapter, in the tenant namespace. Default: `covey-dev/autoscaler:` and
    /// the version of the operator.
    pub autoscaler: String,
    /// Registry of that where `registry` is `registry.k8s.io`, which does not have it.
    /// Default: `ghcr.io`.
    pub autoscaler_registry: String,
    /// What stands beside each member of etcd, in the tenant namespace. Default: `covey-dev/etcd-agent:`
    /// and the version of the operator.
    pub etcd_agent: String,
    /// Registry of that where `registry` is `registry.k8s.io`, which does not have it.
    /// Default: `ghcr.io`.
    pub etcd_agent_registry: String,
    /// The overlay among nodes, on the nodes. Default: `covey-dev/link-node:` and the version of the
    /// operator.
    pub link_node: String,
    /// Registry of that where `registry` is `registry.k8s.io`, which does not have it.
    /// Default: `ghcr.io`.
    pub link_node_registry: String,
    /// The stock Cluster Autoscaler, by the minor of the tenant cluster (`1.35`). A minor that is left
    /// out has its default: `autoscaling/cluster-autoscaler:` with `v1.34.4`, `v1.35.1` or `v1.36.1`.
    pub cluster_autoscaler: BTreeMap<String, String>,
}

/// The Cluster Autoscaler is made for one minor of Kubernetes each.
const CLUSTER_AUTOSCALERS: [(u64, &str); 3] = [
    (34, "autoscaling/cluster-autoscaler:v1.34.4"),
    (35, "autoscaling/cluster-autoscaler:v1.35.1"),
    (36, "autoscaling/cluster-autoscaler:v1.36.1"),
];

impl AddonImages {
    /// The image of a stock sidecar of CSI, by the name of its container.
    pub(crate) fn sidecar(&self, name: &str) -> &str {
        match name {
            "csi-provisioner" => &self.csi_provisioner,
            "csi-attacher" => &self.csi_attacher,
            "csi-resizer" => &self.csi_resizer,
            "csi-snapshotter" => &self.csi_snapshotter,
            _ => &self.snapshot_controller,
        }
    }

    /// The image of the stock Cluster Autoscaler for a minor; that of the nearest minor for one that
    /// has none.
    pub(crate) fn cluster_autoscaler(&self, minor: u64) -> &str {
        let set = self.cluster_autoscaler.get(&format!("1.{minor}"));
        let nearest = || {
            let known = CLUSTER_AUTOSCALERS.iter();
            known.min_by_key(|(known, _)| known.abs_diff(minor))
        };
        set.map(String::as_str)
            .or_else(|| nearest().map(|(_, image)| *image))
            .unwrap_or_default()
    }
}

/// Pools of address ranges.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// Ranges for pods. Default: /18 each from 10.128.0.0/9 (512 tenant clusters).
    pub pods: Pool,
    /// Ranges for Services. Default: /20 each from 100.64.0.0/10 (1024 tenant clusters).
    pub services: Pool,
    /// Ranges that no tenant cluster may use and no worker reaches: the management cluster's own. The
    /// operator adds what it finds of them ([`crate::network::reserved`]). Default: none.
    pub reserved: Vec<IpNet>,
    /// What is not known of those ranges. Not configured: the operator says it.
    #[serde(skip)]
    pub reserved_unknown: Option<Problem>,
}

/// One pool.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pool {
    /// The whole range.
    pub cidr: IpNet,
    /// Prefix length of the range that one tenant cluster gets.
    pub prefix: u8,
}

/// Requests per container: resource name to quantity.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DefaultResources {
    /// kube-apiserver. Default: 50m, 300Mi.
    pub api_server: BTreeMap<String, String>,
    /// kube-controller-manager. Default: 10m, 64Mi.
    pub controller_manager: BTreeMap<String, String>,
    /// kube-scheduler. Default: 5m, 48Mi.
    pub scheduler: BTreeMap<String, String>,
    /// Konnectivity's server. Default: 5m, 24Mi.
    pub konnectivity: BTreeMap<String, String>,
    /// The cloud controller manager. Default: 5m, 24Mi.
    pub cloud_controller: BTreeMap<String, String>,
    /// The CSI driver, in the tenant namespace. Default: 5m, 24Mi.
    pub csi: BTreeMap<String, String>,
    /// Each of its sidecars. Default: 2m, 24Mi.
    pub csi_sidecar: BTreeMap<String, String>,
    /// The Cluster Autoscaler's adapter. Default: 5m, 24Mi.
    pub autoscaler: BTreeMap<String, String>,
    /// The Cluster Autoscaler. Default: 10m, 64Mi.
    pub cluster_autoscaler: BTreeMap<String, String>,
    /// etcd. Default: 20m, 80Mi.
    pub etcd: BTreeMap<String, String>,
}

/// Limits of memory, in bytes with the suffixes of Kubernetes; `0` is no limit. Where twice the request
/// is more, that is the limit. They are for what runs wild: a fresh tenant cluster takes less than a
/// tenth of them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MemoryLimits {
    /// kube-apiserver. Default: 4Gi.
    pub api_server: String,
    /// kube-controller-manager. Default: 2Gi.
    pub controller_manager: String,
    /// kube-scheduler. Default: 1Gi.
    pub scheduler: String,
    /// Konnectivity's server. Default: 1Gi.
    pub konnectivity: String,
    /// etcd. Default: 4Gi.
    pub etcd: String,
}

/// How long certificates last, in hours.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CertificateSettings {
    /// Certificate authorities. Default: 87600 (ten years).
    pub authority_hours: u32,
    /// All others. Default: 8760 (a year). They are renewed when a third is left.
    pub leaf_hours: u32,
}

/// How DNS pods of the management cluster are found.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct DnsSettings {
    /// Namespace. Default: `kube-system`.
    pub namespace: String,
    /// Labels of the pods. Default: `k8s-app: kube-dns`.
    pub labels: BTreeMap<String, String>,
}

/// Where programs in tenant namespaces reach the management API, after the translation of its Service.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ManagementApi {
    /// Its addresses. Default: none, which is any but those of metadata services.
    pub cidrs: Vec<IpNet>,
    /// Its ports. Default: 443 and 6443.
    pub ports: Vec<u16>,
}

impl Default for ManagementApi {
    fn default() -> Self {
        Self {
            cidrs: Vec::new(),
            ports: vec![443, 6443],
        }
    }
}

impl Settings {
    /// The namespace of TenantClusters that nobody has asked for yet.
    #[must_use]
    pub fn standby_namespace(&self) -> String {
        format!("{}-standby", self.operator_namespace)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registry: "registry.k8s.io".to_owned(),
            allowed_registries: Prefixes::default(),
            allowed_machine_images: Prefixes::default(),
            endpoint: EndpointPolicy::default(),
            load_balancers: LoadBalancerPolicy::default(),
            api_server: ApiServerPolicy::default(),
            etcd_storage_classes: Vec::new(),
            etcd_image: "etcd:3.6.16-0".to_owned(),
            golden_starts: BTreeMap::new(),
            standby: BTreeMap::new(),
            images: AddonImages::default(),
            network: NetworkSettings::default(),
            resources: DefaultResources::default(),
            memory_limits: MemoryLimits::default(),
            tenant_pods: TenantPods::default(),
            certificates: CertificateSettings::default(),
            dns: DnsSettings::default(),
            management_api: ManagementApi::default(),
            operator_namespace: "covey-system".to_owned(),
            operator_service_account: "covey-operator".to_owned(),
            tenant_namespace_role: "covey-tenant-namespace".to_owned(),
            user_namespace_role: "covey-user-namespace".to_owned(),
            max_concurrent_starts: 2,
            max_concurrent_rollouts: 2,
            patch_versions: Vec::new(),
            minimum_versions: Vec::new(),
            providers: ProviderSettings::default(),
            storage: Offer::default(),
            encryption: EncryptionSettings::default(),
            orphans: OrphanSettings::default(),
            access: AccessSettings::default(),
            metrics: MetricsSettings::default(),
        }
    }
}

impl Default for OrphanSettings {
    fn default() -> Self {
        Self {
            remove_after: Some(api::Duration::from("24h")),
        }
    }
}

impl Default for AddonImages {
    fn default() -> Self {
        Self {
            konnectivity_server: "kas-network-proxy/proxy-server:v0.34.0".to_owned(),
            konnectivity_agent: "kas-network-proxy/proxy-agent:v0.34.0".to_owned(),
            core_dns: "coredns/coredns:v1.13.1".to_owned(),
            flannel: "flannel-io/flannel:v0.28.4".to_owned(),
            flannel_registry: "ghcr.io".to_owned(),
            ccm: concat!("covey-dev/ccm:", env!("CARGO_PKG_VERSION")).to_owned(),
            ccm_registry: "ghcr.io".to_owned(),
            csi: concat!("covey-dev/csi:", env!("CARGO_PKG_VERSION")).to_owned(),
            csi_registry: "ghcr.io".to_owned(),
            csi_provisioner: "sig-storage/csi-provisioner:v6.3.0".to_owned(),
            csi_attacher: "sig-storage/csi-attacher:v4.13.0".to_owned(),
            csi_resizer: "sig-storage/csi-resizer:v2.3.0".to_owned(),
            csi_snapshotter: "sig-storage/csi-snapshotter:v8.7.0".to_owned(),
            snapshot_controller: "sig-storage/snapshot-controller:v8.7.0".to_owned(),
            autoscaler: concat!("covey-dev/autoscaler:", env!("CARGO_PKG_VERSION")).to_owned(),
            autoscaler_registry: "ghcr.io".to_owned(),
            etcd_agent: concat!("covey-dev/etcd-agent:", env!("CARGO_PKG_VERSION")).to_owned(),
            etcd_agent_registry: "ghcr.io".to_owned(),
            link_node: concat!("covey-dev/link-node:", env!("CARGO_PKG_VERSION")).to_owned(),
            link_node_registry: "ghcr.io".to_owned(),
            cluster_autoscaler: CLUSTER_AUTOSCALERS
                .map(|(minor, image)| (format!("1.{minor}"), image.to_owned()))
                .into(),
        }
    }
}

impl Default for NetworkSettings {
    fn default() -> Self {
        let pool = |cidr: [u8; 4], length: u8, prefix: u8| Pool {
            cidr: IpNet::new_assert(cidr.into(), length),
            prefix,
        };
        Self {
            pods: pool([10, 128, 0, 0], 9, 18),
            services: pool([100, 64, 0, 0], 10, 20),
            reserved: Vec::new(),
            reserved_unknown: None,
        }
    }
}

impl Default for DefaultResources {
    fn default() -> Self {
        let requests = |cpu: &str, memory: &str| {
            BTreeMap::from([
                ("cpu".to_owned(), cpu.to_owned()),
                ("memory".to_owned(), memory.to_owned()),
            ])
        };
        Self {
            api_server: requests("50m", "300Mi"),
            controller_manager: requests("10m", "64Mi"),
            scheduler: requests("5m", "48Mi"),
            konnectivity: requests("5m", "24Mi"),
            cloud_controller: requests("5m", "24Mi"),
            csi: requests("5m", "24Mi"),
            csi_sidecar: requests("2m", "24Mi"),
            autoscaler: requests("5m", "24Mi"),
            cluster_autoscaler: requests("10m", "64Mi"),
            etcd: requests("20m", "80Mi"),
        }
    }
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            api_server: "4Gi".to_owned(),
            controller_manager: "2Gi".to_owned(),
            scheduler: "1Gi".to_owned(),
            konnectivity: "1Gi".to_owned(),
            etcd: "4Gi".to_owned(),
        }
    }
}

impl Default for CertificateSettings {
    fn default() -> Self {
        Self {
            authority_hours: 87_600,
            leaf_hours: 8_760,
        }
    }
}

impl Default for DnsSettings {
    fn default() -> Self {
        Self {
            namespace: "kube-system".to_owned(),
            labels: BTreeMap::from([("k8s-app".to_owned(), "kube-dns".to_owned())]),
        }
    }
}
