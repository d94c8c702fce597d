//! What a host that is reached by SSH shall be.
//!
//! Invariant: by itself it is a machine in the lab's own network with the programs of a node.

use crate::programs::kubernetes::KubernetesVersion;

/// What a host shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Version of its kubelet and kubeadm, which come with containerd, runc and CNI plugins; none: it has no
    /// programs of a node.
    pub version: Option<KubernetesVersion>,
    /// It is a jump host, without programs of a node.
    pub jump: bool,
    /// The jump host through which alone it is reached.
    pub via: Option<String>,
    /// It is at this site, behind NAT. The site's gateway, which is its jump host, comes with its first host
    /// and goes with its last.
    pub site: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: Some(KubernetesVersion::default()),
            jump: false,
            via: None,
            site: None,
        }
    }
}
