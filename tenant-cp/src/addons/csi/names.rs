//! Names of the addon `csi`.
//!
//! Invariant: [`DRIVER`] never changes: volumes name it.

/// Deployment, ServiceAccount, RoleBinding, NetworkPolicy, Secret and component label.
pub const NAME: &str = "csi";
/// ClusterRole of the chart with [`super::rules_outside`], bound in tenant namespaces (docs/adr/0001).
pub const CLUSTER_ROLE: &str = "covey-csi";
/// Name of the driver: its CSIDriver, and the provisioner of its StorageClasses.
pub const DRIVER: &str = "csi.covey.dev";
