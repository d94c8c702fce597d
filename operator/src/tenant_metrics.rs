//! Shows each tenant cluster as metrics, read from the stores when somebody asks.
//!
//! Nothing is kept, so the series of a tenant cluster go with it, and only the replica whose work it is shows it.
//! Invariant: one tenant cluster has no more series than `monitoring`'s budget, and there are no more tenant clusters
//! than is said; the only label that is not of a closed set is `tenant`, and what `covey_tenant_info` joins to it.

use std::fmt;
use std::sync::Arc;

use kube::ResourceExt as _;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use self::series::{Snapshot, Tenant};
use crate::context::Context;
use crate::prober::counts::Counts;

pub mod series;
#[cfg(test)]
mod tests;

/// What shows them.
pub struct TenantMetrics {
    context: Arc<Context>,
    probes: Counts,
    most: usize,
}

impl TenantMetrics {
    /// Shows `most` tenant clusters at most.
    #[must_use]
    pub fn new(context: Arc<Context>, probes: Counts, most: usize) -> Self {
        Self {
            context,
            probes,
            most,
        }
    }

    /// How many objects of each controller wait for their turn.
    fn queues(&self) -> Vec<(&'static str, usize)> {
        let context = &self.context;
        [
            &context.cluster_state,
            &context.pool_state,
            &context.machine_state,
            &context.quota_state,
            &context.host_state,
            &context.config_state,
            &context.target_state,
            &context.backup_state,
            &context.snapshot_state,
            &context.restore_state,
            &context.policy_state,
            &context.access_grant_state,
            &context.namespace_state,
        ]
        .map(|state| (state.metrics.name(), state.depth()))
        .to_vec()
    }

    fn snapshot(&self) -> Snapshot {
        let context = &self.context;
        let counts = context.rollout_queue.counts();
        let mut snapshot = Snapshot {
            leads: context.leadership.is_leader(),
            running: counts.running,
            waiting: counts.waiting,
            queues: self.queues(),
            dropped: 0,
            tenants: Vec::new(),
        };
        if !snapshot.leads {
            return snapshot;
        }
        let mut clusters = context.stores.clusters.state();
        clusters.retain(|c| context.shards.owns(&c.namespace().unwrap_or_default()));
        snapshot.dropped = clusters.len().saturating_sub(self.most);
        // Always the same ones, whatever order the store has.
        clusters.sort_by(|a, b| a.metadata.uid.cmp(&b.metadata.uid));
        clusters.truncate(self.most);
        let (pools, machines) = (
            context.stores.pools.state(),
            context.stores.machines.state(),
        );
        let mut tenants = Tenant::all(&clusters, &pools, &machines, &context.settings);
        for tenant in &mut tenants {
            tenant.probes = self.probes.of(&tenant.tenant);
        }
        snapshot.tenants = tenants;
        snapshot
    }
}

impl fmt::Debug for TenantMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantMetrics")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl Collector for TenantMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        self.snapshot().encode(encoder)
    }
}
