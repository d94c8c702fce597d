//! Everything that the watches told, and who has to be looked at when it changes.
//!
//! Invariant: nothing is decided here. What an API answered to a write is believed until a watch
//! tells something newer; and nothing is read from here before every watch has been through once.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::names::LABEL_TENANT_UID;
use k8s_openapi::api::core::v1::Service;
use tokio::sync::Notify;

use crate::model::{Instance, Node, Vm};
use crate::names;
use crate::node::plan::{Observed as NodeObserved, Pulse, Sight};
use crate::queue::{Key, Queue};
use crate::service::plan::slices::version;
use crate::service::plan::{self, Observed, Presence, Slice, Target, Wish};
use crate::settings::Settings;
use kit::events::Notice;

mod events;

pub use events::Seen;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Services of the tenant cluster.
    Service,
    /// EndpointSlices of the tenant cluster.
    Local,
    /// Nodes of the tenant cluster.
    Node,
    /// Virtual machines of the tenant namespace.
    Vm,
    /// Their instances.
    Instance,
    /// Services of the tenant namespace.
    Mirror,
    /// EndpointSlices of the tenant namespace.
    Slice,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Service,
        Self::Local,
        Self::Node,
        Self::Vm,
        Self::Instance,
        Self::Mirror,
        Self::Slice,
    ];
}

type Nodes = Vec<(Arc<str>, Presence)>;

#[derive(Default)]
struct Inner {
    /// By UID: those that want a load balancer, or may have one.
    services: BTreeMap<String, Arc<Service>>,
    /// Namespace and name of those, to the UID.
    uids: HashMap<(String, String), String>,
    /// Where endpoints of the tenant's Services are: by namespace and name of the Service, then by
    /// slice.
    local: HashMap<(String, String), BTreeMap<String, Nodes>>,
    /// Namespace and name of a tenant's slice, to the Service that it belongs to.
    local_of: HashMap<String, (String, String)>,
    nodes: BTreeMap<Arc<str>, Node>,
    vms: BTreeMap<String, Vm>,
    instances: BTreeMap<String, Instance>,
    /// By UID: the UID of the tenant's Service, and the mirror.
    mirrors: BTreeMap<String, (String, Arc<Service>)>,
    /// By name: what the KubeVirt CCM made.
    legacy: BTreeMap<String, Arc<Service>>,
    /// By the Service that they belong to, then by name.
    slices: HashMap<String, BTreeMap<String, Slice>>,
    /// Name of a slice, to the Service that it belongs to.
    slice_of: HashMap<String, String>,
    /// Made of nodes and instances when it is asked for.
    targets: Option<Arc<Vec<Target>>>,
    /// What people were told about a Service.
    told: HashMap<String, u64>,
    /// Keys seen since a watch began anew.
    listing: BTreeMap<Kind, BTreeSet<String>>,
    synced: BTreeSet<Kind>,
}

/// Shared by watches and reconciles.
pub struct World {
    settings: Arc<Settings>,
    queue: Queue,
    inner: Mutex<Inner>,
    listed: Notify,
}

