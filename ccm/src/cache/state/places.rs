//! Places within the [`Limits`](crate::limits::Limits): who has one, and who waits for one.
//!
//! Invariant: a place is given before the mirror is written, and counts from then on; so Services that are
//! reconciled at the same time do not get the same one. What may have been written stays given until the API
//! was asked.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::Service;

use super::State;
use crate::cache::events::Change;
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer};
use crate::limits::{self, Asking, Over, Taken};
use crate::names;

impl State {
    /// Gives the tenant's Service with this UID the place that its load balancer needs, unless that is over a
    /// limit; then it waits for one. Also what changed by it: a place that it needs no more.
    ///
    /// Nothing may be under way for the Service.
    pub fn admit(&mut self, uid: &str) -> (Option<Over>, Option<Change>) {
        if self.is_doubted(uid) {
            return (None, None);
        }
        let service = self.services.get(uid);
        let wants = service.and_then(|service| self.wanted(service));
        let wants = wants.unwrap_or_default();
        let made = self.made(uid);
        let before = self.places.given.remove(uid);
        let given = before.map(|ports| ports.min(wants));
        let given = given.filter(|ports| *ports > made.unwrap_or_default());
        if let Some(ports) = given {
            self.places.given.insert(uid.to_owned(), ports);
        }
        self.places.waiting.remove(uid);
        let room = self.capacity().filter(|_| given != before);
        if wants == 0 || made.max(given).is_some_and(|has| wants <= has) {
            return (None, room);
        }
        let over = self.over().get(uid).copied();
        if over.is_none() {
            self.places.given.insert(uid.to_owned(), wants);
            return (None, room);
        }
        self.places.waiting.insert(uid.to_owned());
        // Nothing is written for it, so what it was given before others may have.
        match self.places.given.remove(uid) {
            Some(_) => (over, self.capacity()),
            None => (over, room),
        }
    }

    /// A mirror was written, and nobody answered: it may be there.
    pub fn doubt(&mut self, uid: &str) {
        self.places.doubted.insert(uid.to_owned());
    }

    /// Whether it is not known if the mirror of a Service was written.
    #[must_use]
    pub fn is_doubted(&self, uid: &str) -> bool {
        self.places.doubted.contains(uid)
    }

    /// The API was asked for the mirror of a Service, and what it answered is known.
    pub fn settle(&mut self, uid: &str) {
        self.places.doubted.remove(uid);
    }

    /// A mirror was refused: what was given for it others may have, until it is tried again. Also what changed by
    /// it.
    pub fn release(&mut self, uid: &str) -> Option<Change> {
        self.places.given.remove(uid)?;
        self.capacity()
    }

    /// UIDs of the tenant's Services that wait for a place, and may have one now.
    #[must_use]
    pub fn admissible(&self) -> Vec<String> {
        if self.places.waiting.is_empty() {
            return Vec::new();
        }
        let over = self.over();
        let waiting = self.places.waiting.iter();
        let free = waiting.filter(|uid| !over.contains_key(uid.as_str()));
        free.cloned().collect()
    }

    /// Somebody needs less than before: whoever waits is to be looked at.
    pub(super) fn capacity(&self) -> Option<Change> {
        (!self.places.waiting.is_empty()).then_some(Change::Room)
    }

    /// A mirror has so many ports: that is what counts from now on.
    pub(super) fn occupy(&mut self, uid: &str, mirror: &Service) {
        let given = self.places.given.get(uid);
        if given.is_some_and(|ports| *ports <= ports_of(mirror)) {
            self.places.given.remove(uid);
        }
    }

    /// How many ports of a Service are to be mapped; none where it wants no load balancer of ours.
    fn wanted(&self, service: &Service) -> Option<usize> {
        let ours = desired_load_balancer(service, &self.settings) == DesiredLoadBalancer::Ours;
        let spec = service.spec.as_ref().filter(|_| ours)?;
        let ports = spec.ports.iter().flatten();
        let ports = ports.filter(|port| port.node_port.is_some_and(|port| port > 0));
        Some(ports.count()).filter(|ports| *ports > 0)
    }

    /// How many ports the mirror of a Service has; none where there is none.
    fn made(&self, uid: &str) -> Option<usize> {
        let mirrors = self.mirrors_of(uid);
        mirrors.iter().map(|mirror| ports_of(mirror)).max()
    }

    /// Who is over a limit, of those that want more than they have.
    fn over(&self) -> BTreeMap<&str, Over> {
        let mut has: HashMap<&str, usize> = HashMap::new();
        let mut taken = Taken::default();
        let legacy = self.legacy.values();
        for mirror in self
            .mirrors
            .values()
            .map(|(_, mirror)| mirror)
            .chain(legacy)
        {
            taken.services += 1;
            taken.ports += ports_of(mirror);
        }
        for (of, mirror) in self.mirrors.values() {
            let most = has.entry(of).or_default();
            *most = ports_of(mirror).max(*most);
        }
        if !self.legacy.is_empty() {
            for uid in self.services.keys() {
                if let Some(mirror) = self.legacy.get(&names::legacy_mirror(uid)) {
                    let most = has.entry(uid).or_default();
                    *most = ports_of(mirror).max(*most);
                }
            }
        }
        for (uid, ports) in &self.places.given {
            let made = has.get(uid.as_str()).copied();
            taken.services += usize::from(made.is_none());
            taken.ports += ports.saturating_sub(made.unwrap_or_default());
            has.insert(uid, (*ports).max(made.unwrap_or_default()));
        }
        let asking = self.services.iter().filter_map(|(uid, service)| {
            let (wants, has) = (self.wanted(service)?, has.get(uid.as_str()).copied());
            let created = service.metadata.creation_timestamp.as_ref();
            has.is_none_or(|has| wants > has).then(|| Asking {
                created: created.map(|created| created.0),
                uid,
                new: has.is_none(),
                ports: wants - has.unwrap_or_default(),
            })
        });
        limits::over(taken, asking.collect(), &self.settings.limits)
    }
}

/// How many ports a mirror has.
fn ports_of(mirror: &Service) -> usize {
    let ports = mirror.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    ports.map_or(0, Vec::len)
}
