//! The parts of a tenant cluster: what is planned and applied by itself.
//!
//! Invariant: their order is the one in which a person reads what is wrong.

use std::fmt;

/// What is planned and applied by itself.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PartName {
    /// Finalizer, and what the status must say before anything depends on it.
    TenantCluster,
    /// That it is brought back to a moment of its backup.
    Restore,
    /// The tenant namespace, and the binding that lets the operator in.
    TenantNamespace,
    /// What lets the operator write the kubeconfig into the user's namespace.
    UserNamespace,
    /// What the pods of the tenant namespace may talk to.
    NetworkPolicies,
    /// Keys and certificates.
    Certificates,
    /// The Services at which the API is reached.
    Endpoint,
    /// Whose turn it is to be changed.
    Rollout,
    /// etcd with its volumes.
    Etcd,
    /// That etcd's volumes grow.
    EtcdVolumes,
    /// The etcd that has Events alone.
    EtcdEvents,
    /// kube-apiserver and konnectivity-server.
    ControlPlane,
    /// kube-controller-manager and kube-scheduler.
    Controllers,
    /// ccm, csi and the autoscaler.
    Adapters,
    /// The kubeconfig in the user's namespace.
    Kubeconfig,
    /// Which generation of an authority signs, and which are believed.
    Rotation,
    /// How far it is asleep.
    Hibernation,
    /// What addons left when they were switched off.
    Prune,
    /// Objects inside the tenant cluster.
    TenantObjects,
    /// Whether the version that is asked for may begin.
    Upgrade,
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TenantCluster => "the TenantCluster itself",
            Self::Restore => "restore",
            Self::TenantNamespace => "tenant namespace",
            Self::UserNamespace => "binding in the user's namespace",
            Self::NetworkPolicies => "network policies",
            Self::Certificates => "certificates",
            Self::Endpoint => "endpoint",
            Self::Rollout => "rollout",
            Self::Etcd => "etcd",
            Self::EtcdVolumes => "size of etcd's volumes",
            Self::EtcdEvents => "etcd of Events",
            Self::ControlPlane => "control plane",
            Self::Controllers => "controllers",
            Self::Adapters => "adapters",
            Self::Kubeconfig => "kubeconfig",
            Self::Rotation => "rotation",
            Self::Hibernation => "hibernation",
            Self::Prune => "what addons left behind",
            Self::TenantObjects => "objects inside the tenant cluster",
            Self::Upgrade => "upgrade",
        })
    }
}
