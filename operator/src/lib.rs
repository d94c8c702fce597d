//! The Covey operator: reconciles TenantClusters.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`tenant_cluster`] | the reconciler: observe → validate → plan → apply → report |
//! | [`node_pool`], [`machine`] | the reconcilers of NodePools and Machines, of the same shape |
//! | [`workers`] | their wiring: stores, controllers, what wakes them |
//! | [`room`] | whether the management cluster has room for one machine more |
//! | [`tenant`] | how the operator talks to a tenant's API |
//! | [`tenant_watch`] | clients of tenants that answer, and what happens inside them |
//! | [`starts`] | how many control planes start at once, and who is next |
//! | [`triggers`] | what makes a TenantCluster be looked at again |
//! | [`admission`] | the validating webhook and its certificate |
//! | [`rbac`] | the rights that the code above needs; the chart's roles are generated from it |
//! | [`tell`] | what plans tell people |
//! | [`context`], [`desk`] | what every reconcile shares, and what a controller keeps about its objects |
//! | [`gather`] | thins out what wakes them |
//! | [`run`] | the wiring |
//!
//! Invariant: only the leader writes, and each write is fenced by the Lease.

pub mod admission;
pub mod args;
pub mod calm;
pub mod context;
pub mod desk;
pub mod gather;
pub mod machine;
pub mod node_pool;
pub mod rbac;
pub mod room;
pub mod run;
pub mod starts;
pub mod tell;
pub mod tenant;
pub mod tenant_cluster;
pub mod tenant_watch;
pub mod triggers;
pub mod workers;

/// Field manager of everything that the operator applies.
pub const FIELD_MANAGER: &str = "covey-operator";
