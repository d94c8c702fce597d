//! How what a watch or an answer tells gets into the [`State`], and what changes by it.
//!
//! Invariant: an event that changes nothing that is remembered gives no change; what an API answered
//! to a write is believed until a watch tells something newer, and not at all once a watch has told of a
//! later time: an answer that was on its way while its object was deleted brings nothing back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::State;
use super::claims::claimed;
use super::mirrors::ports;
use crate::cache::endpoint_slices::{Slice, local_endpoints};
use crate::cache::events::{Change, Kind, WatchEvent, Write};
use crate::cache::objects::{Instance, Node, Remote, Vm, version};
use crate::cache::services::{
    Place, is_legacy, is_of_concern, is_older, mirrored, place, stripped,
};
use crate::names;
use crate::settings::MachineAddresses;

impl State {
    /// A watch begins to list anew.
    pub fn begin(&mut self, kind: Kind) {
        self.listing.insert(kind, Default::default());
        self.told.begin(kind);
    }

    /// A watch has listed everything: what it did not tell of is gone.
    #[must_use]
    pub fn end(&mut self, kind: Kind) -> Vec<Change> {
        let seen = self.listing.remove(&kind).unwrap_or_default();
        let mut changes = Vec::new();
        for key in self.keys(kind) {
            if !seen.contains(&key) {
                changes.extend(self.forget(kind, &key));
            }
        }
        self.told.end(kind);
        self.synced.insert(kind);
        changes
    }

    /// Something is there, or is otherwise than it was.
    #[must_use]
    pub fn put(&mut self, event: WatchEvent) -> Vec<Change> {
        if let Some(listing) = self.listing.get_mut(&event.kind()) {
            listing.insert(event.key());
        }
        self.told.note(event.kind(), version(event.meta()));
        match event {
            WatchEvent::Service(service) => self.put_service(Arc::new(stripped(service))),
            WatchEvent::Local(slice) => self.put_local(&slice),
            WatchEvent::Node(node) => self.put_node(Node::from(&*node)),
            WatchEvent::Vm(vm) => self.put_vm(Vm::from(&*vm)),
            WatchEvent::Addresses(addresses) => self.put_addresses(&addresses),
            WatchEvent::Instance(instance) => self.put_instance(Instance::from(&instance)),
            WatchEvent::Mirror(mirror) => self.put_mirror(Arc::new(stripped(mirror))),
            WatchEvent::Slice(slice) => self.put_slice(Slice::from(&slice)),
        }
    }

    /// Something is there and cannot be read: what was known of it holds.
    pub fn unreadable(&mut self, kind: Kind, meta: &ObjectMeta) {
        if let Some(listing) = self.listing.get_mut(&kind) {
            listing.insert(kind.key(meta));
        }
        self.told.note(kind, version(meta));
    }

    /// Something is gone.
    #[must_use]
    pub fn remove(&mut self, kind: Kind, meta: &ObjectMeta) -> Vec<Change> {
        self.told.note(kind, version(meta));
        self.forget(kind, &kind.key(meta))
    }

    /// A write was answered. Who wrote goes on with the answer by itself, so it tells only of what
    /// others changed meanwhile: the watch's event will then bring nothing new.
    #[must_use]
    pub fn observe_write(&mut self, write: Write) -> Vec<Change> {
        match write {
            Write::Service(service) => {
                let uid = service.metadata.uid.clone().unwrap_or_default();
                let old = self.services.get(&uid);
                if old.is_some_and(|old| is_older(old, &service)) {
                    return self.set_service(uid, service).into_iter().collect();
                }
                Vec::new()
            }
            Write::Node(node) => {
                let old = self.nodes.get(node.name.as_str());
                if old.is_some_and(|old| old.uid == node.uid && old.version() <= node.version()) {
                    return self.replace_node(*node).1;
                }
                Vec::new()
            }
            Write::Mirror(mirror) => {
                let version = version(&mirror.metadata);
                if self.told.knows_better(Kind::Mirror, version) {
                    return Vec::new();
                }
                let mut changes = self.put_mirror(mirror);
                let is_news =
                    |change: &Change| matches!(change, Change::Disowned(_) | Change::Room);
                changes.retain(is_news);
                changes
            }
            Write::MirrorGone(uid) => {
                self.forget_mirror(&uid);
                self.capacity().into_iter().collect()
            }
            Write::Slice(slice) => {
                if !self.told.knows_better(Kind::Slice, slice.version) {
                    drop(self.put_slice(slice));
                }
                Vec::new()
            }
            Write::SliceGone(name) => {
                self.take_slice(&name);
                Vec::new()
            }
        }
    }

