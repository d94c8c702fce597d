//! Stores of the webhook: what it decides from, kept by watches of its own, and no more than that.
//!
//! Invariant: no Secret, no Machine and nothing of a tenant namespace is read for it.

use std::sync::Arc;
use std::time::Duration;

use api::{NodePool, TenantCluster, TenantQuota};
use kit::store::{self, Relist};
use kube::Client;
use kube::runtime::reflector::store::{Writer, WriterDropped};
use kube::runtime::reflector::{self, Store};
use tenant_cp::Settings;

use super::validator::Validator;
use crate::reserved_ranges::{self, ReservedRanges};

/// How long a replica waits at most, before it answers, until the management cluster's ranges are found:
/// reconciles ask for them again.
const RANGES: Duration = Duration::from_secs(15);

/// The stores.
pub struct Stores {
    /// All TenantClusters, as last seen.
    pub clusters: Store<TenantCluster>,
    /// All NodePools, as last seen.
    pub pools: Store<NodePool>,
    /// All TenantQuotas, as last seen.
    pub quotas: Store<TenantQuota>,
    /// The management cluster's own ranges, and the settings in force with them.
    pub ranges: Arc<ReservedRanges>,
}

/// What fills them.
pub struct Writers {
    clusters: Writer<TenantCluster>,
    pools: Writer<NodePool>,
    quotas: Writer<TenantQuota>,
    ranges: Arc<ReservedRanges>,
}

impl Stores {
    /// Stores that nothing fills yet.
    #[must_use]
    pub fn new(settings: Settings) -> (Self, Writers) {
        let (clusters, write_clusters) = reflector::store();
        let (pools, write_pools) = reflector::store();
        let (quotas, write_quotas) = reflector::store();
        let ranges = Arc::new(ReservedRanges::new(settings));
        let writers = Writers {
            clusters: write_clusters,
            pools: write_pools,
            quotas: write_quotas,
            ranges: Arc::clone(&ranges),
        };
        let stores = Self {
            clusters,
            pools,
            quotas,
            ranges,
        };
        (stores, writers)
    }

    /// Judges with what the stores hold.
    #[must_use]
    pub fn validator(&self) -> Validator {
        let (clusters, pools) = (self.clusters.clone(), self.pools.clone());
        let quotas = self.quotas.clone();
        let ranges = Arc::clone(&self.ranges);
        Validator {
            settings: Arc::new(move || ranges.settings()),
            clusters: Arc::new(move || clusters.state()),
            pools: Arc::new(move || pools.state()),
            quotas: Arc::new(move || quotas.state()),
        }
    }

    /// Waits until everything has been listed once.
    ///
    /// # Errors
    /// When nothing fills a store any more.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        self.clusters.wait_until_ready().await?;
        self.pools.wait_until_ready().await?;
        self.quotas.wait_until_ready().await?;
        let _ = tokio::time::timeout(RANGES, self.ranges.listed()).await;
        Ok(())
    }
}

impl Writers {
    /// Keeps the stores up to date. Ends never.
    pub async fn run(self, client: Client) {
        let Self {
            clusters,
            pools,
            quotas,
            ranges,
        } = self;
        let client = || client.clone();
        let clusters = store::run(client(), clusters, Relist::default(), |_, _| {});
        let pools = store::run(client(), pools, Relist::default(), |_, _| {});
        let quotas = store::run(client(), quotas, Relist::default(), |_, _| {});
        let ranges = reserved_ranges::watches::run(ranges, client());
        futures::join!(clusters, pools, quotas, ranges);
    }
}
