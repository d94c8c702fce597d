//! Stores of our kinds: all TenantClusters, NodePools and Machines as last seen, and questions to them.
//!
//! Invariant: what is decided on an answer from here can be decided anew; what cannot be undone is read
//! live.

use std::sync::Arc;

use api::{Machine, NodePool, TenantCluster};
use kube::ResourceExt;
use kube::runtime::reflector::store::{Writer, WriterDropped};
use kube::runtime::reflector::{self, Store};

/// The stores.
pub struct Stores {
    /// All TenantClusters, as last seen.
    pub clusters: Store<TenantCluster>,
    /// All NodePools, as last seen.
    pub pools: Store<NodePool>,
    /// All Machines, as last seen.
    pub machines: Store<Machine>,
}

/// What fills them.
pub struct Writers {
    /// Of TenantClusters.
    pub clusters: Writer<TenantCluster>,
    /// Of NodePools.
    pub pools: Writer<NodePool>,
    /// Of Machines.
    pub machines: Writer<Machine>,
}

impl Stores {
    /// Stores that nothing fills yet.
    #[must_use]
    pub fn new() -> (Self, Writers) {
        let (clusters, write_clusters) = reflector::store();
        let (pools, write_pools) = reflector::store();
        let (machines, write_machines) = reflector::store();
        let stores = Self {
            clusters,
            pools,
            machines,
        };
        let writers = Writers {
            clusters: write_clusters,
            pools: write_pools,
            machines: write_machines,
        };
        (stores, writers)
    }

    /// Waits until everything has been listed once.
    ///
    /// # Errors
    /// When nothing fills a store any more.
    pub async fn wait_until_ready(&self) -> Result<(), WriterDropped> {
        self.clusters.wait_until_ready().await?;
        self.pools.wait_until_ready().await?;
        self.machines.wait_until_ready().await
    }

    /// All TenantClusters but this one.
    #[must_use]
    pub fn others(&self, uid: &str) -> Vec<Arc<TenantCluster>> {
        let all = self.clusters.state().into_iter();
        all.filter(|c| c.metadata.uid.as_deref() != Some(uid))
            .collect()
    }

    /// Whether a TenantCluster has node pools, or Machines that outlive them.
    #[must_use]
    pub fn has_workers(&self, cluster: &TenantCluster) -> bool {
        let (namespace, name, uid) = (
            cluster.namespace(),
            cluster.name_any(),
            cluster.uid().unwrap_or_default(),
        );
        let pools = self.pools.state();
        let of =
            |pool: &Arc<NodePool>| pool.namespace() == namespace && pool.spec.cluster_name == name;
        let machines = || self.machines.state();
        pools.iter().any(of) || machines().iter().any(|m| m.spec.cluster_uid == uid)
    }
}
