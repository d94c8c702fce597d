//! What every reconcile shares: client, settings, leadership, queue of starts, metrics.
//!
//! Invariant: nothing in here decides anything about one tenant cluster, and nothing in here has
//! to survive a restart.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use api::tenant_cluster::NetworkStatus;
use api::{Machine, NodePool, TenantCluster};
use kit::lease::Leadership;
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};
use providers::Providers;
use tenant_cp::Settings;
use tenant_cp::network::Ledger;
use tenant_cp::validate::Problem;
use tokio::sync::{Notify, mpsc};

use crate::calm::Calm;
use crate::desk::Desk;
use crate::machine::watch::VmWatches;
use crate::room::Room;
use crate::starts::Starts;
use crate::tenant::Dial;
use crate::tenant_watch::Tenants;
use crate::workers::Wakers;

/// Shared by all reconciles.
pub struct Context {
    /// Management API.
    pub client: Client,
    /// Configuration.
    pub settings: Settings,
    /// Fence of every write.
    pub leadership: Leadership,
    /// All TenantClusters, as last seen.
    pub clusters: Store<TenantCluster>,
    /// All NodePools, as last seen.
    pub pools: Store<NodePool>,
    /// All Machines, as last seen.
    pub machines: Store<Machine>,
    /// Starts under way and waiting.
    pub starts: Starts,
    /// How tenants are reached.
    pub dial: Dial,
    /// Pauses between looks at one TenantCluster.
    pub calm: Calm,
    /// What is kept about TenantClusters.
    pub cluster_desk: Desk,
    /// Whether reconciles come to an end.
    pub progress: kit::admin::Progress,
    /// Asks for another look at a TenantCluster.
    pub wake: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    /// Ranges given in this process: the store may not show them yet.
    pub given: Mutex<Ledger>,
    /// Tenants whose API did not answer lately, by UID.
    pub breaker: Breaker,
    /// Tenants whose API answered: clients, and what happens there.
    pub tenants: Tenants,
    /// Tenant namespaces whose Secrets are watched.
    pub secrets: crate::triggers::SecretWatches,
    /// What is kept about node pools.
    pub pool_desk: Desk,
    /// What is kept about Machines.
    pub machine_desk: Desk,
    /// Wakes node pools and Machines.
    pub wakers: Wakers,
    /// Who makes virtual machines.
    pub providers: Providers,
    /// Tenant namespaces whose virtual machines are watched.
    pub vms: VmWatches,
    /// What is left of the management cluster for machines.
    pub room: Arc<Room>,
}

impl Context {
    /// All TenantClusters but this one.
    #[must_use]
    pub fn others(&self, uid: &str) -> Vec<Arc<TenantCluster>> {
        let all = self.clusters.state().into_iter();
        all.filter(|c| c.metadata.uid.as_deref() != Some(uid))
            .collect()
    }

    /// The ranges of a TenantCluster, decided by one reconcile at a time, so that two that are
    /// created together are not given the same.
    ///
    /// # Errors
    /// Those of `tenant_cp::network::decide`.
    pub fn decide_network(&self, cluster: &TenantCluster) -> Result<NetworkStatus, Problem> {
        let mut ledger = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.decide(cluster, &self.clusters.state(), &self.settings.network)
    }

    /// Wakes whoever may start now.
    pub fn wake_next(&self) {
        let next = self.starts.next();
        for cluster in self.clusters.state() {
            let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
            if next.iter().any(|n| n == uid) {
                // The receiver lives as long as the controller; without it nobody needs waking.
                let _ = self.wake.send(ObjectRef::from_obj(&*cluster));
            }
        }
    }

    /// Forgets what was remembered of a tenant cluster that is gone.
    pub fn forget(&self, uid: &str) {
        self.breaker.close(uid);
        self.tenants.forget(uid);
        self.secrets.forget(uid);
        self.vms.forget(uid);
        if self.starts.done(uid) {
            self.wake_next();
        }
    }
}

/// One dead tenant costs one probe per [`Breaker::PAUSE`] and delays nobody. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    open: Arc<Mutex<HashMap<String, Tripped>>>,
    closes: Arc<Notify>,
}

#[derive(Debug)]
struct Tripped {
    at: Instant,
    pods: i64,
    message: String,
}

impl Breaker {
    /// Time between two probes of a tenant that does not answer.
    pub const PAUSE: Duration = Duration::from_secs(30);

    /// The message of the last failure, while it is too early to ask again. `pods` is the number of
    /// ready pods: when that changed, it is not too early.
    pub fn message(&self, uid: &str, pods: i64) -> Option<String> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tripped = open.get(uid)?;
        let early = tripped.at.elapsed() < Self::PAUSE && tripped.pods == pods;
        early.then(|| tripped.message.clone())
    }

    /// The message of the last failure, while it is too early to ask again. Who is let through when
    /// it no longer is has the one probe: others wait until it [`Self::close`]s this, or trips it
    /// again.
    pub fn claim(&self, uid: &str) -> Option<String> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tripped = open.get_mut(uid)?;
        if tripped.at.elapsed() < Self::PAUSE {
            return Some(tripped.message.clone());
        }
        tripped.at = Instant::now();
        None
    }

    /// Notes a failure.
    pub fn trip(&self, uid: &str, pods: i64, message: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let tripped = Tripped {
            at: Instant::now(),
            pods,
            message: message.to_owned(),
        };
        open.insert(uid.to_owned(), tripped);
    }

    /// Notes an answer, or that the tenant is gone, or that something changed there.
    pub fn close(&self, uid: &str) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.remove(uid).is_some() {
            self.closes.notify_waiters();
        }
    }

    /// Waits while it is too early to ask a tenant again.
    pub async fn closed(&self, uid: &str) {
        let left = || {
            let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            let tripped = open.get(uid)?;
            Self::PAUSE.checked_sub(tripped.at.elapsed())
        };
        loop {
            // Registered before the look, so that a close in between is not missed.
            let closes = self.closes.notified();
            let Some(left) = left() else { return };
            // The end of the pause will do as well.
            let _ = tokio::time::timeout(left, closes).await;
        }
    }
}
