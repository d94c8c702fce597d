//! How what a watch tells gets into the [`World`], and whom it wakes.
//!
//! Invariant: an event that changes nothing that is remembered wakes nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::core::v1::{Node as ApiNode, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Inner, Kind, Nodes, World, is_older, place};
use crate::model::{Instance, Node, Vm};
use crate::names;
use crate::queue::{Key, Queue};
use crate::service::plan::{Presence, Slice};
use crate::settings::Settings;

/// An object that a watch told of.
pub enum Seen {
    /// Of the tenant cluster.
    Service(Service),
    /// Of the tenant cluster.
    Local(EndpointSlice),
    /// Of the tenant cluster.
    Node(Box<ApiNode>),
    /// Of the tenant namespace.
    Vm(VirtualMachine),
    /// Of the tenant namespace.
    Instance(VirtualMachineInstance),
    /// Of the tenant namespace.
    Mirror(Service),
    /// Of the tenant namespace.
    Slice(EndpointSlice),
}

impl Seen {
    fn kind(&self) -> Kind {
        match self {
            Self::Service(_) => Kind::Service,
            Self::Local(_) => Kind::Local,
            Self::Node(_) => Kind::Node,
            Self::Vm(_) => Kind::Vm,
            Self::Instance(_) => Kind::Instance,
            Self::Mirror(_) => Kind::Mirror,
            Self::Slice(_) => Kind::Slice,
        }
    }

    fn meta(&self) -> &ObjectMeta {
        match self {
            Self::Service(o) | Self::Mirror(o) => &o.metadata,
            Self::Local(o) | Self::Slice(o) => &o.metadata,
            Self::Node(o) => &o.metadata,
            Self::Vm(o) => &o.metadata,
            Self::Instance(o) => &o.metadata,
        }
    }

    /// What it is remembered by.
    fn key(&self) -> String {
        let meta = self.meta();
        let name = meta.name.clone().unwrap_or_default();
        match self {
            Self::Service(_) | Self::Mirror(_) => meta.uid.clone().unwrap_or_default(),
            Self::Local(_) => format!("{}/{name}", meta.namespace.as_deref().unwrap_or_default()),
            _ => name,
        }
    }
}

impl World {
    /// A watch begins to list anew.
    pub fn begin(&self, kind: Kind) {
        self.lock().listing.insert(kind, Default::default());
    }

    /// A watch has listed everything: what it did not tell of is gone.
    pub fn end(&self, kind: Kind) {
        let mut inner = self.lock();
        let seen = inner.listing.remove(&kind).unwrap_or_default();
        for key in inner.keys(kind) {
            if !seen.contains(&key) {
                self.forget(&mut inner, kind, &key);
            }
        }
        inner.synced.insert(kind);
        drop(inner);
        self.listed.notify_waiters();
    }

    /// Something is there, or changed.
    pub fn apply(&self, seen: Seen) {
        let mut inner = self.lock();
        if let Some(listing) = inner.listing.get_mut(&seen.kind()) {
            listing.insert(seen.key());
        }
        let (queue, settings) = (&self.queue, self.settings.as_ref());
        match seen {
            Seen::Service(service) => inner.service(queue, Arc::new(stripped(service))),
            Seen::Local(slice) => inner.local_slice(queue, settings, &slice),
            Seen::Node(node) => inner.node(queue, settings, Node::from(&*node)),
            Seen::Vm(vm) => {
                let vm = Vm::from(&vm);
                let name = vm.name.clone();
                if inner.vms.insert(name.clone(), vm.clone()).as_ref() != Some(&vm) {
                    inner.queue_machine(queue, &name, settings, false);
                }
            }
            Seen::Instance(instance) => inner.instance(queue, settings, Instance::from(&instance)),
            Seen::Mirror(mirror) => self.mirror(&mut inner, Arc::new(stripped(mirror)), true),
            Seen::Slice(slice) => self.slice(&mut inner, Slice::from(&slice), true),
        }
    }

    /// Something is gone.
    pub fn delete(&self, seen: &Seen) {
        self.forget(&mut self.lock(), seen.kind(), &seen.key());
    }

