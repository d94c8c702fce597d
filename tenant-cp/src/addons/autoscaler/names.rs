//! Names of the addon `autoscaler`, its port and its directory.
//!
//! Invariant: the names are the same for every tenant cluster, but that of the binding in the user's
//! namespace, which the tenant cluster's name is part of.

/// Deployment, ServiceAccount, Service, NetworkPolicy, Secret and component label of the adapter.
pub const NAME: &str = "autoscaler";
/// The same of the Cluster Autoscaler, and its ConfigMap.
pub const STOCK: &str = "cluster-autoscaler";
/// User of the adapter inside the tenant cluster.
pub const USER: &str = "covey-autoscaler";
/// User of the Cluster Autoscaler there.
pub const STOCK_USER: &str = "covey-cluster-autoscaler";
/// ClusterRole of the chart with [`super::rules_outside`], bound in users' namespaces (docs/adr/0004).
pub const CLUSTER_ROLE: &str = "covey-autoscaler";
/// ClusterRole and ClusterRoleBinding of the adapter inside the tenant cluster, and a Role and
/// RoleBinding in its `kube-system`.
pub const ROLE: &str = "covey:autoscaler";
/// Port of the adapter's gRPC service, in its pod and of its Service.
pub const PORT: i32 = 8086;
/// Where the two mount the Secrets of their own authority.
pub const GRPC_DIR: &str = "/etc/covey/grpc";
/// ClusterRole and ClusterRoleBinding of the Cluster Autoscaler inside the tenant cluster, and a Role
/// and RoleBinding in its `kube-system`.
pub const STOCK_ROLE: &str = "covey:cluster-autoscaler";
/// The small authority, and the Secret with its pair.
pub const AUTHORITY: &str = "autoscaler-ca";
/// The adapter's serving certificate, and its Secret.
pub const SERVER: &str = "autoscaler-server";
/// The Cluster Autoscaler's client certificate for the adapter, and its Secret.
pub const CLIENT: &str = "cluster-autoscaler-client";
