//! Decides how long to wait after the n-th failure in a row of one object.
//!
//! Invariant: the wait never exceeds the cap, and an object that succeeded or is gone leaves
//! nothing behind.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// No wait is shorter, so that a lucky draw does not spin.
const FLOOR: Duration = Duration::from_millis(10);

/// Exponential backoff with full jitter: uniform between zero and `base * 2^attempt`, at most
/// `cap`. Full jitter spreads a burst of failures best (AWS architecture blog, "Exponential
/// Backoff And Jitter").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Default for Backoff {
    /// 0.5 s doubling up to 60 s.
    fn default() -> Self {
        Self::new(Duration::from_millis(500), Duration::from_secs(60))
    }
}

impl Backoff {
    /// `base` bounds the first wait, `cap` every wait.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap }
    }

    /// The wait after failure number `attempt` (0 is the first). `random` is uniform in `[0, 1)`;
    /// what lies outside is clamped.
    pub fn next(&self, attempt: u32, random: f64) -> Duration {
        let random = if random.is_nan() {
            0.0
        } else {
            random.clamp(0.0, 1.0)
        };
        self.ceiling(attempt)
            .mul_f64(random)
            .max(FLOOR.min(self.cap))
    }

    /// The longest wait that [`Backoff::next`] can give for this attempt.
    pub fn ceiling(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.base.saturating_mul(factor).min(self.cap)
    }
}

/// Failures in a row per object. Cheap to share by reference; the lock is never held for long.
#[derive(Debug)]
pub struct Attempts<K> {
    backoff: Backoff,
    failures: Mutex<BTreeMap<K, u32>>,
}

impl<K: Ord + Clone> Attempts<K> {
    /// No failures yet.
    pub const fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            failures: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts one more failure of this object and says how long to wait before the next try.
    pub fn failed(&self, key: &K) -> Duration {
        self.failed_with(key, rand::random())
    }

    /// As [`Attempts::failed`], with the random number given.
    pub fn failed_with(&self, key: &K, random: f64) -> Duration {
        let mut failures = self.lock();
        let attempt = match failures.get_mut(key) {
            Some(count) => {
                *count = count.saturating_add(1);
                *count - 1
            }
            None => {
                failures.insert(key.clone(), 1);
                0
            }
        };
        self.backoff.next(attempt, random)
    }

    /// Forgets the failures of this object: it succeeded, or it is gone.
    pub fn reset(&self, key: &K) {
        self.lock().remove(key);
    }

    /// How often this object failed in a row.
    pub fn count(&self, key: &K) -> u32 {
        self.lock().get(key).copied().unwrap_or(0)
    }

    /// Forgets every object for which `exists` is false. Call it from the slow sweep, with the
    /// store's contents.
    pub fn retain(&self, exists: impl Fn(&K) -> bool) {
        self.lock().retain(|key, _| exists(key));
    }

    /// How many objects are failing now.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True when nothing is failing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, u32>> {
        // A poisoned map of counters is still a map of counters.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

    #[test]
    fn ceiling_doubles_until_the_cap() {
        let seconds = |attempt| BACKOFF.ceiling(attempt).as_secs();
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(seconds), [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_reset_object_starts_over_and_others_are_untouched() {
        let attempts = Attempts::new(BACKOFF);
        let waits: Vec<_> = (0..3)
            .map(|_| attempts.failed_with(&"a", 1.0).as_secs())
            .collect();
        assert_eq!(waits, [1, 2, 4]);
        attempts.failed_with(&"b", 1.0);
        attempts.reset(&"a");
        assert_eq!((attempts.count(&"a"), attempts.count(&"b")), (0, 1));
        assert_eq!(attempts.failed_with(&"a", 1.0).as_secs(), 1);
    }

    #[test]
    fn objects_that_are_gone_are_forgotten() {
        let attempts = Attempts::new(BACKOFF);
        for key in ["a", "b", "c"] {
            attempts.failed(&key);
        }
        attempts.retain(|key| *key == "b");
        assert_eq!((attempts.len(), attempts.count(&"b")), (1, 1));
    }

    proptest! {
        #[test]
        fn waits_stay_between_floor_and_ceiling(attempt: u32, random: f64) {
            let wait = BACKOFF.next(attempt, random);
            prop_assert!(wait >= FLOOR);
            prop_assert!(wait <= BACKOFF.ceiling(attempt));
        }
    }
}
