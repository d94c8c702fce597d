//! Container images of the lab, without a container engine: written as OCI layouts (crate `kit-oci`) and pushed.
//!
//! Invariant: the same files make the same image, byte for byte, on every machine; what a registry
//! has already is not pushed again.

mod catalogue;
mod push;

pub use catalogue::{
    activator, autoscaler, bash, busybox, ccm, control_plane, coredns, csi, csi_sidecars, etcd,
    etcd_agent, flannel, konnectivity_agent, konnectivity_server, kube_proxy, link_node, operator,
    pause, program, testbox, testserver,
};
pub use push::ensure_pushed;
