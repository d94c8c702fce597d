//! Context: the handles that calls and controllers share.
//!
//! Invariant: it knows handles alone; nothing that it imports imports it.

use std::sync::Arc;

use kube::Client;

use crate::cache::Cache;
use crate::client::ManagementClient;
use crate::complaints::Complaints;
use crate::in_flight::InFlight;
use crate::settings::Settings;

/// What every call and every controller shares.
pub struct Context {
    /// The management cluster's API, for watches and hot-plugging.
    pub kube: Client,
    /// What can be configured.
    pub settings: Settings,
    /// What the watches told.
    pub cache: Arc<Cache>,
    /// All other requests to that API.
    pub client: ManagementClient,
    /// Why disks are not where they are to be.
    pub complaints: Complaints,
    /// Volumes that a call has in hand.
    pub in_flight: InFlight,
}

impl Context {
    /// Puts it together; nothing is sent.
    #[must_use]
    pub fn new(kube: Client, settings: Settings) -> Self {
        let cache = Arc::new(Cache::new(&settings.cluster_uid));
        let client = ManagementClient::new(&kube, &settings, Arc::clone(&cache));
        Self {
            kube,
            settings,
            cache,
            client,
            complaints: Complaints::default(),
            in_flight: InFlight::default(),
        }
    }
}
