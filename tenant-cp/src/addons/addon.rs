//! Addon: what Covey installs for a tenant cluster besides its control plane.
//!
//! Invariant: names never change once released: objects of an addon that was switched off are found
//! again by its name.

use crate::validate::validated::Validated;

/// An addon.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Addon {
    /// DNS for pods.
    CoreDns,
    /// Services for pods.
    KubeProxy,
    /// The network between pods.
    Flannel,
    /// The way from the API server to nodes and pods.
    Konnectivity,
    /// Load balancers and node lifecycle: only rights are inside.
    CloudController,
    /// Volumes.
    Csi,
    /// Node pools that grow and shrink: rights are inside, and what the two programs write there.
    Autoscaler,
}

impl Addon {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CoreDns,
        Self::KubeProxy,
        Self::Flannel,
        Self::Konnectivity,
        Self::CloudController,
        Self::Csi,
        Self::Autoscaler,
    ];

    /// Value of the label `covey.dev/addon`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CoreDns => "coredns",
            Self::KubeProxy => "kube-proxy",
            Self::Flannel => "flannel",
            Self::Konnectivity => "konnectivity",
            Self::CloudController => "cloud-controller",
            Self::Csi => "csi",
            Self::Autoscaler => "autoscaler",
        }
    }

    /// Whether the tenant cluster wants it.
    #[must_use]
    pub fn is_wanted(self, v: &Validated) -> bool {
        match self {
            Self::CoreDns => v.addons.core_dns,
            Self::KubeProxy => v.addons.kube_proxy,
            Self::Flannel => v.addons.flannel,
            Self::Konnectivity => v.addons.konnectivity,
            Self::CloudController => v.addons.cloud_controller,
            Self::Csi => v.storage.is_some(),
            Self::Autoscaler => v.autoscaler.is_some(),
        }
    }
}
