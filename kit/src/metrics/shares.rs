//! How a process shares its work with others.
//!
//! Invariant: no series is of one object.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Register once; clones are one.
#[derive(Clone, Debug, Default)]
pub struct ShareMetrics {
    members: Gauge,
    owned: Gauge,
}

impl ShareMetrics {
    /// Registers `covey_shard_members` and `covey_shard_tenant_clusters`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("covey");
        registry.register(
            "shard_members",
            "Replicas that share the work, as this one sees it",
            metrics.members.clone(),
        );
        registry.register(
            "shard_tenant_clusters",
            "TenantClusters that are this replica's work",
            metrics.owned.clone(),
        );
        metrics
    }

    /// As it is now.
    pub fn set(&self, members: usize, owned: usize) {
        self.members.set(i64::try_from(members).unwrap_or(i64::MAX));
        self.owned.set(i64::try_from(owned).unwrap_or(i64::MAX));
    }
}
