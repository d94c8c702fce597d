//! A tenant cluster with nodes: what the suites of workers begin with.
//!
//! Invariant: a test that uses it ends with neither, whatever happened in between.

use std::time::Duration;

use anyhow::Result;
use api::{NodePoolSpec, TenantClusterSpec};

use super::{PATIENCE, Scenario, kubectl::Kubectl};
use crate::cluster::{Pool, Tenant, pool};

/// How long tests wait for nodes: virtual machines with emulated processors, beside other tests.
pub const NODES: Duration = Duration::from_secs(900);
/// How long tests wait for something in a cluster whose nodes are ready.
pub const PODS: Duration = Duration::from_secs(240);

/// A tenant cluster, its node pool, and kubectl for it.
pub struct Workers {
    /// The tenant cluster.
    pub tenant: Tenant,
    /// Its node pool.
    pub pool: Pool,
    /// The administrator's kubectl.
    pub kubectl: Kubectl,
}

impl Scenario {
    /// Creates both, the smallest that there are unless changed, and waits for the tenant's API but
    /// not for the nodes.
    ///
    /// # Errors
    /// When the lab has neither KubeVirt nor hosts that play it, one is refused, or the API does not answer.
    pub async fn workers(
        &self,
        change: impl FnOnce(&mut TenantClusterSpec, &mut NodePoolSpec),
    ) -> Result<Workers> {
        let mut nodes = pool::small("demo");
        let mut cluster = TenantClusterSpec {
            version: super::VERSION.to_owned(),
            ..Default::default()
        };
        change(&mut cluster, &mut nodes);
        let tenant = Tenant::create(self.client(), &self.namespace, "demo", cluster).await?;
        let pool = Pool::create(&tenant, "workers", nodes).await?;
        tenant.usable(PATIENCE).await?;
        self.management.machines().await?;
        let kubectl = Kubectl::of(self, &tenant).await?;
        Ok(Workers {
            tenant,
            pool,
            kubectl,
        })
    }
}
