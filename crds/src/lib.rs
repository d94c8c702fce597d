//! The kinds of `covey.dev`: one file per kind, and the words they share.
//!
//! Invariant: no I/O, no clock, no client. What is written here is the public contract; the YAML
//! under `generated/` is derived from it by `cargo xtask crds` and compared by
//! `cargo xtask crds --check`.

pub mod condition;
pub mod names;
pub mod quantity;
#[allow(unreachable_pub)] // what KubeSchema derives is public inside a private function
pub mod tenant_cluster;

pub use condition::{ConditionStatus, ConditionType, set_condition};
pub use quantity::Quantity;
pub use tenant_cluster::{TenantCluster, TenantClusterSpec, TenantClusterStatus};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

/// The API group of every kind of ours.
pub const GROUP: &str = "covey.dev";
/// The version that is served and stored.
pub const VERSION: &str = "v1alpha1";

/// Every CustomResourceDefinition that the chart installs, in the order of installation.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![TenantCluster::crd()]
}
