//! Context of every reconcile: handles to what all of them share.
//!
//! Invariant: nothing in here decides anything about one tenant cluster, nothing in here has to
//! survive a restart, and nothing that is held here imports this.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::TenantCluster;
use api::tenant_cluster::NetworkStatus;
use kit::lease::Leadership;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use providers::Providers;
use tenant_cp::Settings;
use tenant_cp::network::reservations::Reservations;
use tenant_cp::problem::Problem;

use crate::capacity::Capacity;
use crate::reserved_ranges::ReservedRanges;
use crate::rollouts::queue::StartQueue;
use crate::state::ControllerState;
use crate::stores::Stores;
use crate::tenant_session::breaker::Breaker;
use crate::tenant_session::budget::Budget;
use crate::tenant_session::registry::Registry;
use crate::tenant_session::session::Dial;
use crate::throttle::Throttle;
use crate::triggers::Triggers;
use crate::watches::secrets::SecretWatches;
use crate::watches::virtual_machines::VmWatches;

/// Shared by all reconciles.
pub struct Context {
    /// Management API.
    pub client: Client,
    /// Configuration, as it was given. What is planned with are the settings in force
    /// ([`ReservedRanges::settings`]).
    pub settings: Settings,
    /// The management cluster's own ranges, and the settings in force with them.
    pub reserved_ranges: Arc<ReservedRanges>,
    /// Fence of every write.
    pub leadership: Leadership,
    /// All objects of our kinds, as last seen.
    pub stores: Stores,
    /// Asks for another reconcile.
    pub triggers: Triggers,
    /// Whether reconciles come to an end.
    pub progress: kit::admin::Progress,
    /// What is kept about TenantClusters.
    pub cluster_state: ControllerState,
    /// What is kept about node pools.
    pub pool_state: ControllerState,
    /// What is kept about Machines.
    pub machine_state: ControllerState,
    /// Pauses between reconciles of one TenantCluster.
    pub throttle: Throttle,
    /// Starts under way and waiting.
    pub start_queue: StartQueue,
    /// Ranges decided in this process: the store may not show them yet.
    pub reservations: Mutex<Reservations>,
    /// How tenants are reached.
    pub dial: Dial,
    /// How long one reconcile waits for one tenant: [`Budget::WAIT`], but where many operators share a
    /// machine that makes each of them slow.
    pub tenant_wait: Duration,
    /// Tenants whose API did not answer lately, by UID.
    pub breaker: Breaker,
    /// Tenants whose API answered: clients, and what happens there.
    pub tenants: Registry,
    /// Tenant namespaces whose Secrets are watched.
    pub secrets: SecretWatches,
    /// Tenant namespaces whose virtual machines are watched.
    pub vms: VmWatches,
    /// Who makes virtual machines.
    pub providers: Providers,
    /// What is left of the management cluster for machines.
    pub capacity: Arc<Capacity>,
}

impl Context {
    /// What one reconcile may take of one tenant.
    #[must_use]
    pub fn budget(&self) -> Budget {
        Budget::waiting(self.tenant_wait)
    }

    /// The ranges of a TenantCluster, decided by one reconcile at a time, so that two that are
    /// created together are not given the same.
    ///
    /// # Errors
    /// Those of `tenant_cp::network::decide`.
    pub fn decide_network(&self, cluster: &TenantCluster) -> Result<NetworkStatus, Problem> {
        let reservations = &self.reservations;
        let mut reservations = reservations.lock().unwrap_or_else(PoisonError::into_inner);
        let clusters = self.stores.clusters.state();
        let settings = self.reserved_ranges.settings();
        reservations.decide(cluster, &clusters, &settings.network)
    }

    /// Triggers whoever may start now.
    pub fn trigger_next(&self) {
        let next = self.start_queue.next();
        for cluster in self.stores.clusters.state() {
            let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
            if next.iter().any(|n| n == uid) {
                // The receiver lives as long as the controller; without it nobody needs waking.
                let _ = self.triggers.clusters.send(ObjectRef::from_obj(&*cluster));
            }
        }
    }

    /// Forgets what was remembered of a tenant cluster that is gone.
    pub fn forget(&self, uid: &str) {
        self.breaker.close(uid);
        self.tenants.forget(uid);
        self.secrets.forget(uid);
        self.vms.forget(uid);
        if self.start_queue.done(uid) {
            self.trigger_next();
        }
    }
}
