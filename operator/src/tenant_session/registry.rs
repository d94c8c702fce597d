//! Registry of the tenant clusters that answer: for each a client and a few watches.
//!
//! The reconcile of a TenantCluster hands over a tenant whose API answered ([`Registry::ensure`]) and
//! takes it back when the tenant goes ([`Registry::forget`]). Watched are the objects that Covey applied
//! there (a change or loss wakes the TenantCluster), and while there are node pools the nodes and
//! the serving certificates that kubelets ask for (they wake Machines), and with a pool over several locations
//! the nodes' Leases (whoever judges locations asks [`NodeSilence`]).
//!
//! Invariant: nothing of a tenant's objects is kept but names and fingerprints; every watch comes
//! back by itself, and of one that is silent once a probe heard it; nothing is decided here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::tenant_cluster::EndpointStatus;
use api::{Machine, TenantCluster};
use kit::lease::Leadership;
use kit::panics;
use kube::Client;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::api_probes::{ApiProbes, Heard, Probed};
use super::breaker::Breaker;
use super::budget::Budget;
use super::session::{Error, Session};
use super::watches::stream::Gate;
use super::watches::{self, Waiting};
use crate::node_silence::NodeSilence;

/// Pending requests for certificates of one node that are looked at: a kubelet has one or two.
const MOST_CSRS: usize = 8;
/// How long after one that was told of a lost connection the next is told, at first: those of all watches on it
/// come within that time.
const LOST: Duration = Duration::from_secs(1);

/// A tenant cluster whose API answered.
#[derive(Clone, PartialEq)]
pub struct Tenant {
    /// UID of the TenantCluster.
    pub uid: String,
    /// The TenantCluster.
    pub cluster: ObjectRef<TenantCluster>,
    /// Who we are there, and where that is.
    pub session: Session,
    /// Where nodes and users reach the API.
    pub endpoint: EndpointStatus,
    /// Whether there are node pools, so that nodes have to be watched.
    pub has_nodes: bool,
    /// Whether a pool has several locations, so that nodes have to be listened to.
    pub has_failover: bool,
    /// How long a reconcile waits for all its answers.
    pub wait: Duration,
}

/// What others need to work in a tenant cluster.
#[derive(Clone)]
pub struct TenantClient {
    /// A client with the operator's identity there, which the reconcile's budget pays.
    pub client: Client,
    /// The certificates of the tenant's authority, PEM.
    pub authority: String,
    /// Where nodes reach the API.
    pub endpoint: EndpointStatus,
}

/// All tenant clusters that answered.
pub struct Registry {
    leadership: Leadership,
    breaker: Breaker,
    probes: Arc<ApiProbes>,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    machines: mpsc::UnboundedSender<ObjectRef<Machine>>,
    triggered: Mutex<Option<mpsc::UnboundedReceiver<ObjectRef<Machine>>>>,
    entries: Arc<Mutex<HashMap<String, Entry>>>,
    /// When the objects inside were last listed, by UID; a suspicion removes the entry.
    lists: Arc<Mutex<HashMap<String, Instant>>>,
    /// When nodes were heard.
    silence: Arc<NodeSilence>,
}

struct Entry {
    tenant: Tenant,
    client: Client,
    waiting: Waiting,
    objects: JoinHandle<()>,
    nodes: Option<JoinHandle<()>>,
    leases: Option<JoinHandle<()>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.objects.abort();
        for task in self.nodes.iter().chain(&self.leases) {
            task.abort();
        }
    }
}

impl Registry {
    /// No tenant yet. `clusters` is woken by what happens inside them, `probes` find out what is the matter with
    /// those whose connection is lost.
    #[must_use]
    pub fn new(
        leadership: Leadership,
        breaker: Breaker,
        probes: Arc<ApiProbes>,
        clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    ) -> Self {
        let (machines, triggered) = mpsc::unbounded_channel();
        Self {
            leadership,
            breaker,
            probes,
            clusters,
            machines,
            triggered: Mutex::new(Some(triggered)),
            entries: Arc::default(),
            lists: Arc::default(),
            silence: Arc::default(),
        }
    }

    /// Machines to reconcile again: their node changed, or its kubelet waits for a certificate. For
    /// the one controller of Machines; none when it was taken already.
    pub fn machine_triggers(&self) -> Option<mpsc::UnboundedReceiver<ObjectRef<Machine>>> {
        lock(&self.triggered).take()
    }

