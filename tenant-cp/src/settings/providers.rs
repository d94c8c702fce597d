//! Settings of the providers of machines, as plain data.
//!
//! Invariant: a provider that is not enabled is refused at admission, so its settings are never
//! half in use.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use api::node_pool::KernelBoot;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Serialize};

use super::node_programs::NodePrograms;

/// Providers of machines.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// Virtual machines of the management cluster's KubeVirt.
    pub kubevirt: KubeVirtSettings,
    /// Machines that are there already and are reached by SSH.
    #[serde(rename = "static")]
    pub static_: StaticSettings,
    /// Servers of the Hetzner Cloud.
    pub hetzner: HetznerSettings,
    /// Instances of Google's Compute Engine.
    pub gcp: GcpSettings,
    /// Virtual machines of Azure.
    pub azure: AzureSettings,
    /// Instances of Amazon EC2.
    pub aws: AwsSettings,
}

/// Servers of the Hetzner Cloud.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct HetznerSettings {
    /// Whether node pools may use it. What is there already is looked after in either case. Default: true.
    pub enabled: bool,
    /// Where the API is, as URL up to its version. Never a user's to say, because tokens are sent there. Default:
    /// `https://api.hetzner.cloud/v1`.
    pub endpoint: String,
}

impl Default for HetznerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: "https://api.hetzner.cloud/v1".to_owned(),
        }
    }
}

/// Instances of Google's Compute Engine.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct GcpSettings {
    /// Whether node pools may use it. What is there already is looked after in either case. Default: true.
    pub enabled: bool,
    /// Where the API is, as URL up to its version. Never a user's to say, because tokens are sent there. Default:
    /// `https://compute.googleapis.com/compute/v1`.
    pub endpoint: String,
    /// Where tokens are had for what a user's key signed. Never a user's to say either. Default:
    /// `https://oauth2.googleapis.com/token`.
    pub token_endpoint: String,
}

impl Default for GcpSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: "https://compute.googleapis.com/compute/v1".to_owned(),
            token_endpoint: "https://oauth2.googleapis.com/token".to_owned(),
        }
    }
}

/// Virtual machines of Azure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AzureSettings {
    /// Whether node pools may use it. What is there already is looked after in either case. Default: true.
    pub enabled: bool,
    /// Where the API is, as URL up to its subscriptions. Never a user's to say, because tokens are sent there. Default:
    /// `https://management.azure.com`.
    pub endpoint: String,
    /// Where tokens are had for a user's secret, as URL up to the tenant. Never a user's to say either. Default:
    /// `https://login.microsoftonline.com`.
    pub token_endpoint: String,
}

impl Default for AzureSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: "https://management.azure.com".to_owned(),
            token_endpoint: "https://login.microsoftonline.com".to_owned(),
        }
    }
}

/// Instances of Amazon EC2.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AwsSettings {
    /// Whether node pools may use it. What is there already is looked after in either case. Default: true.
    pub enabled: bool,
    /// Where EC2's API is, as URL, in which `{region}` stands for the region of a ProviderConfig; regions of China have `.cn`
    /// behind AWS's own. Never a user's to say, because what a user's key signed is sent there. Default:
    /// `https://ec2.{region}.amazonaws.com`.
    pub endpoint: String,
    /// Where the Security Token Service's is, by which a role is taken on. Never a user's to say either. Default:
    /// `https://sts.{region}.amazonaws.com`.
    pub token_endpoint: String,
    /// Roles that are taken on by a token of the operator's own account, without a key. Default: none.
    pub web_identity: AwsWebIdentity,
}

/// Roles of AWS that are taken on by a token of the operator's own account (`AssumeRoleWithWebIdentity`). In such a call there
/// is no external ID, and the token is one for all namespaces: who may use which role is said here, and by no user.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AwsWebIdentity {
    /// File with the token, for the audience `sts.amazonaws.com`. Default: `/var/run/secrets/covey/aws/token`, where the chart
    /// has it.
    pub token_file: String,
    /// ARNs of the roles that ProviderConfigs of a namespace may name, by that namespace. Default: none; no namespace may name
    /// any.
    pub roles: BTreeMap<String, Vec<String>>,
}

impl Default for AwsWebIdentity {
    fn default() -> Self {
        Self {
            token_file: "/var/run/secrets/covey/aws/token".to_owned(),
            roles: BTreeMap::new(),
        }
    }
}

impl Default for AwsSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            endpoint: "https://ec2.{region}.amazonaws.com".to_owned(),
            token_endpoint: "https://sts.{region}.amazonaws.com".to_owned(),
            web_identity: AwsWebIdentity::default(),
        }
    }
}

/// Machines that are there already and are reached by SSH.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct StaticSettings {
    /// Whether node pools may use it. Hosts are looked at in either case. Default: true.
    pub enabled: bool,
    /// Whether machines that have only cgroup v1 may become nodes. kubeadm and kubelet refuse them from 1.35 on, and
    /// are told not to. Default: false.
    pub allow_cgroup_v1: bool,
    /// containerd's `config.toml` for all such machines. Default: empty, each has its own.
    pub containerd_config: String,
    /// Programs of a node that can be sent to such machines, each version and architecture once. Default: none, machines
    /// have their own.
    pub programs: Vec<NodePrograms>,
    /// Where such machines dial konnectivity from, as pods of the management cluster see it: their addresses, or
    /// those of the routers that stand for them. From elsewhere only virtual machines reach it. Default: none.
    pub ranges: Vec<IpNet>,
}

