//! State of the cache: everything that the watches told, and the questions that plans and triggers
//! have to it.
//!
//! Invariant: nothing is decided here; a question changes nothing.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use api::machine_addresses::PublishedAddresses;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kit::events::Notice;
use kit::watch::Told;

use crate::cache::endpoint_slices::{LocalEndpoints, Slice};
use crate::cache::events::Kind;
use crate::cache::objects::{Instance, Node, Remote, Target, Vm};
use crate::cache::services::{Accepted, Place, place};
use crate::limits::Places;
use crate::names;
use crate::settings::{MachineAddresses, Settings};

use self::claims::Claims;
use self::mirrors::Mirrors;

mod claims;
mod mirrors;
mod places;
mod put;

/// Nodes on which a slice has endpoints.
type Nodes = Vec<(Arc<str>, LocalEndpoints)>;
/// When a Service was made, and its UID: the order in which they get what is left.
type Age = (Option<Timestamp>, String);

/// What is known of both clusters.
#[derive(Default)]
pub struct State {
    settings: Arc<Settings>,
    /// By UID: those that want a load balancer, or may have one.
    services: BTreeMap<String, Arc<Service>>,
    /// Namespace and name of those, to the UID.
    uids: HashMap<Place, String>,
    /// When they were made, and their UID, of those that want a load balancer of ours: with so many ports.
    wanting: BTreeMap<Age, usize>,
    /// Where endpoints of the tenant's Services are: by namespace and name of the Service, then by
    /// slice.
    local: HashMap<Place, BTreeMap<String, Nodes>>,
    /// Namespace and name of a tenant's slice, to the Service that it belongs to.
    local_of: HashMap<String, Place>,
    nodes: BTreeMap<Arc<str>, Node>,
    claims: Claims,
    vms: BTreeMap<String, Vm>,
    instances: BTreeMap<String, Instance>,
    /// By machine, as the operator published them last. One that went keeps them: they hold for one instance.
    addresses: Option<BTreeMap<String, PublishedAddresses>>,
    /// Machines that are no virtual machines, by name, as the operator published them last.
    remotes: BTreeMap<String, Remote>,
    mirrors: Mirrors,
    /// By the Service that they belong to, then by name.
    slices: HashMap<String, BTreeMap<String, Slice>>,
    /// Name of a slice, to the Service that it belongs to.
    slice_of: HashMap<String, String>,
    /// Made of nodes and instances when it is asked for.
    targets: OnceCell<Arc<Vec<Target>>>,
    /// By UID of the tenant's Service: what its mirror became instead of what was asked for.
    accepted: HashMap<String, Accepted>,
    places: Places,
    /// What was published about a Service.
    published: HashMap<String, u64>,
    /// Keys seen since a watch began anew.
    listing: BTreeMap<Kind, BTreeSet<String>>,
    told: Told<Kind>,
    synced: BTreeSet<Kind>,
}