    fn keys(&self, kind: Kind) -> Vec<String> {
        match kind {
            Kind::Service => self.services.keys().cloned().collect(),
            Kind::Local => self.local_of.keys().cloned().collect(),
            Kind::Node => self.nodes.keys().map(ToString::to_string).collect(),
            Kind::Vm => self.vms.keys().cloned().collect(),
            Kind::Instance => self.instances.keys().cloned().collect(),
            // What was published holds for the instances that it was published of.
            Kind::Addresses => Vec::new(),
            Kind::Mirror => self.mirrors.uids().collect(),
            Kind::Slice => self.slice_of.keys().cloned().collect(),
        }
    }

    fn forget(&mut self, kind: Kind, key: &str) -> Vec<Change> {
        match kind {
            Kind::Service => self.forget_service(key),
            Kind::Local => self.forget_local(key),
            Kind::Node => {
                let mut changes = self.exchange_node(key, None).1;
                changes.push(Change::Node(key.to_owned()));
                changes
            }
            Kind::Vm => {
                self.vms.remove(key);
                vec![Change::Machine(key.to_owned())]
            }
            Kind::Instance => {
                self.instances.remove(key);
                vec![Change::Machine(key.to_owned()), self.lose_target()]
            }
            Kind::Addresses => Vec::new(),
            Kind::Mirror => {
                let of = self.forget_mirror(key);
                of.map(Change::Mirror)
                    .into_iter()
                    .chain(self.capacity())
                    .collect()
            }
            Kind::Slice => {
                let slice = self.take_slice(key);
                let of = slice.and_then(|slice| self.mirrored_by(&slice));
                of.map(Change::Mirror).into_iter().collect()
            }
        }
    }

    fn put_service(&mut self, service: Arc<Service>) -> Vec<Change> {
        let uid = service.metadata.uid.clone().unwrap_or_default();
        if !is_of_concern(&service) {
            return self.forget_service(&uid);
        }
        let old = self.services.get(&uid);
        let version = &service.metadata.resource_version;
        let known = old.is_some_and(|old| old.metadata.resource_version == *version);
        if known || old.is_some_and(|old| !is_older(old, &service)) {
            return Vec::new();
        }
        self.uids.insert(place(&service), uid.clone());
        let room = self.set_service(uid.clone(), service);
        let all = std::iter::once(Change::Service(uid)).chain(room);
        all.collect()
    }

    fn forget_service(&mut self, uid: &str) -> Vec<Change> {
        let Some(gone) = self.services.remove(uid) else {
            return Vec::new();
        };
        // Another one of its name may be known already.
        let place = place(&gone);
        if self.uids.get(&place).is_some_and(|of| of == uid) {
            self.uids.remove(&place);
        }
        let wanted = self.forget_wish(&gone);
        let published = gone.metadata.uid.as_deref().unwrap_or_default();
        self.published.remove(published);
        self.accepted.remove(uid);
        // Its place is free once it was looked at: a mirror may have been made that no watch told of yet.
        self.places.waiting.remove(uid);
        let room = self.capacity().filter(|_| wanted.is_some());
        let all = std::iter::once(Change::Service(uid.to_owned())).chain(room);
        all.collect()
    }

    fn put_local(&mut self, slice: &EndpointSlice) -> Vec<Change> {
        let meta = &slice.metadata;
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let key = format!("{namespace}/{name}");
        let labels = meta.labels.as_ref();
        let Some(service) = labels.and_then(|l| l.get(names::LABEL_SLICE_OF)) else {
            return self.forget_local(&key);
        };
        let place = (namespace, service.clone());
        let nodes = local_endpoints(slice, |name| {
            let known = self.nodes.get_key_value(name).map(|(name, _)| name);
            known.map_or_else(|| name.into(), Arc::clone)
        });
        let nodes: Vec<_> = nodes.into_iter().collect();
        let mut changes = Vec::new();
        if self.local_of.get(&key).is_some_and(|of| *of != place) {
            changes.extend(self.forget_local(&key));
        }
        self.local_of.insert(key.clone(), place.clone());
        let slices = self.local.entry(place.clone()).or_default();
        if slices.insert(key, nodes.clone()).as_ref() != Some(&nodes) {
            changes.push(self.change_local(place));
        }
        changes
    }

