//! What happens inside tenant clusters: for each that answers, a client and a few watches.
//!
//! The reconcile of a TenantCluster hands over a tenant whose API answered ([`Tenants::ensure`]) and
//! takes it back when the tenant goes ([`Tenants::forget`]). Watched are the objects that Covey laid
//! there (a change or loss wakes the TenantCluster), and while there are node pools the nodes and
//! the serving certificates that kubelets ask for (they wake Machines).
//!
//! Invariant: nothing of a tenant's objects is kept but names and fingerprints; every watch comes
//! back by itself, at the pace of the tenant's breaker; nothing is decided here.

mod known;
mod nodes;
mod stream;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::tenant_cluster::EndpointStatus;
use api::{Machine, TenantCluster};
use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kit::apply::{Kind, kinds};
use kube::api::{DynamicObject, ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::context::Breaker;
use crate::tenant::{Error, Visit};
use known::{Change, Known};
use stream::{Gate, watched};

/// Kinds of objects in a tenant cluster whose changes are noticed at once. Others are looked at in
/// the slow sweep: a watch costs a connection per tenant cluster.
const OBJECTS: [Kind; 4] = [
    kinds::CONFIG_MAP,
    kinds::DAEMON_SET,
    kinds::DEPLOYMENT,
    kinds::SERVICE,
];
/// A TenantCluster is woken by its own objects no more often than this.
const QUIET: Duration = Duration::from_secs(1);

/// A tenant cluster whose API answered.
#[derive(Clone, PartialEq)]
pub struct Tenant {
    /// UID of the TenantCluster.
    pub uid: String,
    /// The TenantCluster.
    pub cluster: ObjectRef<TenantCluster>,
    /// Who we are there, and where that is.
    pub visit: Visit,
    /// Where nodes and users reach the API.
    pub endpoint: EndpointStatus,
    /// Whether there are node pools, so that nodes have to be watched.
    pub has_nodes: bool,
}

/// What others need to work in a tenant cluster.
#[derive(Clone)]
pub struct TenantClient {
    /// A client with the operator's identity there, shared by all.
    pub client: Client,
    /// The tenant's certificate authority, PEM.
    pub authority: String,
    /// Where nodes reach the API.
    pub endpoint: EndpointStatus,
}

/// All tenant clusters that answered.
pub struct Tenants {
    breaker: Breaker,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    machines: mpsc::UnboundedSender<ObjectRef<Machine>>,
    woken: Mutex<Option<mpsc::UnboundedReceiver<ObjectRef<Machine>>>>,
    entries: Mutex<HashMap<String, Entry>>,
    /// When the objects inside were last looked at, by UID; a suspicion removes the entry.
    looks: Arc<Mutex<HashMap<String, Instant>>>,
}

struct Entry {
    tenant: Tenant,
    client: Client,
    waiting: Waiting,
    objects: JoinHandle<()>,
    nodes: Option<JoinHandle<()>>,
}

/// Names of requests that wait for approval, by node.
type Waiting = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

impl Drop for Entry {
    fn drop(&mut self) {
        self.objects.abort();
        if let Some(nodes) = &self.nodes {
            nodes.abort();
        }
    }
}

impl Tenants {
    /// No tenant yet. `clusters` is woken by what happens inside them.
    #[must_use]
    pub fn new(
        breaker: Breaker,
        clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
    ) -> Self {
        let (machines, woken) = mpsc::unbounded_channel();
        Self {
            breaker,
            clusters,
            machines,
            woken: Mutex::new(Some(woken)),
            entries: Mutex::default(),
            looks: Arc::default(),
        }
    }

    /// Machines to look at again: their node changed, or its kubelet waits for a certificate. For
    /// the one controller of Machines; none when it was taken already.
    pub fn machine_triggers(&self) -> Option<mpsc::UnboundedReceiver<ObjectRef<Machine>>> {
        lock(&self.woken).take()
    }

    /// Watches a tenant that answered. What already runs with the same identity goes on.
    ///
    /// # Errors
    /// [`Error::BuildClient`].
    pub fn ensure(&self, tenant: Tenant) -> Result<(), Error> {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.get_mut(&tenant.uid) {
            let has_nodes = tenant.has_nodes;
            let same = Tenant {
                has_nodes,
                ..entry.tenant.clone()
            } == tenant;
            if same && !entry.objects.is_finished() {
                if has_nodes != entry.tenant.has_nodes {
                    entry.tenant.has_nodes = has_nodes;
                    self.watch_nodes(entry);
                }
                return Ok(());
            }
        }
        let client = tenant.visit.lasting_client()?;
        let gate = self.gate(&tenant);
        let looks = Arc::clone(&self.looks);
        let objects = watch_objects(&client, tenant.clone(), gate, looks, self.clusters.clone());
        let mut entry = Entry {
            objects: tokio::spawn(objects),
            waiting: Waiting::default(),
            nodes: None,
            client,
            tenant,
        };
        self.watch_nodes(&mut entry);
        entries.insert(entry.tenant.uid.clone(), entry);
        Ok(())
    }

    /// Ends the watches of a tenant that goes.
    pub fn forget(&self, uid: &str) {
        lock(&self.entries).remove(uid);
        lock(&self.looks).remove(uid);
    }

    /// A tenant that answered in this process; it may be down by now.
    #[must_use]
    pub fn client(&self, uid: &str) -> Option<TenantClient> {
        let entries = lock(&self.entries);
        let entry = entries.get(uid)?;
        Some(TenantClient {
            client: entry.client.clone(),
            authority: entry.tenant.visit.authority.clone(),
            endpoint: entry.tenant.endpoint.clone(),
        })
    }

    /// Names of the requests for a serving certificate of this node that nobody decided yet.
    #[must_use]
    pub fn pending_csrs(&self, uid: &str, node: &str) -> Vec<String> {
        let entries = lock(&self.entries);
        let names = entries
            .get(uid)
            .and_then(|entry| lock(&entry.waiting).get(node).cloned());
        names.into_iter().flatten().collect()
    }

    /// Whether the objects inside have to be looked at: never yet in this process, not for so long,
    /// or because one of them changed.
    #[must_use]
    pub fn is_due(&self, uid: &str, sweep: Duration) -> bool {
        lock(&self.looks)
            .get(uid)
            .is_none_or(|at| at.elapsed() >= sweep)
    }

    /// Notes that the objects inside are being looked at. Called before they are read, so that what
    /// changes meanwhile makes them due again.
    pub fn looked(&self, uid: &str) {
        lock(&self.looks).insert(uid.to_owned(), Instant::now());
    }

    /// Makes the objects inside due.
    pub fn suspect(&self, uid: &str) {
        lock(&self.looks).remove(uid);
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
            let task = watch_nodes(
                &entry.client,
                namespace,
                self.gate(&entry.tenant),
                Arc::clone(&entry.waiting),
                self.machines.clone(),
            );
            entry.nodes = Some(tokio::spawn(task));
        }
    }

    fn gate(&self, tenant: &Tenant) -> Gate {
        let (lost, mut told) = mpsc::unbounded_channel();
        let (clusters, cluster) = (self.clusters.clone(), tenant.cluster.clone());
        // Ends with the last sender, which the watches hold.
        tokio::spawn(async move {
            while told.recv().await.is_some() {
                if clusters.send(cluster.clone()).is_err() {
                    return;
                }
            }
        });
        Gate {
            uid: tenant.uid.clone(),
            breaker: self.breaker.clone(),
            lost,
        }
    }
}