impl State {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// What can be configured.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What is not listed yet. Addresses are not as long as somebody took them away from machines that run:
    /// the operator publishes them again.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        let lost = self.addresses.is_none() && !self.instances.is_empty();
        let published = self.settings.machine_addresses == MachineAddresses::Published;
        let is_lost = |kind: Kind| kind == Kind::Addresses && published && lost;
        let missing = |kind: &Kind| !self.synced.contains(kind) || is_lost(*kind);
        Kind::ALL.into_iter().filter(missing).collect()
    }

    /// The tenant's Services by UID: those that want a load balancer, or may have one.
    pub fn services(&self) -> impl Iterator<Item = (&String, &Arc<Service>)> {
        self.services.iter()
    }

    /// One of them.
    #[must_use]
    pub fn service(&self, uid: &str) -> Option<&Arc<Service>> {
        self.services.get(uid)
    }

    /// The one of this namespace and name.
    #[must_use]
    pub fn service_at(&self, place: &Place) -> Option<(&String, &Arc<Service>)> {
        self.services.get_key_value(self.uids.get(place)?)
    }

    /// Nodes of the tenant cluster by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, &Node)> {
        self.nodes.iter()
    }

    /// The node of a machine, as far as it takes traffic, and whether it is Ready: nothing else of all Nodes that
    /// claim the machine changes where traffic goes.
    fn traffic(&self, machine: Option<&str>) -> Option<(Arc<str>, bool)> {
        let name = self.claims.node_of(machine?)?;
        let node = self.nodes.get(name)?;
        Some((Arc::clone(name), node.ready))
    }

    /// One of them.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// A virtual machine of the tenant namespace.
    #[must_use]
    pub fn vm(&self, name: &str) -> Option<&Vm> {
        self.vms.get(name)
    }

    /// The instance of a virtual machine.
    #[must_use]
    pub fn instance(&self, name: &str) -> Option<&Instance> {
        self.instances.get(name)
    }

    /// The instance of a virtual machine, with the addresses that are believed.
    #[must_use]
    pub fn located(&self, name: &str) -> Option<Instance> {
        let instance = self.instance(name)?.clone();
        Some(instance.located(self.published(name), self.settings.machine_addresses))
    }

    /// Addresses of a machine, as the operator published them.
    #[must_use]
    pub fn published(&self, machine: &str) -> Option<&PublishedAddresses> {
        self.addresses.as_ref()?.get(machine)
    }

    /// The machine of a node that runs on no virtual machine: the one of its name, where both are called alike by
    /// their provider.
    #[must_use]
    pub fn remote(&self, node: &Node) -> Option<&Remote> {
        let remote = self.remotes.get(&node.name)?;
        let id = node.provider_id.as_ref();
        id.is_none_or(|id| *id == remote.provider_id)
            .then_some(remote)
    }

    /// How many nodes take no traffic because they run on no virtual machine.
    #[must_use]
    pub fn unmapped_nodes(&self) -> usize {
        let nodes = self.nodes.values();
        nodes.filter(|node| self.remote(node).is_some()).count()
    }

    /// What mirrors the tenant's Service with this UID: one, as a rule.
    #[must_use]
    pub fn mirrors_of(&self, uid: &str) -> Vec<Arc<Service>> {
        self.mirrors.of(uid)
    }

    /// What the mirror of the tenant's Service with this UID became instead of what was asked for.
    #[must_use]
    pub fn accepted(&self, uid: &str) -> Option<&Accepted> {
        self.accepted.get(uid)
    }

    /// Remembers that, for as long as there is such a Service.
    pub fn accept(&mut self, uid: &str, accepted: Option<Accepted>) {
        match accepted.filter(|_| self.services.contains_key(uid)) {
            Some(accepted) => drop(self.accepted.insert(uid.to_owned(), accepted)),
            None => drop(self.accepted.remove(uid)),
        }
    }

    /// EndpointSlices of the mirrors that the tenant's Service with this UID has or may have.
    #[must_use]
    pub fn slices_of(&self, uid: &str) -> Vec<Slice> {
        let ours = names::mirror(&self.settings.cluster_uid, uid);
        [ours, names::legacy_mirror(uid)]
            .iter()
            .filter_map(|name| self.slices.get(name))
            .flat_map(|slices| slices.values().cloned())
            .collect()
    }

    /// UIDs of the tenant's Services that are not there any more, and have left something.
    pub fn orphans(&self) -> impl Iterator<Item = &String> {
        let mirrors = self.mirrors.owners();
        let slices = self.slices.values().flat_map(BTreeMap::values);
        mirrors
            .chain(slices.filter_map(|slice| slice.of.as_ref()))
            .filter(|uid| !self.services.contains_key(*uid))
    }

    /// The machines that take traffic, each once, by machine.
    #[must_use]
    pub fn targets(&self) -> Arc<Vec<Target>> {
        let made = self.targets.get_or_init(|| {
            let proxies = self.proxies();
            let proxied =
                |node: &Arc<str>| proxies.as_ref().is_none_or(|ready| ready.contains(node));
            let target = |machine: &String| {
                let name = self.claims.node_of(machine)?;
                let (node, instance) = (self.nodes.get(name)?, self.located(machine)?);
                let zone = self.vms.get(machine).and_then(Vm::zone);
                Target::new(name, node, &instance, zone, proxied(name))
            };
            // There are as many instances as the platform made, but as many nodes as the tenant likes.
            Arc::new(self.instances.keys().filter_map(target).collect())
        });
        Arc::clone(made)
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

    /// The nodes on which a Service of the tenant cluster has endpoints.
    #[must_use]
    pub fn local_endpoints(&self, service: &Service) -> BTreeMap<Arc<str>, LocalEndpoints> {
        let mut local: BTreeMap<Arc<str>, LocalEndpoints> = BTreeMap::new();
        let slices = self.local.get(&place(service)).into_iter();
        for (node, endpoints) in slices.flat_map(BTreeMap::values).flatten() {
            local.entry(Arc::clone(node)).or_default().add(*endpoints);
        }
        local
    }

    /// Whether these complaints are news; what is said once is not said again while it lasts.
    pub fn are_news(&mut self, uid: &str, complaints: &[Notice]) -> bool {
        if complaints.is_empty() {
            self.published.remove(uid);
            return false;
        }
        let mut hasher = DefaultHasher::new();
        complaints.hash(&mut hasher);
        let hash = hasher.finish();
        self.published.insert(uid.to_owned(), hash) != Some(hash)
    }

    /// What was said of this Service reached nobody.
    pub fn was_not_told(&mut self, uid: &str) {
        self.published.remove(uid);
    }

    /// Numbers for people.
    #[must_use]
    pub fn counts(&self) -> serde_json::Value {
        serde_json::json!({
            "services": self.services.len(),
            "mirrors": self.mirrors.len(),
            "slices": self.slice_of.len(),
            "nodes": self.nodes.len(),
            "virtualMachines": self.vms.len(),
            "instances": self.instances.len(),
        })
    }
}
