//! What the operator is configured with about workers, as plain data.
//!
//! Invariant: a provider that is not enabled is refused at admission, so its settings are never
//! half in use.

use std::collections::BTreeMap;

use api::node_pool::KernelBoot;
use k8s_openapi::api::core::v1::Toleration;
use serde::{Deserialize, Serialize};

/// Providers of machines.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ProviderSettings {
    /// Virtual machines of the management cluster's KubeVirt.
    pub kubevirt: KubeVirtSettings,
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
    /// Kernel that this image is booted with directly; `{version}` in its image stands for the
    /// pool's version. None: the image's own boot loader. Default: the kernel in the same image.
    pub kernel_boot: Option<KernelBoot>,
    /// When the images are pulled. Default: `IfNotPresent`.
    pub image_pull_policy: ImagePullPolicy,
    /// Labels of the management cluster's nodes that may run virtual machines. Default: all nodes.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of the management cluster's nodes that virtual machines tolerate. Default: none.
    pub tolerations: Vec<Toleration>,
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
        let image = "ghcr.io/covey-dev/worker:v{version}";
        Self {
            enabled: true,
            image: image.to_owned(),
            kernel_boot: Some(KernelBoot {
                image: image.to_owned(),
                kernel_path: "/boot/vmlinux".to_owned(),
                initrd_path: "/boot/initrd.img".to_owned(),
                kernel_args: "root=/dev/vda ro quiet".to_owned(),
            }),
            image_pull_policy: ImagePullPolicy::default(),
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
        }
    }
}
