//! First looks of who begins to lead: tenant clusters that were at rest take turns.
//!
//! A first look reads some fifteen objects of the management API. A thousand of them at once take all of
//! the client's requests for more than a minute, and whatever happens meanwhile waits in between. So those
//! that were at rest are looked at one after the other; what is not at rest, and whatever changes, is
//! looked at now.
//!
//! Invariant: each gets its look, and none that is called waits for its turn. Pure; time comes from the
//! caller.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How fast first looks follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// So many are due at the beginning. Default: 32.
    pub at_once: u32,
    /// After that one each time that this is over. Default: 100 ms, which with the usual 200 requests a
    /// second leaves a quarter of them to others.
    pub period: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            at_once: 32,
            period: Duration::from_millis(100),
        }
    }
}

/// Who still waits for the first look, by object (`namespace/name`).
#[derive(Clone, Debug, Default)]
pub struct FirstLooks(HashMap<String, Instant>);

impl FirstLooks {
    /// These take turns, in this order.
    pub fn begin(&mut self, keys: impl IntoIterator<Item = String>, pace: Pace, now: Instant) {
        let turns = (0_u32..).map(|turn| pace.period * turn.saturating_sub(pace.at_once - 1));
        let keys = keys.into_iter().zip(turns);
        self.0 = keys.map(|(key, wait)| (key, now + wait)).collect();
    }

    /// How long until its turn; zero for who does not wait.
    #[must_use]
    pub fn wait(&self, key: &str, now: Instant) -> Duration {
        let due = self.0.get(key);
        due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now))
    }

    /// Waits no more: it is looked at, something happened to it, or it is gone.
    pub fn remove(&mut self, key: &str) {
        self.0.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        at_once: 2,
        period: Duration::from_secs(1),
    };

    #[test]
    fn some_are_due_at_once_and_the_rest_one_by_one() {
        let (mut looks, now) = (FirstLooks::default(), Instant::now());
        looks.begin(["a", "b", "c", "d"].map(str::to_owned), PACE, now);
        let seconds = |key| looks.wait(key, now).as_secs();
        assert_eq!(["a", "b", "c", "d", "e"].map(seconds), [0, 0, 1, 2, 0]);
        let later = now + Duration::from_secs(2);
        assert_eq!(looks.wait("d", later), Duration::ZERO);
    }

    #[test]
    fn who_is_called_waits_no_more() {
        let (mut looks, now) = (FirstLooks::default(), Instant::now());
        looks.begin(["a", "b", "c"].map(str::to_owned), PACE, now);
        looks.remove("c");
        assert_eq!(looks.wait("c", now), Duration::ZERO);
    }

    #[test]
    fn a_fleet_of_a_thousand_has_its_looks_in_less_than_two_minutes() {
        let (mut looks, now) = (FirstLooks::default(), Instant::now());
        let keys: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        looks.begin(keys.clone(), Pace::default(), now);
        let last = keys.iter().map(|key| looks.wait(key, now)).max();
        assert_eq!(last, Some(Duration::from_millis(96_800)));
    }
}