    /// Watches a tenant that answered. What already runs with the same identity goes on.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn ensure(&self, tenant: Tenant) -> Result<(), Error> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get_mut(&tenant.uid) {
            let Tenant {
                has_nodes,
                has_failover,
                ..
            } = tenant;
            let same = Tenant {
                has_nodes,
                has_failover,
                ..entry.tenant.clone()
            } == tenant;
            if same && !entry.objects.is_finished() {
                let has_ended = entry.nodes.as_ref().is_some_and(JoinHandle::is_finished);
                if has_nodes != entry.tenant.has_nodes || has_ended {
                    entry.tenant.has_nodes = has_nodes;
                    self.watch_nodes(entry);
                }
                let has_ended = entry.leases.as_ref().is_some_and(JoinHandle::is_finished);
                if has_failover != entry.tenant.has_failover || has_ended {
                    entry.tenant.has_failover = has_failover;
                    self.listen(entry);
                }
                return Ok(());
            }
        }
        let client = tenant.session.lasting_client(&self.leadership)?;
        let gate = self.gate(&tenant);
        let lists = Arc::clone(&self.lists);
        let suspected = {
            let uid = tenant.uid.clone();
            move || {
                lock(&lists).remove(&uid);
            }
        };
        let cluster = tenant.cluster.clone();
        let objects = watches::objects(&client, cluster, gate, suspected, self.clusters.clone());
        let mut entry = Entry {
            objects: spawn(&tenant.cluster, objects),
            waiting: Waiting::default(),
            nodes: None,
            leases: None,
            client,
            tenant,
        };
        self.watch_nodes(&mut entry);
        self.listen(&mut entry);
        entries.insert(entry.tenant.uid.clone(), entry);
        Ok(())
    }

    /// Ends the watches of a tenant that goes.
    pub fn forget(&self, uid: &str) {
        lock(&self.entries).remove(uid);
        lock(&self.lists).remove(uid);
        self.silence.forget(uid);
    }

    /// When nodes were heard, of tenants that have a pool over several locations.
    #[must_use]
    pub fn silence(&self) -> &NodeSilence {
        &self.silence
    }

    /// A tenant that answered in this process; it may be down by now. `budget` pays for what it is asked.
    #[must_use]
    pub fn client(&self, uid: &str, budget: &Budget) -> Option<TenantClient> {
        let entries = lock(&self.entries);
        let entry = entries.get(uid)?;
        Some(TenantClient {
            client: budget.client(&entry.client),
            authority: entry.tenant.session.authority.clone(),
            endpoint: entry.tenant.endpoint.clone(),
        })
    }

    /// How a tenant is reached that answered in this process.
    #[must_use]
    pub fn session(&self, uid: &str) -> Option<Session> {
        let entries = lock(&self.entries);
        Some(entries.get(uid)?.tenant.session.clone())
    }

    /// The certificates of the authority of a tenant that answered in this process, PEM.
    #[must_use]
    pub fn authority(&self, uid: &str) -> Option<String> {
        let entries = lock(&self.entries);
        Some(entries.get(uid)?.tenant.session.authority.clone())
    }

    /// Names of the requests for a certificate of this node that nobody decided yet; of many only
    /// the first, until these are decided.
    #[must_use]
    pub fn pending_csrs(&self, uid: &str, node: &str) -> Vec<String> {
        let entries = lock(&self.entries);
        let names = entries
            .get(uid)
            .and_then(|entry| lock(&entry.waiting).get(node).cloned());
        names.into_iter().flatten().take(MOST_CSRS).collect()
    }

    /// Whether the objects inside have to be listed: never yet in this process, not for so long,
    /// or because one of them changed.
    #[must_use]
    pub fn is_due(&self, uid: &str, sweep: Duration) -> bool {
        lock(&self.lists)
            .get(uid)
            .is_none_or(|at| at.elapsed() >= sweep)
    }

    /// Notes that the objects inside are being listed. Called before they are read, so that what
    /// changes meanwhile makes them due again.
    pub fn listed(&self, uid: &str) {
        lock(&self.lists).insert(uid.to_owned(), Instant::now());
    }

    /// Makes the objects inside due.
    pub fn suspect(&self, uid: &str) {
        lock(&self.lists).remove(uid);
    }

    /// Number of tenants that are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.entries).len()
    }

    /// True when no tenant is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn watch_nodes(&self, entry: &mut Entry) {
        if let Some(task) = entry.nodes.take() {
            task.abort();
        }
        lock(&entry.waiting).clear();
        if entry.tenant.has_nodes {
            let namespace = entry.tenant.cluster.namespace.clone().unwrap_or_default();
            let task = watches::nodes(
                &entry.client,
                namespace,
                self.gate(&entry.tenant),
                Arc::clone(&entry.waiting),
                self.machines.clone(),
            );
            entry.nodes = Some(spawn(&entry.tenant.cluster, task));
        }
    }

    fn listen(&self, entry: &mut Entry) {
        if let Some(task) = entry.leases.take() {
            task.abort();
        }
        if entry.tenant.has_failover {
            let gate = self.gate(&entry.tenant);
            let task = watches::leases(&entry.client, gate, Arc::clone(&self.silence));
            entry.leases = Some(spawn(&entry.tenant.cluster, task));
        } else {
            self.silence.forget(&entry.tenant.uid);
        }
    }

    fn gate(&self, tenant: &Tenant) -> Gate {
        let (lost, mut told) = mpsc::unbounded_channel();
        let (clusters, probes, lost_one) = (
            self.clusters.clone(),
            Arc::clone(&self.probes),
            tenant.clone(),
        );
        let entries = Arc::downgrade(&self.entries);
        // Ends with the last sender, which the watches hold.
        tokio::spawn(async move {
            let mut pause = LOST;
            let mut last = Instant::now();
            while told.recv().await.is_some() {
                pause = next_pause(pause, last.elapsed());
                // Asked in no place, and looked at once it is known whether it answers.
                let probed = probed(&lost_one);
                if probes.ensure(probed, Heard::Nothing).is_err()
                    && clusters.send(lost_one.cluster.clone()).is_err()
                {
                    return;
                }
                // A dozen watches lose one connection, and those of one that stays away again and again.
                tokio::time::sleep(pause).await;
                while told.try_recv().is_ok() {}
                last = Instant::now();
            }
            // One that is gone may have been told of a moment ago.
            let entries = entries.upgrade();
            if entries.is_none_or(|all| !lock(&all).contains_key(&lost_one.uid)) {
                probes.forget(&lost_one.uid);
            }
        });
        Gate {
            uid: tenant.uid.clone(),
            breaker: self.breaker.clone(),
            lost,
        }
    }
}

