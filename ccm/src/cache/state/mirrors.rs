//! Mirrors in the cache: Services of the tenant namespace that are load balancers of the tenant's Services.
//!
//! Invariant: whose they are, how many there are and with how many ports together is known without looking at all
//! of them, so what asks for that for each of thousands of Services takes no longer the more there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use crate::limits::Taken;
use crate::names;

/// All of them.
#[derive(Default)]
pub(super) struct Mirrors {
    /// By UID: the UID of the tenant's Service, and the mirror.
    ours: BTreeMap<String, (String, Arc<Service>)>,
    /// By UID of the tenant's Service: UIDs of its mirrors.
    owned: BTreeMap<String, BTreeSet<String>>,
    /// By name: what the KubeVirt CCM made.
    legacy: BTreeMap<String, Arc<Service>>,
    ports: usize,
}

impl Mirrors {
    /// Those of the tenant's Service with this UID: one, as a rule.
    pub(super) fn of(&self, uid: &str) -> Vec<Arc<Service>> {
        let own = self.owned.get(uid).into_iter().flatten();
        let own = own.filter_map(|mirror| self.get(mirror));
        let mut mirrors: Vec<_> = own.map(Arc::clone).collect();
        let known = |mirror: &Arc<Service>| {
            let uid = &mirror.metadata.uid;
            mirrors.iter().any(|m| m.metadata.uid == *uid)
        };
        let adopted = self.legacy_of(uid).filter(|m| !known(m)).cloned();
        mirrors.extend(adopted);
        mirrors
    }

    /// The one with this UID, unless the KubeVirt CCM made it.
    pub(super) fn get(&self, mirror: &str) -> Option<&Arc<Service>> {
        self.ours.get(mirror).map(|(_, mirror)| mirror)
    }

    /// How many ports the largest one of a Service has; none where there is none.
    pub(super) fn ports_of(&self, uid: &str) -> Option<usize> {
        let own = self.owned.get(uid).into_iter().flatten();
        let own = own.filter_map(|mirror| self.get(mirror));
        own.chain(self.legacy_of(uid)).map(|m| ports(m)).max()
    }

    /// How much of the limits they take.
    pub(super) fn taken(&self) -> Taken {
        Taken {
            services: self.ours.len() + self.legacy.len(),
            ports: self.ports,
        }
    }

    /// UIDs of the tenant's Services that have one, without those that only the KubeVirt CCM gave one.
    pub(super) fn owners(&self) -> impl Iterator<Item = &String> {
        self.owned.keys()
    }

    /// Whether the KubeVirt CCM made some.
    pub(super) fn has_legacy(&self) -> bool {
        !self.legacy.is_empty()
    }

    /// Their UIDs.
    pub(super) fn uids(&self) -> impl Iterator<Item = String> {
        let legacy = self.legacy.values();
        let legacy = legacy.filter_map(|mirror| mirror.metadata.uid.clone());
        self.ours.keys().cloned().chain(legacy)
    }

    /// UID of the tenant's Service whose mirror has this name.
    pub(super) fn owner_of(&self, name: &str) -> Option<&String> {
        self.ours
            .values()
            .find_map(|(of, mirror)| (mirror.metadata.name.as_deref() == Some(name)).then_some(of))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ours.len()
    }

    /// Takes one in, as it is now.
    pub(super) fn insert(&mut self, mirror: &str, of: &str, service: Arc<Service>) {
        self.remove(mirror);
        self.ports += ports(&service);
        let own = self.owned.entry(of.to_owned()).or_default();
        own.insert(mirror.to_owned());
        let one = (of.to_owned(), service);
        self.ours.insert(mirror.to_owned(), one);
    }

    /// Takes one out; the UID of the tenant's Service that it was of.
    pub(super) fn remove(&mut self, mirror: &str) -> Option<String> {
        let (of, service) = self.ours.remove(mirror)?;
        self.ports -= ports(&service);
        if let Some(own) = self.owned.get_mut(&of) {
            own.remove(mirror);
            if own.is_empty() {
                self.owned.remove(&of);
            }
        }
        Some(of)
    }

    /// Takes one in that the KubeVirt CCM made.
    pub(super) fn insert_legacy(&mut self, name: &str, service: Arc<Service>) {
        self.remove_legacy(name);
        self.ports += ports(&service);
        self.legacy.insert(name.to_owned(), service);
    }

    /// Takes one out that the KubeVirt CCM made.
    pub(super) fn remove_legacy(&mut self, name: &str) {
        if let Some(service) = self.legacy.remove(name) {
            self.ports -= ports(&service);
        }
    }

    /// The same by its UID.
    pub(super) fn forget_legacy(&mut self, mirror: &str) {
        let mirror = Some(mirror);
        let mut all = self.legacy.iter();
        let found = all.find(|(_, m)| m.metadata.uid.as_deref() == mirror);
        if let Some(name) = found.map(|(name, _)| name.clone()) {
            self.remove_legacy(&name);
        }
    }

    fn legacy_of(&self, uid: &str) -> Option<&Arc<Service>> {
        // Names are digests; nobody makes them in vain.
        let is_there = self.has_legacy();
        is_there
            .then(|| self.legacy.get(&names::legacy_mirror(uid)))
            .flatten()
    }
}

/// How many ports a mirror has.
pub(super) fn ports(mirror: &Service) -> usize {
    let ports = mirror.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    ports.map_or(0, Vec::len)
}
