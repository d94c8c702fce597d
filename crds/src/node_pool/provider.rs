//! What each provider has to know of a machine.
//!
//! Invariant: exactly one provider is named; a field that one provider alone understands is below
//! the name of that provider.

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::node_pool::aws::Aws;
use crate::node_pool::azure::Azure;
use crate::node_pool::gcp::Gcp;
use crate::node_pool::hetzner::Hetzner;
use crate::node_pool::hosts::Static;
use crate::node_pool::market::Market;
use crate::quantity::Quantity;
use crate::taints::PodToleration;

/// Who makes the machines: exactly one.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("(has(self.kubevirt) ? 1 : 0) + (has(self.static) ? 1 : 0) + (has(self.hetzner) ? 1 : 0) + (has(self.gcp) ? 1 : 0) + (has(self.azure) ? 1 : 0) + (has(self.aws) ? 1 : 0) == 1").message("provider must name exactly one provider, such as kubevirt: {}")
)]
pub struct Provider {
    /// Virtual machines of the management cluster's KubeVirt. Default: not this provider.
    /// Example: `{"cpu": 2, "memory": "4Gi"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubeVirt>,

    /// Machines that are there already and are reached by SSH: Hosts of the same namespace. Default: not this provider.
    /// Example: `{"selector": {"matchLabels": {"rack": "a"}}}`.
    #[serde(default, rename = "static", skip_serializing_if = "Option::is_none")]
    pub static_: Option<Static>,

    /// Servers of the Hetzner Cloud. Default: not this provider.
    /// Example: `{"configName": "hetzner", "types": ["cx32"]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hetzner: Option<Hetzner>,

    /// Instances of Google's Compute Engine. Default: not this provider.
    /// Example: `{"configName": "google", "types": ["e2-standard-4"]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcp: Option<Gcp>,

    /// Virtual machines of Azure. Default: not this provider.
    /// Example: `{"configName": "azure", "types": ["Standard_D4s_v5"]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Azure>,

    /// Instances of Amazon EC2. Default: not this provider.
    /// Example: `{"configName": "aws", "types": ["m7i.xlarge"]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws: Option<Aws>,
}

/// Names of the providers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ProviderKind {
    /// Virtual machines of the management cluster's KubeVirt.
    KubeVirt,
    /// Hosts that are reached by SSH.
    Static,
    /// Servers of the Hetzner Cloud.
    Hetzner,
    /// Instances of Google's Compute Engine.
    Gcp,
    /// Virtual machines of Azure.
    Azure,
    /// Instances of Amazon EC2.
    Aws,
}

impl ProviderKind {
    /// The name of the field below `provider`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KubeVirt => "kubevirt",
            Self::Static => "static",
            Self::Hetzner => "hetzner",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
            Self::Aws => "aws",
        }
    }
}

impl Provider {
    /// Which provider is named; none when none is, which a rule keeps out.
    #[must_use]
    pub fn kind(&self) -> Option<ProviderKind> {
        let kubevirt = self.kubevirt.as_ref().map(|_| ProviderKind::KubeVirt);
        let hosts = self.static_.as_ref().map(|_| ProviderKind::Static);
        kubevirt.or(hosts).or(self.cloud().map(|cloud| cloud.kind))
    }

    /// What it says of machines of a cloud; none of those that are no cloud.
    #[must_use]
    pub fn cloud(&self) -> Option<CloudMachines<'_>> {
        let hetzner = self.hetzner.as_ref().map(|of_it| CloudMachines {
            kind: ProviderKind::Hetzner,
            config_name: &of_it.config_name,
            types: &of_it.types,
            image: of_it.image.as_ref(),
            market: Market::OnDemand,
        });
        let gcp = self.gcp.as_ref().map(|of_it| CloudMachines {
            kind: ProviderKind::Gcp,
            config_name: &of_it.config_name,
            types: &of_it.types,
            image: of_it.image.as_ref(),
            market: of_it.market,
        });
        let azure = self.azure.as_ref().map(|of_it| CloudMachines {
            kind: ProviderKind::Azure,
            config_name: &of_it.config_name,
            types: &of_it.types,
            image: of_it.image.as_ref(),
            market: of_it.market,
        });
        let aws = self.aws.as_ref().map(|of_it| CloudMachines {
            kind: ProviderKind::Aws,
            config_name: &of_it.config_name,
            types: &of_it.types,
            image: of_it.image.as_ref(),
            market: of_it.market,
        });
        hetzner.or(gcp).or(azure).or(aws)
    }

    /// Name of the ProviderConfig of the same namespace by which machines are made; none where there is no such thing.
    #[must_use]
    pub fn config_name(&self) -> Option<&str> {
        self.cloud().map(|cloud| cloud.config_name)
    }
}

