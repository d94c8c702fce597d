//! What each provider has to know of a machine.
//!
//! Invariant: exactly one provider is named; a field that one provider alone understands is below
//! the name of that provider.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::duration::Duration;
use crate::quantity::Quantity;

/// Who makes the machines: exactly one. There is one provider so far, so it cannot change either.
#[derive(Clone, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("has(self.kubevirt)").message("provider must name exactly one provider, such as kubevirt: {}")
)]
pub struct Provider {
    /// Virtual machines of the management cluster's KubeVirt. Default: not this provider.
    /// Example: `{"cpu": 2, "memory": "4Gi"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubevirt: Option<KubeVirt>,
}

/// Names of the providers.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ProviderKind {
    /// Virtual machines of the management cluster's KubeVirt.
    KubeVirt,
}

impl ProviderKind {
    /// The name of the field below `provider`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::KubeVirt => "kubevirt",
        }
    }
}

impl Provider {
    /// Which provider is named; none when none is, which a rule keeps out.
    #[must_use]
    pub fn kind(&self) -> Option<ProviderKind> {
        self.kubevirt.as_ref().map(|_| ProviderKind::KubeVirt)
    }
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
