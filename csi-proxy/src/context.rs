//! Context: the handles that calls and controllers share.
//!
//! Invariant: it knows handles alone; nothing that it imports imports it.

use std::sync::Arc;

use kit_client::connect::Clients;

use crate::cache::Cache;
use crate::client::ManagementClient;
use crate::complaints::Complaints;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::settings::Settings;

/// What every call and every controller shares.
pub struct Context {
    /// The management cluster's API, for watches and hot-plugging.
    pub kube: Clients,
    /// What can be configured.
    pub settings: Settings,
    /// What the watches told.
    pub cache: Arc<Cache>,
    /// All other requests to that API.
    pub client: ManagementClient,
    /// Those that release volumes, which do not wait behind others: a pod that moves waits for them.
    pub urgent: ManagementClient,
    /// Why disks are not where they are to be.
    pub complaints: Complaints,
    /// Volumes that a call has in hand.
    pub in_flight: InFlight,
    /// What is counted.
    pub metrics: Metrics,
    /// Volumes that are being made.
    pub volumes: Places,
    /// Snapshots that are being made.
    pub snapshots: Places,
}

impl Context {
    /// Puts it together; nothing is sent.
    #[must_use]
    pub fn new(clients: impl Into<Clients>, settings: Settings) -> Self {
        let kube: Clients = clients.into();
        let cache = Arc::new(Cache::new(&settings.cluster_uid));
        let client = ManagementClient::new(&kube.usual, &settings, Arc::clone(&cache));
        let urgent = ManagementClient::new(&kube.urgent, &settings, Arc::clone(&cache));
        Self {
            kube,
            settings,
            cache,
            client,
            urgent,
            volumes: Places::default(),
            snapshots: Places::default(),
            complaints: Complaints::default(),
            in_flight: InFlight::default(),
            metrics: Metrics::default(),
        }
    }
}