/// What is said of machines of any cloud.
#[derive(Clone, Copy, Debug)]
pub struct CloudMachines<'a> {
    /// Which cloud.
    pub kind: ProviderKind,
    /// Name of the ProviderConfig of the same namespace.
    pub config_name: &'a str,
    /// Sizes, the first choice first.
    pub types: &'a [String],
    /// Image; none: the one that the ProviderConfig has for the version.
    pub image: Option<&'a String>,
    /// How they are bought.
    pub market: Market,
}

/// A virtual machine of KubeVirt.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeVirt {
    /// Processors of each virtual machine, 1 to 128. How much of a core is reserved for each is
    /// KubeVirt's setting `cpuAllocationRatio`. Default: 2. Example: 4.
    #[serde(default = "default_cpu")]
    #[schemars(range(min = 1, max = 128))]
    pub cpu: i32,

    /// Memory of each virtual machine in bytes with the suffixes of Kubernetes, 1Gi or more. It is
    /// reserved, with what KubeVirt itself needs on top. Default: `4Gi`. Example: `8Gi`.
    #[serde(default = "default_memory")]
    pub memory: Quantity,

    /// Image with the root disk (a KubeVirt containerDisk) that holds the kubelet of the pool's
    /// version. Default: the operator's for that version.
    /// Example: `registry.example.com/worker:v1.35.4`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub image: Option<String>,

    /// Boots this kernel directly instead of by the root disk's boot loader, which is quicker.
    /// Default: the operator's, where `image` is the operator's too; else the boot loader.
    /// Example: `{"image": "registry.example.com/kernel:6.1", "kernelPath": "/boot/vmlinuz"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_boot: Option<KernelBoot>,

    /// `true`: `virtctl console` shows the serial console, and logs of it can be kept. Default:
    /// `false`. Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serial_console: bool,

    /// How long a virtual machine gets to shut down before it is switched off: hours (h), minutes
    /// (m), seconds (s). Its pods have been drained by then. Default: `30s`. Example: `2m`.
    #[serde(default = "default_shutdown_timeout")]
    pub shutdown_timeout: Duration,

    /// Labels that the management cluster's node has to have, at most 8, besides those that the platform
    /// asks for; whoever runs it says which may be chosen, as of all that follows
    /// (`config.providers.kubevirt.allowed` of the chart). Default: none.
    /// Example: `{"topology.kubernetes.io/zone": "a"}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 8, "additionalProperties" = {"type": "string", "maxLength": 63}))]
    pub node_selector: BTreeMap<String, String>,

    /// Taints of the management cluster's nodes that do not keep the virtual machine away, at most 8.
    /// Default: none but the platform's. Example: `[{"key": "example.com/gpus"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub tolerations: Vec<PodToleration>,

    /// `true`: each processor is a core of the node that nobody else has. Default: `false`.
    /// Example: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dedicated_cpus: bool,

    /// Pages of this size hold the memory, which is a multiple of it. Default: ordinary ones.
    /// Example: `2Mi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["2Mi", "1Gi"]))]
    pub huge_pages: Option<HugePages>,

    /// Graphics processors that the machine has for itself, at most 8 kinds. Default: none.
    /// Example: `[{"deviceName": "nvidia.com/GP102GL_Tesla_P40"}]`.
    #[serde(default, rename = "gpus", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["deviceName"]))]
    pub gpus: Vec<HostDevice>,

    /// Other devices of the node that the machine has for itself, at most 8 kinds. Default: none.
    /// Example: `[{"deviceName": "intel.com/qat", "count": 2}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["deviceName"]))]
    pub host_devices: Vec<HostDevice>,

    /// Further disks, at most 4: empty at first, and gone with the machine. The root disk has the size of
    /// its image, so this is where there is room. Default: none.
    /// Example: `[{"name": "data", "size": "20Gi", "mountPath": "/var/lib/data"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub disks: Vec<Disk>,

    /// Further networks of the management cluster that the machine is on, at most 4; the node's address
    /// stays that of its pod. Which there are whoever runs it says, because the tenant namespace's
    /// NetworkPolicies do not hold on them. Default: none.
    /// Example: `[{"name": "networks/storage"}]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub networks: Vec<MachineNetwork>,
}

