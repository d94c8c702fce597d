//! Context: the handles that calls and controllers share.
//!
//! Invariant: it knows handles alone; nothing that it imports imports it.

use std::sync::Arc;

use kube::Client;

use crate::in_flight::InFlight;
use crate::settings::Settings;
use crate::store::Store;
use crate::world::World;

/// What every call shares.
pub struct Context {
    /// The management cluster's API.
    pub client: Client,
    /// What can be configured.
    pub settings: Settings,
    /// What the watches told.
    pub world: Arc<World>,
    /// Requests of ours to that API.
    pub store: Store,
    /// Volumes that a call has in hand.
    pub in_flight: InFlight,
}

impl Context {
    /// Puts it together; nothing is sent.
    #[must_use]
    pub fn new(client: Client, settings: Settings) -> Self {
        let world = Arc::new(World::new(&settings.cluster_uid));
        let store = Store::new(&client, &settings, Arc::clone(&world));
        Self {
            client,
            settings,
            world,
            store,
            in_flight: InFlight::default(),
        }
    }
}
