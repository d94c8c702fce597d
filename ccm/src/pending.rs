//! Pending: what is not as it is to be yet, and since when.
//!
//! What waits for its turn the queue knows; here is what had its turn and is not done: it failed and is tried again,
//! or the management cluster has not given an address yet.
//! Invariant: what a user asked for and an API refused for good is not pending, so nobody is called for it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit_client::errors::Class;
use tokio::time::Instant;

use crate::cache::triggers::Key;

/// Since when.
#[derive(Debug, Default)]
struct Since {
    /// What was due before was another replica's.
    led: Option<Instant>,
    undone: BTreeMap<Key, Instant>,
    /// By UID of the Service.
    without_address: BTreeMap<String, Instant>,
}

/// Shared by all reconciles and the metrics.
#[derive(Debug, Default)]
pub struct Pending {
    since: Mutex<Since>,
}

/// The longest that something has been pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oldest {
    /// A node that was not brought to what it is to be.
    pub node: Duration,
    /// A Service, in the same way.
    pub service: Duration,
    /// A load balancer that was made and has no address.
    pub address: Duration,
}

impl Since {
    fn ours(&self, since: Instant) -> Instant {
        self.led.map_or(since, |led| since.max(led))
    }
}

impl Pending {
    /// This replica leads from now on.
    pub fn lead(&self, now: Instant) {
        self.lock().led = Some(now);
    }

    /// It is this one's turn, which it has waited for since then.
    pub fn begin(&self, key: &Key, since: Instant) {
        let mut all = self.lock();
        let since = all.ours(since);
        all.undone.entry(key.clone()).or_insert(since);
    }

    /// Its reconcile ended well, or with an error of this class.
    pub fn end(&self, key: &Key, error: Option<Class>) {
        match error {
            Some(Class::Transient | Class::Conflict | Class::Bug) => {}
            Some(Class::Invalid) | None => drop(self.lock().undone.remove(key)),
        }
    }

    /// Whether the load balancer of this Service waits for an address.
    pub fn without_address(&self, uid: &str, waits: bool, now: Instant) {
        let all = &mut self.lock().without_address;
        match waits {
            true => drop(all.entry(uid.to_owned()).or_insert(now)),
            false => drop(all.remove(uid)),
        }
    }

    /// The longest, with those that are due by now and wait for their turn.
    #[must_use]
    pub fn oldest<'a>(
        &self,
        due: impl Iterator<Item = &'a (Key, Instant)>,
        now: Instant,
    ) -> Oldest {
        let all = self.lock();
        let mut oldest = Oldest::default();
        let undone = all.undone.iter();
        for (key, since) in undone.chain(due.map(|(key, since)| (key, since))) {
            let age = now.saturating_duration_since(all.ours(*since));
            match key {
                Key::Node(_) => oldest.node = oldest.node.max(age),
                Key::Service(_) => oldest.service = oldest.service.max(age),
                // It only queues others.
                Key::LoadBalancers => {}
            }
        }
        let first = all.without_address.values().min();
        let age = first.map(|since| now.saturating_duration_since(*since));
        oldest.address = age.unwrap_or_default();
        oldest
    }

    fn lock(&self) -> MutexGuard<'_, Since> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(uid: &str) -> Key {
        Key::Service(uid.to_owned())
    }

    fn seconds(pending: &Pending, due: &[(Key, Instant)], now: Instant) -> [u64; 3] {
        let oldest = pending.oldest(due.iter(), now);
        [oldest.node, oldest.service, oldest.address].map(|age| age.as_secs())
    }

    #[test]
    fn what_fails_is_pending_from_its_first_turn_until_it_is_done() {
        let (pending, begin) = (Pending::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        pending.begin(&service("a"), begin);
        pending.end(&service("a"), Some(Class::Transient));
        pending.begin(&service("a"), at(30));
        pending.end(&service("a"), Some(Class::Conflict));
        assert_eq!(seconds(&pending, &[], at(60)), [0, 60, 0]);
        pending.begin(&service("a"), at(60));
        assert_eq!(seconds(&pending, &[], at(70)), [0, 70, 0], "in hand");
        pending.end(&service("a"), None);
        assert_eq!(seconds(&pending, &[], at(80)), [0; 3]);
    }

    #[test]
    fn what_was_due_while_another_replica_led_counts_from_the_take_over() {
        let (pending, begin) = (Pending::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        pending.lead(at(100));
        pending.begin(&service("a"), begin);
        pending.end(&service("a"), Some(Class::Transient));
        let due = [(Key::Node("n".to_owned()), at(20))];
        assert_eq!(seconds(&pending, &due, at(103)), [3, 3, 0]);
    }

    #[test]
    fn what_is_refused_for_good_is_not_pending() {
        let (pending, begin) = (Pending::default(), Instant::now());
        pending.begin(&service("a"), begin);
        pending.end(&service("a"), Some(Class::Invalid));
        assert_eq!(
            seconds(&pending, &[], begin + Duration::from_secs(9)),
            [0; 3]
        );
    }

    #[test]
    fn who_waits_for_a_turn_or_an_address_counts_from_the_first_moment() {
        let (pending, begin) = (Pending::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        pending.without_address("a", true, begin);
        pending.without_address("a", true, at(5));
        pending.without_address("b", true, at(7));
        let due = [
            (Key::Node("n".to_owned()), at(2)),
            (service("c"), at(4)),
            (Key::LoadBalancers, begin),
        ];
        assert_eq!(seconds(&pending, &due, at(10)), [8, 6, 10]);
        pending.without_address("a", false, at(10));
        assert_eq!(seconds(&pending, &[], at(10)), [0, 0, 3]);
    }
}