impl World {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: Arc<Settings>, queue: Queue) -> Self {
        Self {
            settings,
            queue,
            inner: Mutex::default(),
            listed: Notify::new(),
        }
    }

    /// What is not listed yet.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        let inner = self.lock();
        let missing = Kind::ALL.into_iter().filter(|k| !inner.synced.contains(k));
        missing.collect()
    }

    /// Waits until everything has been listed once.
    pub async fn listed(&self) {
        loop {
            let listed = self.listed.notified();
            if self.missing().is_empty() {
                return;
            }
            listed.await;
        }
    }

    /// Queues everything that there is.
    pub fn queue_all(&self) {
        let inner = self.lock();
        inner.queue_services(&self.queue, |_| true);
        for node in inner.nodes.keys() {
            self.queue.add(Key::Node(node.to_string()));
        }
        drop(inner);
        self.sweep();
    }

    /// Queues what has no Service any more: orphans.
    pub fn sweep(&self) {
        let inner = self.lock();
        let mirrors = inner.mirrors.values().map(|(uid, _)| uid);
        for uid in mirrors.filter(|uid| !inner.services.contains_key(*uid)) {
            self.queue.add(Key::Service(uid.clone()));
        }
        let slices = inner.slices.values().flat_map(BTreeMap::values);
        for uid in slices.filter_map(|slice| slice.of.as_ref()) {
            if !inner.services.contains_key(uid) {
                self.queue.add(Key::Service(uid.clone()));
            }
        }
    }

    /// Everything about one Service.
    #[must_use]
    pub fn service(&self, uid: &str) -> Observed {
        let mut inner = self.lock();
        let targets = inner.targets();
        let legacy = names::legacy_mirror(uid);
        let ours = names::mirror(&self.settings.cluster_uid, uid);
        let mirrors = inner.mirrors.values().filter(|(of, _)| of == uid);
        let mut mirrors: Vec<_> = mirrors.map(|(_, mirror)| Arc::clone(mirror)).collect();
        let known = |mirror: &Arc<Service>| {
            let uid = &mirror.metadata.uid;
            mirrors.iter().any(|m| m.metadata.uid == *uid)
        };
        let adopted = inner.legacy.get(&legacy).filter(|m| !known(m)).cloned();
        mirrors.extend(adopted);
        let slices = [&ours, &legacy]
            .into_iter()
            .filter_map(|name| inner.slices.get(name))
            .flat_map(|slices| slices.values().cloned());
        let slices = slices.collect();
        let service = inner.services.get(uid).cloned();
        let local = service.as_ref().map(|s| inner.local(s));
        Observed {
            uid: uid.to_owned(),
            service,
            mirrors,
            slices,
            certain: false,
            targets,
            local: local.unwrap_or_default(),
        }
    }

    /// Everything about one node; none when it is gone.
    #[must_use]
    pub fn node(&self, name: &str, zones: bool) -> Option<NodeObserved> {
        let inner = self.lock();
        let node = inner.nodes.get(name)?.clone();
        let machine = node.machine().unwrap_or_default();
        let missing = || Sight::Missing { certain: false };
        Some(NodeObserved {
            vm: inner.vms.get(machine).map_or_else(
                || Sight::Missing { certain: false },
                |v| Sight::There(v.clone()),
            ),
            instance: inner
                .instances
                .get(machine)
                .map_or_else(missing, |i| Sight::There(i.clone())),
            node,
            pulse: Pulse::Unknown,
            waited: false,
            zones,
        })
    }

    /// Whether these complaints are news; what is said once is not said again while it lasts.
    pub fn tells(&self, uid: &str, complaints: &[Notice]) -> bool {
        let mut inner = self.lock();
        if complaints.is_empty() {
            inner.told.remove(uid);
            return false;
        }
        let mut hasher = DefaultHasher::new();
        complaints.hash(&mut hasher);
        let hash = hasher.finish();
        inner.told.insert(uid.to_owned(), hash) != Some(hash)
    }

    /// Whether this Service of the management cluster is a mirror of that one.
    #[must_use]
    pub fn is_mirror_of(&self, mirror: &Service, uid: &str) -> bool {
        self.mirrored(mirror).as_deref() == Some(uid)
            || (self.is_legacy(mirror)
                && mirror.metadata.name.as_deref() == Some(&names::legacy_mirror(uid)))
    }

    /// The UID of the tenant's Service that this one mirrors, if we made or took it over.
    fn mirrored(&self, mirror: &Service) -> Option<String> {
        let labels = mirror.metadata.labels.as_ref()?;
        let ours = labels.get(LABEL_TENANT_UID) == Some(&self.settings.cluster_uid);
        labels
            .get(names::LABEL_SERVICE_UID)
            .filter(|_| ours)
            .cloned()
    }

    fn is_legacy(&self, mirror: &Service) -> bool {
        let labels = mirror.metadata.labels.as_ref();
        self.settings.adopt && labels.is_some_and(|l| l.contains_key(names::LEGACY_SERVICE))
    }

    /// Numbers for people.
    #[must_use]
    pub fn counts(&self) -> serde_json::Value {
        let inner = self.lock();
        serde_json::json!({
            "services": inner.services.len(),
            "mirrors": inner.mirrors.len(),
            "slices": inner.slice_of.len(),
            "nodes": inner.nodes.len(),
            "virtualMachines": inner.vms.len(),
            "instances": inner.instances.len(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The machines that take traffic, by node.
    fn targets(&mut self) -> Arc<Vec<Target>> {
        if let Some(targets) = &self.targets {
            return Arc::clone(targets);
        }
        let proxies = self.proxies();
        let proxied = |node: &Arc<str>| proxies.as_ref().is_none_or(|ready| ready.contains(node));
        let target = |(name, node): (&Arc<str>, &Node)| {
            let instance = self.instances.get(node.machine()?)?;
            (node.takes_traffic() && !instance.addresses.is_empty()).then(|| Target {
                node: Arc::clone(name),
                ready: node.ready && proxied(name) && instance.serves(),
                serving: instance.phase == crate::model::Phase::Running && !instance.paused,
                terminating: instance.deleting,
                addresses: instance.addresses.clone(),
                management_node: instance.management_node.as_deref().map(Into::into),
            })
        };
        let targets: Arc<Vec<_>> = Arc::new(self.nodes.iter().filter_map(target).collect());
        self.targets = Some(Arc::clone(&targets));
        targets
    }

    /// Nodes whose kube-proxy is ready; none when the tenant cluster does not tell, because it has
    /// another one. A node is Ready as soon as it has a network, and a node port leads nowhere
    /// until kube-proxy has written its rules.
    fn proxies(&self) -> Option<BTreeSet<&Arc<str>>> {
        let (namespace, name) = names::KUBE_PROXY;
        let slices = self.local.get(&(namespace.to_owned(), name.to_owned()))?;
        let ready = slices.values().flatten().filter(|(_, has)| has.ready);
        Some(ready.map(|(node, _)| node).collect())
    }

    fn local(&self, service: &Service) -> BTreeMap<Arc<str>, Presence> {
        let mut local: BTreeMap<Arc<str>, Presence> = BTreeMap::new();
        let slices = self.local.get(&place(service)).into_iter();
        for (node, presence) in slices.flat_map(BTreeMap::values).flatten() {
            let all = local.entry(Arc::clone(node)).or_default();
            all.ready |= presence.ready;
            all.serving |= presence.serving;
        }
        local
    }

    fn queue_services(&self, queue: &Queue, which: impl Fn(&Service) -> bool) {
        for (uid, service) in &self.services {
            if which(service) {
                queue.add(Key::Service(uid.clone()));
            }
        }
    }

    /// What a machine of this name changes: its node, and, perhaps, where traffic goes.
    fn queue_machine(&mut self, queue: &Queue, machine: &str, settings: &Settings, traffic: bool) {
        for (name, node) in &self.nodes {
            if node.machine() == Some(machine) {
                queue.add(Key::Node(name.to_string()));
            }
        }
        if traffic {
            self.queue_traffic(queue, settings);
        }
    }

    /// Traffic goes elsewhere: what was made of nodes and instances is made again.
    fn queue_traffic(&mut self, queue: &Queue, settings: &Settings) {
        self.targets = None;
        self.queue_services(queue, |s| plan::wish(s, settings) == Wish::Ours);
    }
}

fn place(service: &Service) -> (String, String) {
    let meta = &service.metadata;
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Whether `old` is to give way to `new`, when both are the same object.
fn is_older(old: &Service, new: &Service) -> bool {
    old.metadata.uid != new.metadata.uid || version(&old.metadata) <= version(&new.metadata)
}

#[cfg(test)]
mod tests;