    fn forget_local(&mut self, key: &str) -> Vec<Change> {
        let Some(place) = self.local_of.remove(key) else {
            return Vec::new();
        };
        if let Some(slices) = self.local.get_mut(&place) {
            slices.remove(key);
            if slices.is_empty() {
                self.local.remove(&place);
            }
        }
        vec![self.change_local(place)]
    }

    /// Where kube-proxies are changes where all traffic goes.
    fn change_local(&mut self, place: Place) -> Change {
        match (place.0.as_str(), place.1.as_str()) == names::KUBE_PROXY {
            true => self.change_targets(),
            false => Change::LocalEndpoints(place),
        }
    }

    /// Traffic goes elsewhere: what was made of nodes and instances is made again.
    fn change_targets(&mut self) -> Change {
        self.targets.take();
        Change::Targets
    }

    /// As that, and a machine is dead.
    fn lose_target(&mut self) -> Change {
        self.targets.take();
        Change::Lost
    }

    fn put_node(&mut self, node: Node) -> Vec<Change> {
        let (name, version) = (node.name.clone(), node.resource_version.clone());
        let (old, mut changes) = self.replace_node(node.clone());
        let old = old.map(|old| Node {
            resource_version: version,
            ..old
        });
        if old != Some(node) {
            changes.push(Change::Node(name));
        }
        changes
    }

    /// Takes it in, and tells where it changes where traffic goes. Gives what was known, too.
    fn replace_node(&mut self, node: Node) -> (Option<Node>, Vec<Change>) {
        let name = node.name.clone();
        self.exchange_node(&name, Some(node))
    }

    /// Puts another Node in the place of what is known of this name, or nothing.
    fn exchange_node(&mut self, name: &str, node: Option<Node>) -> (Option<Node>, Vec<Change>) {
        let machine = |node: Option<&Node>| node.and_then(claimed).map(ToOwned::to_owned);
        let machines = [machine(self.nodes.get(name)), machine(node.as_ref())];
        let traffic = |state: &Self| machines.each_ref().map(|of| state.traffic(of.as_deref()));
        let before = traffic(self);
        let (key, old) = self.nodes.remove_entry(name).unzip();
        if let Some(old) = &old {
            self.claims.remove(old);
        }
        if let Some(node) = node {
            self.claims.add(&node);
            self.nodes.insert(key.unwrap_or_else(|| name.into()), node);
        }
        let changes = match traffic(self) == before {
            true => Vec::new(),
            false => vec![self.change_targets()],
        };
        (old, changes)
    }

    fn put_vm(&mut self, vm: Vm) -> Vec<Change> {
        let name = vm.name.clone();
        let old = self.vms.insert(name.clone(), vm.clone());
        if old.as_ref() == Some(&vm) {
            return Vec::new();
        }
        let moved = old.as_ref().and_then(Vm::zone) != vm.zone();
        let mut changes = vec![Change::Machine(name)];
        if moved {
            changes.push(self.change_targets());
        }
        changes
    }

    fn put_addresses(&mut self, addresses: &api::MachineAddresses) -> Vec<Change> {
        let mut changes = self.put_remotes(addresses);
        changes.extend(self.put_published(addresses));
        changes
    }

    fn put_remotes(&mut self, addresses: &api::MachineAddresses) -> Vec<Change> {
        let machines = addresses.spec.machines.iter();
        let now = machines.map(|(name, machine)| (name.clone(), Remote::from(machine)));
        let now: BTreeMap<_, _> = now.collect();
        let before = std::mem::replace(&mut self.remotes, now);
        let names: BTreeSet<_> = before.keys().chain(self.remotes.keys()).collect();
        let changed = names.into_iter();
        let changed = changed.filter(|name| before.get(*name) != self.remotes.get(*name));
        changed.cloned().map(Change::Machine).collect()
    }

    fn put_published(&mut self, addresses: &api::MachineAddresses) -> Vec<Change> {
        let now = addresses.by_machine();
        let before = self.addresses.replace(now.clone()).unwrap_or_default();
        let machines: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let changed = machines.into_iter();
        let changed = changed.filter(|machine| before.get(*machine) != now.get(*machine));
        let changed: Vec<&String> = changed.collect();
        if changed.is_empty() {
            return Vec::new();
        }
        // Its instance is another one, and elsewhere.
        let is_lost = changed.iter().any(|machine| before.contains_key(*machine));
        let targets = match is_lost {
            true => self.lose_target(),
            false => self.change_targets(),
        };
        let changed = changed.into_iter().cloned().map(Change::Machine);
        changed.chain([targets]).collect()
    }