/// A further disk of a virtual machine (KubeVirt's `emptyDisk`).
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// Name: in the machine it is `/dev/disk/by-id/virtio-<name>`. Lower-case letters, digits and -, at
    /// most 20. Required, no default. Example: `data`.
    #[schemars(
        length(min = 1, max = 20),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,

    /// Size in bytes with the suffixes of Kubernetes, 1Gi or more. Required, no default. Example: `20Gi`.
    pub size: Quantity,

    /// Where it is mounted, with a file system of ext4, before the machine joins: a path below /var, /mnt,
    /// /srv or /opt; what the image has there is hidden. Default: nowhere, and without a file system.
    /// Example: `/var/lib/data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 255), regex(pattern = "^(/[A-Za-z0-9._-]+)+$"))]
    pub mount_path: Option<String>,
}

/// A further network of a virtual machine.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineNetwork {
    /// Namespace and name of a NetworkAttachmentDefinition (Multus). Required, no default.
    /// Example: `networks/storage`.
    #[schemars(length(min = 3, max = 317))]
    pub name: String,
}

/// Size of the pages that hold a virtual machine's memory.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum HugePages {
    /// 2 MiB.
    #[serde(rename = "2Mi")]
    Mebibytes2,
    /// 1 GiB.
    #[serde(rename = "1Gi")]
    Gibibyte,
}

impl HugePages {
    /// As Kubernetes writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mebibytes2 => "2Mi",
            Self::Gibibyte => "1Gi",
        }
    }
}

/// A kind of device of the management cluster's nodes.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostDevice {
    /// What the node calls it, as KubeVirt's `permittedHostDevices` do. Required, no default.
    /// Example: `nvidia.com/GP102GL_Tesla_P40`.
    #[schemars(length(min = 1, max = 317))]
    pub device_name: String,

    /// How many, 1 to 16. Default: 1. Example: 2.
    #[serde(default = "default_count")]
    #[schemars(range(min = 1, max = 16))]
    pub count: i32,
}

fn default_count() -> i32 {
    1
}

impl Default for KubeVirt {
    fn default() -> Self {
        Self {
            cpu: default_cpu(),
            memory: default_memory(),
            image: None,
            kernel_boot: None,
            serial_console: false,
            shutdown_timeout: default_shutdown_timeout(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            dedicated_cpus: false,
            huge_pages: None,
            gpus: Vec::new(),
            host_devices: Vec::new(),
            disks: Vec::new(),
            networks: Vec::new(),
        }
    }
}

fn default_cpu() -> i32 {
    2
}

fn default_memory() -> Quantity {
    Quantity::from("4Gi")
}

fn default_shutdown_timeout() -> Duration {
    Duration::from("30s")
}

/// A kernel that is booted directly.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KernelBoot {
    /// Image that holds the kernel. Required, no default.
    /// Example: `registry.example.com/worker-kernel:v1.35.4`.
    #[schemars(length(min = 1, max = 512))]
    pub image: String,

    /// Path of the kernel in the image. Default: `/boot/vmlinuz`. Example: `/boot/vmlinuz-6.1`.
    #[serde(default = "default_kernel_path")]
    #[schemars(length(min = 2, max = 255), regex(pattern = "^/[^ ]+$"))]
    pub kernel_path: String,

    /// Path of the initial file system in the image; empty where the kernel needs none.
    /// Default: `/boot/initrd.img`. Example: `/boot/initrd.img-6.1`.
    #[serde(default = "default_initrd_path")]
    #[schemars(length(max = 255), regex(pattern = "^(/[^ ]+)?$"))]
    pub initrd_path: String,

    /// Arguments of the kernel. Default: `root=/dev/vda1 ro console=ttyS0`.
    /// Example: `root=/dev/vda ro quiet`.
    #[serde(default = "default_kernel_args")]
    #[schemars(length(max = 1024))]
    pub kernel_args: String,
}

fn default_kernel_path() -> String {
    "/boot/vmlinuz".to_owned()
}

fn default_initrd_path() -> String {
    "/boot/initrd.img".to_owned()
}

fn default_kernel_args() -> String {
    "root=/dev/vda1 ro console=ttyS0".to_owned()
}