/// An event about an object of a kind, reduced to its name and fingerprint.
type Reduced = (Kind, Event<(String, String)>);

/// Wakes the TenantCluster when something of ours in the tenant changes.
fn watch_objects(
    client: &Client,
    tenant: Tenant,
    gate: Gate,
    looks: Arc<Mutex<HashMap<String, Instant>>>,
    clusters: mpsc::UnboundedSender<ObjectRef<TenantCluster>>,
) -> impl Future<Output = ()> + Send + 'static {
    let ours = format!(
        "{}={}",
        api::names::LABEL_MANAGED_BY,
        api::names::MANAGED_BY
    );
    let mut events = SelectAll::<BoxStream<'static, Reduced>>::new();
    for kind in OBJECTS {
        let resource = kind.resource();
        let api = Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), &resource);
        let watch = watched(api, Config::default().labels(&ours), gate.clone());
        let reduced = watch.map(move |event| (kind, reduce(event, |o| own(&o.metadata))));
        events.push(reduced.boxed());
    }
    async move {
        let mut known = BTreeMap::<Kind, Known<String>>::new();
        let (mut due, mut not_before) = (false, Instant::now());
        loop {
            tokio::select! {
                event = events.next() => {
                    let Some((kind, event)) = event else { return };
                    for change in known.entry(kind).or_default().take(event) {
                        due = true;
                        if change != Change::Same {
                            lock(&looks).remove(&tenant.uid);
                        }
                    }
                }
                () = tokio::time::sleep_until(not_before), if due => {
                    due = false;
                    not_before = Instant::now() + QUIET;
                    if clusters.send(tenant.cluster.clone()).is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// Name and fingerprint of an object of ours: what is wanted of it is in its generation, where it
/// has one, else anything may matter.
fn own(meta: &ObjectMeta) -> (String, String) {
    let (namespace, name) = (
        meta.namespace.as_deref(),
        meta.name.as_deref().unwrap_or_default(),
    );
    let fingerprint = match (meta.generation, name) {
        (Some(generation), _) => generation.to_string(),
        // The kube-controller-manager signs it for each bootstrap token.
        (None, "cluster-info") => String::new(),
        (None, _) => meta.resource_version.clone().unwrap_or_default(),
    };
    (
        format!("{}/{name}", namespace.unwrap_or_default()),
        fingerprint,
    )
}

/// Wakes Machines when their node changes or waits for a certificate.
fn watch_nodes(
    client: &Client,
    namespace: String,
    gate: Gate,
    waiting: Waiting,
    machines: mpsc::UnboundedSender<ObjectRef<Machine>>,
) -> impl Future<Output = ()> + Send + 'static {
    let resource = kinds::NODE.resource();
    let api = Api::<nodes::Node>::all_with(client.clone(), &resource);
    let mut nodes = watched(api, Config::default(), gate.clone());
    let api = Api::<CertificateSigningRequest>::all(client.clone());
    let serving = format!("spec.signerName={}", tenant_cp::csr::SIGNER);
    let mut requests = watched(api, Config::default().fields(&serving), gate);
    async move {
        let (mut known, mut asked) = (Known::default(), Known::default());
        loop {
            let names: Vec<String> = tokio::select! {
                event = nodes.next() => {
                    let Some(event) = event else { return };
                    let changes = known.take(reduce(event, |node: nodes::Node| {
                        (node.name_any(), nodes::fingerprint(&node))
                    }));
                    changes.into_iter().filter_map(name).collect()
                }
                event = requests.next() => {
                    let Some(event) = event else { return };
                    let changes = asked.take(reduce(event, |r: CertificateSigningRequest| {
                        (r.name_any(), nodes::waiting_for(&r))
                    }));
                    let new: Vec<String> = changes.into_iter().filter_map(name).collect();
                    let all = requests_by_node(&asked);
                    let of = |(node, names): (&String, &BTreeSet<String>)| {
                        new.iter().any(|name| names.contains(name)).then(|| node.clone())
                    };
                    let nodes = all.iter().filter_map(of).collect();
                    *lock(&waiting) = all;
                    nodes
                }
            };
            for name in names {
                if machines
                    .send(ObjectRef::new(&name).within(&namespace))
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

fn requests_by_node(asked: &Known<Option<String>>) -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::<String, BTreeSet<String>>::new();
    for (request, node) in asked.iter() {
        if let Some(node) = node {
            all.entry(node.clone()).or_default().insert(request.clone());
        }
    }
    all
}

fn name(change: Change) -> Option<String> {
    match change {
        Change::Changed(name) | Change::Gone(name) => Some(name),
        Change::Same => None,
    }
}

fn reduce<K, T>(event: Event<K>, reduce: impl Fn(K) -> T) -> Event<T> {
    match event {
        Event::Apply(object) => Event::Apply(reduce(object)),
        Event::Delete(object) => Event::Delete(reduce(object)),
        Event::InitApply(object) => Event::InitApply(reduce(object)),
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is valid after any single statement.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