    fn forget(&self, inner: &mut Inner, kind: Kind, key: &str) {
        let (queue, settings) = (&self.queue, self.settings.as_ref());
        match kind {
            Kind::Service => inner.no_service(queue, key),
            Kind::Local => inner.no_local_slice(queue, settings, key),
            Kind::Node => {
                inner.nodes.remove(key);
                inner.queue_machine(queue, "", settings, true);
                queue.add(Key::Node(key.to_owned()));
            }
            Kind::Vm => {
                inner.vms.remove(key);
                inner.queue_machine(queue, key, settings, false);
            }
            Kind::Instance => {
                inner.instances.remove(key);
                inner.queue_machine(queue, key, settings, true);
            }
            Kind::Mirror => {
                if let Some((uid, _)) = inner.mirrors.remove(key) {
                    queue.add(Key::Service(uid));
                }
                let uid = Some(key);
                inner.legacy.retain(|_, m| m.metadata.uid.as_deref() != uid);
            }
            Kind::Slice => {
                if let Some(slice) = inner.no_slice(key) {
                    self.wake_slice(inner, &slice);
                }
            }
        }
    }

    /// A write to a Service of the tenant cluster was answered.
    pub fn learn_service(&self, service: &Arc<Service>) {
        let mut inner = self.lock();
        let uid = service.metadata.uid.clone().unwrap_or_default();
        if inner
            .services
            .get(&uid)
            .is_some_and(|old| is_older(old, service))
        {
            inner.services.insert(uid, Arc::clone(service));
        }
    }

    /// A write to a node was answered. The answer may be the first to tell of what others changed, that
    /// the node is ready above all: the watch's event will then bring nothing new.
    pub fn learn_node(&self, node: &Node) {
        let mut inner = self.lock();
        let old = inner.nodes.get(node.name.as_str());
        if old.is_some_and(|old| old.uid == node.uid && old.version() <= node.version()) {
            inner.put_node(&self.queue, &self.settings, node.clone());
        }
    }

    /// A write to a mirror was answered.
    pub fn learn_mirror(&self, mirror: &Arc<Service>) {
        self.mirror(&mut self.lock(), Arc::clone(mirror), false);
    }

    /// A mirror is gone for certain.
    pub fn lose_mirror(&self, uid: &str) {
        let mut inner = self.lock();
        inner.mirrors.remove(uid);
        let uid = Some(uid);
        inner.legacy.retain(|_, m| m.metadata.uid.as_deref() != uid);
    }

    /// A write to an EndpointSlice was answered.
    pub fn learn_slice(&self, slice: &Slice) {
        self.slice(&mut self.lock(), slice.clone(), false);
    }

    /// An EndpointSlice is gone for certain.
    pub fn lose_slice(&self, name: &str) {
        self.lock().no_slice(name);
    }

    fn mirror(&self, inner: &mut Inner, mirror: Arc<Service>, wake: bool) {
        let meta = &mirror.metadata;
        let (uid, name) = (
            meta.uid.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        );
        if let Some(of) = self.mirrored(&mirror) {
            inner.legacy.remove(&name);
            let old = inner.mirrors.get(&uid).map(|(_, old)| old);
            let same = old.is_some_and(|o| o.metadata.resource_version == meta.resource_version);
            if same || old.is_some_and(|old| !is_older(old, &mirror)) {
                return;
            }
            inner.mirrors.insert(uid, (of.clone(), mirror));
            if wake {
                self.queue.add(Key::Service(of));
            }
            return;
        }
        // Its labels are not ours any more: somebody took them off.
        if let Some((of, _)) = inner.mirrors.remove(&uid) {
            self.queue.add(Key::Service(of));
        }
        if self.is_legacy(&mirror) {
            let labels = meta.labels.clone().unwrap_or_default();
            let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
            let place = (label(names::LEGACY_NAMESPACE), label(names::LEGACY_SERVICE));
            inner.legacy.insert(name, mirror);
            if let Some(of) = inner.uids.get(&place).filter(|_| wake) {
                self.queue.add(Key::Service(of.clone()));
            }
        }
    }

