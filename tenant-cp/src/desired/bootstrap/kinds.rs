//! Kinds of what is laid inside a tenant cluster, and which of them are watched.
//!
//! Invariant: a kind that is not here can be neither found nor pruned, because the operator may not list
//! it.

/// Kinds of what is laid inside a tenant cluster: apiVersion and kind.
pub const KINDS: [(&str, &str); 19] = [
    ("v1", "ConfigMap"),
    ("v1", "Endpoints"),
    ("v1", "Namespace"),
    ("v1", "Service"),
    ("v1", "ServiceAccount"),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
    ),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
    ),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass"),
    ("storage.k8s.io/v1", "CSIDriver"),
    ("storage.k8s.io/v1", "StorageClass"),
];

/// Those of [`KINDS`] that the operator watches.
pub const WATCHED: [&str; 9] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "DaemonSet",
    "Deployment",
    "EndpointSlice",
    "Role",
    "RoleBinding",
    "Service",
];
