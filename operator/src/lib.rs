//! The Covey operator: reconciles TenantClusters.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`tenant_cluster`] | the reconciler: observe → validate → plan → apply → report |
//! | [`node_pool`], [`machine`] | the plans of node pools and Machines; nothing carries them out yet |
//! | [`tell`] | what plans tell people |
//! | [`tenant`] | how the operator talks to a tenant's API |
//! | [`tenant_watch`] | clients of tenants that answer, and what happens inside them |
//! | [`starts`] | how many control planes start at once, and who is next |
//! | [`triggers`] | what makes a TenantCluster be looked at again |
//! | [`admission`] | the validating webhook and its certificate |
//! | [`rbac`] | the rights that the code above needs; the chart's roles are generated from it |
//! | [`context`] | what every reconcile shares |
//! | [`run`] | the wiring |
//!
//! Invariant: only the leader writes, and each write is fenced by the Lease.

pub mod admission;
pub mod args;
pub mod context;
pub mod machine;
pub mod node_pool;
pub mod rbac;
pub mod run;
pub mod starts;
pub mod tell;
pub mod tenant;
pub mod tenant_cluster;
pub mod tenant_watch;
pub mod triggers;

/// Field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "covey-operator";