    fn slice(&self, inner: &mut Inner, slice: Slice, wake: bool) {
        let of = inner.slice_of.get(&slice.name);
        let old = of.and_then(|of| inner.slices.get(of)?.get(&slice.name));
        if old.is_some_and(|old| old.uid == slice.uid && old.version >= slice.version) {
            return;
        }
        let before = old.map(|old| (old.hash, old.deleting, old.service.clone()));
        let changed = before != Some((slice.hash, slice.deleting, slice.service.clone()));
        inner.no_slice(&slice.name);
        inner
            .slice_of
            .insert(slice.name.clone(), slice.service.clone());
        let name = slice.name.clone();
        let mates = inner.slices.entry(slice.service.clone()).or_default();
        mates.insert(name, slice.clone());
        if wake && changed {
            self.wake_slice(inner, &slice);
        }
    }

    fn wake_slice(&self, inner: &Inner, slice: &Slice) {
        let by_name = inner.mirrors.values().find_map(|(uid, mirror)| {
            (mirror.metadata.name.as_ref() == Some(&slice.service)).then_some(uid)
        });
        if let Some(uid) = slice.of.as_ref().filter(|_| slice.ours).or(by_name) {
            self.queue.add(Key::Service(uid.clone()));
        }
    }
}

impl Inner {
    fn keys(&self, kind: Kind) -> Vec<String> {
        match kind {
            Kind::Service => self.services.keys().cloned().collect(),
            Kind::Local => self.local_of.keys().cloned().collect(),
            Kind::Node => self.nodes.keys().map(ToString::to_string).collect(),
            Kind::Vm => self.vms.keys().cloned().collect(),
            Kind::Instance => self.instances.keys().cloned().collect(),
            Kind::Mirror => {
                let legacy = self.legacy.values().filter_map(|m| m.metadata.uid.clone());
                self.mirrors.keys().cloned().chain(legacy).collect()
            }
            Kind::Slice => self.slice_of.keys().cloned().collect(),
        }
    }

    fn service(&mut self, queue: &Queue, service: Arc<Service>) {
        let uid = service.metadata.uid.clone().unwrap_or_default();
        if !concerns(&service) {
            self.no_service(queue, &uid);
            return;
        }
        let old = self.services.get(&uid);
        let version = &service.metadata.resource_version;
        let known = old.is_some_and(|old| old.metadata.resource_version == *version);
        if known || old.is_some_and(|old| !is_older(old, &service)) {
            return;
        }
        self.uids.insert(place(&service), uid.clone());
        self.services.insert(uid.clone(), service);
        queue.add(Key::Service(uid));
    }

    fn no_service(&mut self, queue: &Queue, uid: &str) {
        if let Some(gone) = self.services.remove(uid) {
            self.uids.retain(|_, of| of != uid);
            self.told
                .remove(gone.metadata.uid.as_deref().unwrap_or_default());
            queue.add(Key::Service(uid.to_owned()));
        }
    }

    fn local_slice(&mut self, queue: &Queue, settings: &Settings, slice: &EndpointSlice) {
        let meta = &slice.metadata;
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let key = format!("{namespace}/{name}");
        let labels = meta.labels.as_ref();
        let Some(service) = labels.and_then(|l| l.get(names::LABEL_SLICE_OF)) else {
            self.no_local_slice(queue, settings, &key);
            return;
        };
        let place = (namespace, service.clone());
        let nodes = self.nodes_of(slice);
        if self.local_of.get(&key).is_some_and(|of| *of != place) {
            self.no_local_slice(queue, settings, &key);
        }
        self.local_of.insert(key.clone(), place.clone());
        let slices = self.local.entry(place.clone()).or_default();
        if slices.insert(key, nodes.clone()).as_ref() != Some(&nodes) {
            self.queue_local(queue, settings, &place);
        }
    }