    fn put_instance(&mut self, instance: Instance) -> Vec<Change> {
        let name = instance.name.clone();
        let old = self.instances.insert(name.clone(), instance.clone());
        if old.as_ref() == Some(&instance) {
            return Vec::new();
        }
        // What a guest says of itself is in no hurry.
        let reported = self.settings.machine_addresses == MachineAddresses::Reported;
        let moved = |old: &Instance| {
            let mut addresses = old.addresses.iter();
            addresses.any(|address| !instance.addresses.contains(address))
        };
        let lost =
            old.is_some_and(|old| old.serves() && (!instance.serves() || reported && moved(&old)));
        let targets = match lost {
            true => self.lose_target(),
            false => self.change_targets(),
        };
        vec![Change::Machine(name), targets]
    }

    fn put_mirror(&mut self, mirror: Arc<Service>) -> Vec<Change> {
        let meta = &mirror.metadata;
        let (uid, name) = (
            meta.uid.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        );
        if let Some(of) = mirrored(&mirror, &self.settings) {
            self.mirrors.remove_legacy(&name);
            let old = self.mirrors.get(&uid);
            let same = old.is_some_and(|o| o.metadata.resource_version == meta.resource_version);
            if same || old.is_some_and(|old| !is_older(old, &mirror)) {
                return Vec::new();
            }
            let smaller = old.is_some_and(|old| ports(old) > ports(&mirror));
            self.occupy(&of, &mirror);
            self.mirrors.insert(&uid, &of, mirror);
            let room = self.capacity().filter(|_| smaller);
            return std::iter::once(Change::Mirror(of)).chain(room).collect();
        }
        let mut changes = Vec::new();
        // Its labels are not ours any more: somebody took them off.
        if let Some(of) = self.mirrors.remove(&uid) {
            changes.push(Change::Disowned(of));
        }
        if is_legacy(&mirror, &self.settings) {
            let labels = meta.labels.clone().unwrap_or_default();
            let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
            let place = (label(names::LEGACY_NAMESPACE), label(names::LEGACY_SERVICE));
            self.mirrors.insert_legacy(&name, mirror);
            changes.extend(self.uids.get(&place).cloned().map(Change::Mirror));
        }
        changes
    }

    /// Gives the UID of the Service that it was of.
    fn forget_mirror(&mut self, uid: &str) -> Option<String> {
        self.mirrors.forget_legacy(uid);
        let of = self.mirrors.remove(uid)?;
        self.places.given.remove(&of);
        Some(of)
    }

    fn put_slice(&mut self, slice: Slice) -> Vec<Change> {
        let of = self.slice_of.get(&slice.name);
        let old = of.and_then(|of| self.slices.get(of)?.get(&slice.name));
        if old.is_some_and(|old| old.uid == slice.uid && old.version >= slice.version) {
            return Vec::new();
        }
        let before = old.map(|old| (old.hash, old.deleting, old.service.clone()));
        let changed = before != Some((slice.hash, slice.deleting, slice.service.clone()));
        self.take_slice(&slice.name);
        let (name, service) = (slice.name.clone(), slice.service.clone());
        self.slice_of.insert(name.clone(), service.clone());
        let of = self.mirrored_by(&slice).filter(|_| changed);
        let mates: &mut BTreeMap<_, _> = self.slices.entry(service).or_default();
        mates.insert(name, slice);
        of.map(Change::Mirror).into_iter().collect()
    }

    fn take_slice(&mut self, name: &str) -> Option<Slice> {
        let of = self.slice_of.remove(name)?;
        let slices = self.slices.get_mut(&of)?;
        let slice = slices.remove(name);
        if slices.is_empty() {
            self.slices.remove(&of);
        }
        slice
    }

    /// UID of the tenant's Service whose mirror a slice belongs to: by its label if it is ours, else
    /// by the name of the mirror.
    fn mirrored_by(&self, slice: &Slice) -> Option<String> {
        let ours = slice.of.as_ref().filter(|_| slice.ours);
        let by_name = || self.mirrors.owner_of(&slice.service);
        ours.or_else(by_name).cloned()
    }
}
