//! Decides when a key may be worked on: not while it is in hand, and after failures not before its
//! wait is over. For who decides with the clock given, beside a queue that hands turns out.
//!
//! Invariant: pure; a key that succeeded, or is gone and not in hand, leaves nothing behind.

use std::collections::BTreeMap;

use kit_client::backoff::Backoff;
use tokio::time::Instant;

/// Whether a key may be worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It may.
    Ready,
    /// It failed, and waits until then.
    Waits(Instant),
    /// Somebody works on it.
    InHand,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    in_hand: bool,
    not_before: Option<Instant>,
    failures: u32,
}

/// What is in hand, and what waits after failures.
#[derive(Clone, Debug)]
pub struct Pace<K> {
    backoff: Backoff,
    entries: BTreeMap<K, Entry>,
}

impl<K: Ord + Clone> Pace<K> {
    /// Nothing is in hand and nothing failed; failures wait this long.
    #[must_use]
    pub const fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            entries: BTreeMap::new(),
        }
    }

    /// Whether a key may be worked on now.
    #[must_use]
    pub fn readiness(&self, key: &K, now: Instant) -> Readiness {
        match self.entries.get(key) {
            Some(entry) if entry.in_hand => Readiness::InHand,
            Some(entry) => match entry.not_before.filter(|at| *at > now) {
                Some(at) => Readiness::Waits(at),
                None => Readiness::Ready,
            },
            None => Readiness::Ready,
        }
    }

    /// Whether somebody works on it.
    #[must_use]
    pub fn is_in_hand(&self, key: &K) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.in_hand)
    }

    /// How often it failed in a row.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// It is in hand from now on, until it succeeds or fails.
    pub fn take(&mut self, key: K) {
        self.entries.entry(key).or_default().in_hand = true;
    }

    /// Given back, and it may be worked on at once.
    pub fn succeeded(&mut self, key: &K) {
        self.entries.remove(key);
    }

    /// Given back; it waits, longer with each failure in a row. `random` is uniform in `[0, 1)`.
    pub fn failed(&mut self, key: &K, now: Instant, random: f64) {
        let entry = self.entries.entry(key.clone()).or_default();
        let wait = self.backoff.next(entry.failures, random);
        *entry = Entry {
            in_hand: false,
            not_before: Some(now + wait),
            failures: entry.failures.saturating_add(1),
        };
    }

    /// Forgets every key that does not exist; what is in hand is forgotten once it is given back and
    /// this is called again.
    pub fn retain(&mut self, exists: impl Fn(&K) -> bool) {
        self.entries
            .retain(|key, entry| entry.in_hand || exists(key));
    }

    /// Keys in hand, or that failed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when nothing is in hand and nothing failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(3));

    #[test]
    fn a_key_waits_longer_with_each_failure_and_not_at_all_after_success() {
        let (mut pace, now) = (Pace::new(BACKOFF), Instant::now());
        for seconds in [1, 2, 3, 3] {
            pace.take("a");
            assert_eq!(pace.readiness(&"a", now), Readiness::InHand);
            pace.failed(&"a", now, 1.0);
            let due = now + Duration::from_secs(seconds);
            assert_eq!(pace.readiness(&"a", now), Readiness::Waits(due));
            assert_eq!(pace.readiness(&"a", due), Readiness::Ready);
            assert_eq!(pace.readiness(&"b", now), Readiness::Ready);
        }
        assert_eq!(pace.failures(&"a"), 4);
        pace.take("a");
        pace.succeeded(&"a");
        assert_eq!(pace.readiness(&"a", now), Readiness::Ready);
        assert!(pace.is_empty());
    }

    #[test]
    fn what_is_gone_is_forgotten_unless_it_is_in_hand() {
        let (mut pace, now) = (Pace::new(BACKOFF), Instant::now());
        pace.take("in hand");
        for key in ["gone", "there"] {
            pace.failed(&key, now, 0.5);
        }
        pace.retain(|key| *key == "there");
        assert_eq!(pace.len(), 2);
        assert!(pace.is_in_hand(&"in hand"));
        pace.failed(&"in hand", now, 0.5);
        pace.retain(|key| *key == "there");
        assert_eq!((pace.len(), pace.failures(&"there")), (1, 1));
    }
}
