//! Context of calls and controllers: handles that all of them share.
//!
//! Invariant: it holds and does nothing; whoever uses it is not imported here.

use std::sync::Arc;

use kit::events::Publisher;
use kube::Client;

use crate::cache::Cache;
use crate::cache::staleness::Staleness;
use crate::client::NodePools;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// What calls and controllers share.
pub struct Context {
    /// The tenant cluster's API.
    pub tenant: Client,
    /// The management cluster's API.
    pub management: Client,
    /// What can be configured.
    pub settings: Settings,
    /// What the watches told.
    pub cache: Arc<Cache>,
    /// Whether it can be believed.
    pub staleness: Arc<Staleness>,
    /// The writes to NodePools.
    pub node_pools: NodePools,
    /// Events about NodePools.
    pub events: Publisher,
    /// What is counted.
    pub metrics: Metrics,
}
