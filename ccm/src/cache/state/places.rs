//! Places within the [`Limits`](crate::limits::Limits): who has one, and who waits for one.
//!
//! Invariant: a place is given before the mirror is written, and counts from then on; so Services that are
//! reconciled at the same time do not get the same one. What may have been written stays given until the API
//! was asked. However many Services wait, one that has no room left is told so without a look at any other.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;

use super::mirrors::ports;
use super::{Age, State};
use crate::cache::events::Change;
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer};
use crate::limits::{Asking, Capacity, Over};

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
        let made = self.mirrors.ports_of(uid);
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
        let over = self.over(uid);
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
        let mut free = Vec::new();
        if self.places.waiting.is_empty() {
            return free;
        }
        let (mut room, mut turns) = (self.room(), self.turns());
        while let Some(turn) = turns.next(&room) {
            let waits = self.places.waiting.contains(turn.uid);
            if room.give(&turn).is_none() && waits {
                free.push(turn.uid.to_owned());
            }
        }
        free
    }

    /// UIDs of the tenant's Services that have a load balancer, or may have one any moment.
    #[must_use]
    pub fn balanced(&self) -> BTreeSet<&String> {
        let given = self.places.given.keys();
        let doubted = self.places.doubted.iter();
        let own = self.mirrors.owners().chain(given).chain(doubted);
        let legacy = self
            .services
            .keys()
            .filter(|uid| self.mirrors.has_legacy() && self.mirrors.ports_of(uid).is_some());
        let all = own.chain(legacy);
        all.filter(|uid| self.services.contains_key(*uid)).collect()
    }

    /// Somebody needs less than before: whoever waits is to be looked at.
    pub(super) fn capacity(&self) -> Option<Change> {
        (!self.places.waiting.is_empty()).then_some(Change::Room)
    }

    /// A mirror has so many ports: that is what counts from now on.
    pub(super) fn occupy(&mut self, uid: &str, mirror: &Service) {
        let given = self.places.given.get(uid);
        if given.is_some_and(|given| *given <= ports(mirror)) {
            self.places.given.remove(uid);
        }
    }

    /// Takes in a Service of the tenant cluster. Also what changed by it: where it wants something else than
    /// before, others may have a place.
    pub(super) fn set_service(&mut self, uid: String, service: Arc<Service>) -> Option<Change> {
        let wants = self.wanted(&service);
        let age = age(&service);
        let known = self.services.insert(uid, service);
        let before = known.as_ref().and_then(|known| self.forget_wish(known));
        if let Some(ports) = wants {
            self.wanting.insert(age, ports);
        }
        self.capacity()
            .filter(|_| known.is_some() && before != wants)
    }

    /// Forgets what a Service wants; as many ports, if it wants any.
    pub(super) fn forget_wish(&mut self, service: &Service) -> Option<usize> {
        self.wanting.remove(&age(service))
    }

    /// How many ports of a Service are to be mapped; none where it wants no load balancer of ours.
    fn wanted(&self, service: &Service) -> Option<usize> {
        let ours = desired_load_balancer(service, &self.settings) == DesiredLoadBalancer::Ours;
        let spec = service.spec.as_ref().filter(|_| ours)?;
        let ports = spec.ports.iter().flatten();
        let ports = ports.filter(|port| port.node_port.is_some_and(|port| port > 0));
        Some(ports.count()).filter(|ports| *ports > 0)
    }

    /// How many ports a Service has, or was given.
    fn has(&self, uid: &str) -> Option<usize> {
        let given = self.places.given.get(uid).copied();
        self.mirrors.ports_of(uid).max(given)
    }

    /// What is not taken.
    fn room(&self) -> Capacity {
        let mut taken = self.mirrors.taken();
        for (uid, given) in &self.places.given {
            let made = self.mirrors.ports_of(uid);
            taken.services += usize::from(made.is_none());
            taken.ports += given.saturating_sub(made.unwrap_or_default());
        }
        Capacity::new(taken, self.settings.limits)
    }

    /// What a Service asks for that wants so many ports, if that is more than it has.
    fn asking<'a>(&self, (created, uid): &'a Age, wants: usize) -> Option<Asking<'a>> {
        let has = self.has(uid);
        has.is_none_or(|has| wants > has).then(|| Asking {
            created: *created,
            uid,
            new: has.is_none(),
            ports: wants.saturating_sub(has.unwrap_or_default()),
        })
    }

    /// All that ask for something, one after the other.
    fn turns(&self) -> Turns<'_, impl Iterator<Item = Asking<'_>>> {
        let known = self.balanced().into_iter();
        let known = known.filter_map(|uid| {
            let age = age(self.services.get(uid)?);
            let (age, wants) = self.wanting.get_key_value(&age)?;
            self.asking(age, *wants).filter(|asking| !asking.new)
        });
        let known: BTreeSet<_> = known.collect();
        let new = self.wanting.iter();
        let new = new.filter_map(|(age, wants)| self.asking(age, *wants));
        Turns {
            known: known.into_iter().peekable(),
            new: new.filter(|asking| asking.new).peekable(),
        }
    }

    /// Which limit the Service with this UID is over, when all that come before it are given what they ask for.
    fn over(&self, uid: &str) -> Option<Over> {
        let age = age(self.services.get(uid)?);
        let (age, wants) = self.wanting.get_key_value(&age)?;
        let asking = self.asking(age, *wants)?;
        let mut room = self.room();
        // Most are refused here, before anybody else is looked at.
        if let Some(over) = room.refuses(&asking) {
            return Some(over);
        }
        let mut turns = self.turns();
        while let Some(turn) = turns.next(&room) {
            if turn >= asking {
                break;
            }
            room.give(&turn);
            if let Some(over) = room.refuses(&asking) {
                return Some(over);
            }
        }
        None
    }
}

/// Who asks, the oldest first.
struct Turns<'a, N: Iterator<Item = Asking<'a>>> {
    /// Those that have something, and want more.
    known: Peekable<std::collections::btree_set::IntoIter<Asking<'a>>>,
    /// Those that have nothing: any number.
    new: Peekable<N>,
}

impl<'a, N: Iterator<Item = Asking<'a>>> Turns<'a, N> {
    /// The next one, without those that are new once there is no room for any.
    fn next(&mut self, room: &Capacity) -> Option<Asking<'a>> {
        if room.is_closed() {
            return self.known.next();
        }
        match (self.known.peek(), self.new.peek()) {
            (Some(known), Some(new)) if known < new => self.known.next(),
            (_, Some(_)) => self.new.next(),
            (_, None) => self.known.next(),
        }
    }
}

fn age(service: &Service) -> Age {
    let meta = &service.metadata;
    let created = meta.creation_timestamp.as_ref();
    let uid = meta.uid.clone().unwrap_or_default();
    (created.map(|created| created.0), uid)
}