impl Default for StaticSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            allow_cgroup_v1: false,
            containerd_config: String::new(),
            programs: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

/// Virtual machines of the management cluster's KubeVirt.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KubeVirtSettings {
    /// Whether node pools may use it. Default: true.
    pub enabled: bool,
    /// Image with the root disk for pools that name none; `{version}` stands for the pool's
    /// version. Default: `ghcr.io/covey-dev/worker:v{version}`.
    pub image: String,
    /// Kernel that this image is booted with directly.
    pub kernel: KernelSettings,
    /// When the images are pulled. Default: `IfNotPresent`.
    pub image_pull_policy: ImagePullPolicy,
    /// Labels of the management cluster's nodes that may run virtual machines. Default: all nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of the management cluster's nodes that virtual machines tolerate. Default: none.
    pub tolerations: Vec<Toleration>,
    /// Resolvers that virtual machines are told, at most 3; they then do not reach the management
    /// cluster's DNS, which answers for the names of everybody's Services. By IPv4, because KubeVirt
    /// tells no others, and one of Google's where it finds none (KubeVirt 1.6,
    /// `pkg/network/dns/resolveconf.go`). Default: none, machines have the management cluster's DNS.
    pub nameservers: Vec<Ipv4Addr>,
    /// Bytes of its node's own disk that each virtual machine asks for, for what it writes to its root disk,
    /// with the suffixes of Kubernetes. It is a layer above the image, so as large as that allows: what a
    /// machine writes above this is not reserved. Default: `8Gi`; `0`: nothing.
    pub root_disk_request: api::Quantity,
    /// What users may choose of where their virtual machines run, and of what they take there.
    pub allowed: MachinePolicy,
}

/// What users may choose of where their virtual machines run, and of what they take there.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct MachinePolicy {
    /// Keys of labels that they may ask of nodes. Default: none.
    pub node_labels: Vec<String>,
    /// Keys of taints that they may have tolerated. Default: none.
    pub taints: Vec<String>,
    /// Names of devices that they may take (`gpus`, `hostDevices`). Default: none.
    pub devices: Vec<String>,
    /// Whether they may have cores for themselves. Default: false.
    pub dedicated_cpus: bool,
    /// Whether they may have huge pages. Default: false.
    pub huge_pages: bool,
    /// Most bytes that the further disks of one machine may have together, with the suffixes of
    /// Kubernetes. They lie on the node's own disk, of which the machine asks for as much.
    /// Default: none, machines have no further disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disks: Option<api::Quantity>,
    /// Networks that machines may be on besides their pod's: namespace and name of
    /// NetworkAttachmentDefinitions. No NetworkPolicy of Covey's holds there. Default: none.
    pub networks: Vec<String>,
}

/// Kernel that the operator's image is booted with directly, which is quicker than its own boot
/// loader. A node pool that names an image of its own names its own kernel, too, or none.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct KernelSettings {
    /// Whether; `false`: the image's own boot loader. Default: true.
    pub enabled: bool,
    /// Image that holds the kernel; `{version}` stands for the pool's version. Default: the image
    /// with the root disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Path of the kernel in the image. Default: `/boot/vmlinux`.
    pub path: String,
    /// Path of the initial file system in the image; empty where there is none. Default:
    /// `/boot/initrd.img`.
    pub initrd: String,
    /// Arguments of the kernel. Default: those of Covey's own image.
    pub args: String,
}

impl Default for KernelSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            image: None,
            path: "/boot/vmlinux".to_owned(),
            initrd: "/boot/initrd.img".to_owned(),
            args: "root=/dev/vda rw console=ttyS0 quiet panic=10".to_owned(),
        }
    }
}

impl KubeVirtSettings {
    /// Image with the root disk, and kernel to boot it with, for a Kubernetes version (`1.35.4`).
    #[must_use]
    pub fn images(&self, version: &str) -> (String, Option<KernelBoot>) {
        let of_version = |image: &str| image.replace("{version}", version);
        let kernel = &self.kernel;
        let kernel_boot = kernel.enabled.then(|| KernelBoot {
            image: of_version(kernel.image.as_ref().unwrap_or(&self.image)),
            kernel_path: kernel.path.clone(),
            initrd_path: kernel.initrd.clone(),
            kernel_args: kernel.args.clone(),
        });
        (of_version(&self.image), kernel_boot)
    }
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum ImagePullPolicy {
    /// At every start.
    Always,
    /// Where it is missing.
    #[default]
    IfNotPresent,
    /// Never: it must be there.
    Never,
}

impl ImagePullPolicy {
    /// The text of the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "Always",
            Self::IfNotPresent => "IfNotPresent",
            Self::Never => "Never",
        }
    }
}

impl Default for KubeVirtSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            image: "ghcr.io/covey-dev/worker:v{version}".to_owned(),
            kernel: KernelSettings::default(),
            image_pull_policy: ImagePullPolicy::default(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            nameservers: Vec::new(),
            root_disk_request: "8Gi".into(),
            allowed: MachinePolicy::default(),
        }
    }
}