    fn no_local_slice(&mut self, queue: &Queue, settings: &Settings, key: &str) {
        let Some(place) = self.local_of.remove(key) else {
            return;
        };
        if let Some(slices) = self.local.get_mut(&place) {
            slices.remove(key);
            if slices.is_empty() {
                self.local.remove(&place);
            }
        }
        self.queue_local(queue, settings, &place);
    }

    /// Only Services that keep traffic on the node care where their endpoints are; all do where
    /// kube-proxies are.
    fn queue_local(&mut self, queue: &Queue, settings: &Settings, place: &(String, String)) {
        if (place.0.as_str(), place.1.as_str()) == names::KUBE_PROXY {
            self.queue_traffic(queue, settings);
            return;
        }
        let uid = self.uids.get(place);
        let service = uid.and_then(|uid| self.services.get(uid));
        let policy = service.and_then(|s| s.spec.as_ref()?.external_traffic_policy.as_deref());
        if let Some(uid) = uid.filter(|_| policy == Some("Local")) {
            queue.add(Key::Service(uid.clone()));
        }
    }

    /// The nodes of a slice, each once.
    fn nodes_of(&self, slice: &EndpointSlice) -> Nodes {
        let mut nodes: BTreeMap<Arc<str>, Presence> = BTreeMap::new();
        for endpoint in &slice.endpoints {
            let Some(name) = endpoint.node_name.as_deref() else {
                continue;
            };
            let known = self.nodes.get_key_value(name).map(|(name, _)| name);
            let name = known.map_or_else(|| name.into(), Arc::clone);
            let conditions = endpoint.conditions.as_ref();
            // What is not said is true, but for `serving`, which is then as `ready` is (KEP-1672).
            let ready = conditions.and_then(|c| c.ready).unwrap_or(true);
            let serving = conditions.and_then(|c| c.serving).unwrap_or(ready);
            let all = nodes.entry(name).or_default();
            all.ready |= ready;
            all.serving |= serving;
        }
        nodes.into_iter().collect()
    }

    fn node(&mut self, queue: &Queue, settings: &Settings, node: Node) {
        let (name, version) = (node.name.clone(), node.resource_version.clone());
        let old = self.put_node(queue, settings, node.clone());
        let old = old.map(|old| Node {
            resource_version: version,
            ..old
        });
        if old != Some(node) {
            queue.add(Key::Node(name));
        }
    }

    /// Takes it in, and wakes Services where it changes where traffic goes. Gives what was known.
    fn put_node(&mut self, queue: &Queue, settings: &Settings, node: Node) -> Option<Node> {
        let traffic = |node: &Node| {
            (
                node.takes_traffic(),
                node.ready,
                node.machine().map(ToOwned::to_owned),
            )
        };
        let now = traffic(&node);
        let old = self.nodes.insert(node.name.as_str().into(), node);
        if old.as_ref().map(traffic) != Some(now) {
            self.queue_traffic(queue, settings);
        }
        old
    }

    fn instance(&mut self, queue: &Queue, settings: &Settings, instance: Instance) {
        let name = instance.name.clone();
        let old = self.instances.insert(name.clone(), instance.clone());
        if old.as_ref() != Some(&instance) {
            self.queue_machine(queue, &name, settings, true);
        }
    }

    fn no_slice(&mut self, name: &str) -> Option<Slice> {
        let of = self.slice_of.remove(name)?;
        let slices = self.slices.get_mut(&of)?;
        let slice = slices.remove(name);
        if slices.is_empty() {
            self.slices.remove(&of);
        }
        slice
    }
}

/// Whether a Service has, wants or may have a load balancer.
fn concerns(service: &Service) -> bool {
    let balanced = service.spec.as_ref().and_then(|s| s.type_.as_deref()) == Some("LoadBalancer");
    let finalizers = service.metadata.finalizers.iter().flatten();
    balanced || finalizers.into_iter().any(|f| f == names::FINALIZER)
}

/// Without what is never looked at, which is a good part of it.
fn stripped(mut service: Service) -> Service {
    service.metadata.managed_fields = None;
    if let Some(annotations) = &mut service.metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    service
}