/// One whose connection is lost.
fn probed(tenant: &Tenant) -> Probed<'_> {
    let address = tenant.session.address;
    Probed {
        uid: &tenant.uid,
        cluster: tenant.cluster.clone(),
        session: &tenant.session,
        pods: None,
        elapsed: Duration::ZERO,
        wait: tenant.wait,
        dial: Box::new(move || address),
    }
}

/// How long after one that was told of a lost connection the next is told. `before`: the same of the one
/// before, which was `ago` ago.
fn next_pause(before: Duration, ago: Duration) -> Duration {
    match ago < Breaker::PAUSE {
        true => before.saturating_mul(2).min(Breaker::PAUSE),
        false => LOST,
    }
}

/// Watches one tenant. What it says is parsed here, so a panic ends no more than these watches; they begin
/// again with the next reconcile.
fn spawn(
    cluster: &ObjectRef<TenantCluster>,
    watches: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let cluster = cluster.clone();
    tokio::spawn(async move {
        if let Err(panicked) = panics::contained(watches).await {
            tracing::error!("watches of TenantCluster {cluster}: {panicked}");
        }
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is valid after any single statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bench `neighbours`: nine watches of each of two hundred dead tenants had it reconciled every few seconds.
    #[test]
    fn one_that_stays_away_is_told_less_and_less_often() {
        let (mut pause, mut told, mut elapsed) = (LOST, 0, Duration::ZERO);
        while elapsed < Duration::from_secs(600) {
            pause = next_pause(pause, Duration::from_secs(3));
            elapsed += pause + Duration::from_secs(3);
            told += 1;
        }
        assert!(told <= 25, "told {told} times in ten minutes");
        assert_eq!(next_pause(pause, Breaker::PAUSE), LOST);
    }
}
