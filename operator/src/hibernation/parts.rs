//! What runs of a tenant cluster.
//!
//! Invariant: the order is that in which it ends.

/// What runs of a tenant cluster, in the order in which it ends.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// The Cluster Autoscaler and its adapter: they would make machines anew.
    Autoscaler,
    /// Every machine of every pool.
    Machines,
    /// ccm, csi and every other addon beside the control plane.
    Adapters,
    /// kube-apiserver, kube-controller-manager, kube-scheduler.
    ControlPlane,
    /// The process that backs up: its end takes the last changes along.
    Backup,
    /// The members of etcd.
    Etcd,
}

/// All of them, in that order.
pub const ALL: [Part; 6] = [
    Part::Autoscaler,
    Part::Machines,
    Part::Adapters,
    Part::ControlPlane,
    Part::Backup,
    Part::Etcd,
];
