//! Validator: what objects are validated with.
//!
//! Invariant: it holds nothing of its own; what it gives is what was last seen.

use std::sync::Arc;

use api::{NodePool, TenantCluster, TenantQuota};
use tenant_cp::Settings;

/// What the webhook validates with.
#[derive(Clone)]
pub struct Validator {
    /// The settings in force.
    pub settings: Arc<dyn Fn() -> Arc<Settings> + Send + Sync>,
    /// All TenantClusters as last seen, from memory.
    pub clusters: Arc<dyn Fn() -> Vec<Arc<TenantCluster>> + Send + Sync>,
    /// All NodePools as last seen, from memory.
    pub pools: Arc<dyn Fn() -> Vec<Arc<NodePool>> + Send + Sync>,
    /// All TenantQuotas as last seen, from memory.
    pub quotas: Arc<dyn Fn() -> Vec<Arc<TenantQuota>> + Send + Sync>,
}
