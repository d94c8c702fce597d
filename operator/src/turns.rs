//! Looks that nobody waits for take turns: the first ones of who begins to lead, at tenant clusters that were at
//! rest, and those at tenant clusters of which it has just been heard that they do not answer.
//!
//! A look reads some fifteen objects of the management API. A thousand of them at once take all of the client's
//! requests for more than a minute, and whatever happens meanwhile waits in between. So these are looked at
//! one after the other; what is not at rest, and whatever changes, is looked at now.
//!
//! While the client is behind its rate nobody's turn comes: whatever is looked at then has to wait behind all that
//! was begun before, and so has what somebody waits for.
//!
//! Invariant: each gets its look, [`MOST`] after its turn at the latest, and none that is called waits for its turn.
//! Pure; time comes from the caller.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// How fast looks follow each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pace {
    /// So many are due at the beginning, and after a while without any. Default: 32.
    pub at_once: u32,
    /// After that one each time that this is over. Default: 100 ms, which with the usual 200 requests a
    /// second leaves a quarter of them to others.
    pub period: Duration,
}

impl Pace {
    /// Of looks at those that fell silent: half as fast, because a hundred may do so at once while somebody makes
    /// another one. One alone is due at once.
    pub const SILENT: Self = Self {
        at_once: 8,
        period: Duration::from_millis(200),
    };
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            at_once: 32,
            period: Duration::from_millis(100),
        }
    }
}

/// For how long after its first turn one may be passed over.
pub const MOST: Duration = Duration::from_secs(120);

/// When one is looked at.
#[derive(Clone, Copy, Debug)]
struct Turn {
    due: Instant,
    /// Its first turn.
    first: Instant,
}

impl Turn {
    fn at(due: Instant) -> Self {
        Self { due, first: due }
    }
}

/// Who still waits for a look, by object (`namespace/name`).
#[derive(Clone, Debug, Default)]
pub struct Turns {
    due: HashMap<String, Turn>,
    /// When the next one of those that join would be due that had come at their pace, and not earlier.
    next: Option<Instant>,
}

impl Turns {
    /// These take turns, in this order.
    pub fn begin(&mut self, keys: impl IntoIterator<Item = String>, pace: Pace, now: Instant) {
        let turns = (0_u32..).map(|turn| pace.period * turn.saturating_sub(pace.at_once - 1));
        let keys = keys.into_iter().zip(turns);
        let due = keys.map(|(key, wait)| (key, Turn::at(now + wait)));
        self.due = due.collect();
    }

    /// One more takes a turn, after those that joined before; who waits already keeps its own.
    pub fn join(&mut self, key: &str, pace: Pace, now: Instant) {
        if self.due.contains_key(key) {
            return;
        }
        let next = self.next.filter(|next| *next > now).unwrap_or(now);
        let early = pace.period * pace.at_once.saturating_sub(1);
        let due = next.checked_sub(early).map_or(now, |due| due.max(now));
        self.due.insert(key.to_owned(), Turn::at(due));
        // Of those that waited no more nobody keeps a place.
        let most = u32::try_from(self.due.len()).unwrap_or(u32::MAX);
        let most = pace
            .period
            .saturating_mul(most.saturating_add(pace.at_once));
        self.next = Some((next + pace.period).min(now + most));
    }

    /// How long until its turn; zero for who does not wait.
    #[must_use]
    pub fn wait(&self, key: &str, now: Instant) -> Duration {
        let due = self.due.get(key);
        due.map_or(Duration::ZERO, |turn| {
            turn.due.saturating_duration_since(now)
        })
    }

    /// Who may be looked at now is passed over, because the client is so far behind: how long until its next turn, after
    /// those of all that joined or were passed over before. Zero for who is passed over for too long, or takes no turns.
    pub fn pass_over(&mut self, key: &str, behind: Duration, pace: Pace, now: Instant) -> Duration {
        let earliest = now + behind;
        let next = self.next.map_or(earliest, |next| next.max(earliest));
        let turn = self.due.get_mut(key).filter(|t| now < t.first + MOST);
        let Some(turn) = turn.filter(|_| !behind.is_zero()) else {
            return Duration::ZERO;
        };
        turn.due = next.min(turn.first + MOST);
        self.next = Some(next + pace.period);
        turn.due.saturating_duration_since(now)
    }

    /// Waits no more: it is looked at, something happened to it, or it is gone.
    pub fn remove(&mut self, key: &str) {
        self.due.remove(key);
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
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.begin(["a", "b", "c", "d"].map(str::to_owned), PACE, now);
        let seconds = |key| turns.wait(key, now).as_secs();
        assert_eq!(["a", "b", "c", "d", "e"].map(seconds), [0, 0, 1, 2, 0]);
        let later = now + Duration::from_secs(2);
        assert_eq!(turns.wait("d", later), Duration::ZERO);
    }

    #[test]
    fn who_is_called_waits_no_more() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.begin(["a", "b", "c"].map(str::to_owned), PACE, now);
        turns.remove("c");
        assert_eq!(turns.wait("c", now), Duration::ZERO);
    }

    #[test]
    fn a_fleet_of_a_thousand_has_its_looks_in_less_than_two_minutes() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        let keys: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
        turns.begin(keys.clone(), Pace::default(), now);
        let last = keys.iter().map(|key| turns.wait(key, now)).max();
        assert_eq!(last, Some(Duration::from_millis(96_800)));
    }

    #[test]
    fn nobodys_turn_comes_while_the_client_is_behind_and_none_is_passed_over_for_ever() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.begin(["a", "b"].map(str::to_owned), PACE, now);
        let behind = Duration::from_secs(3);
        let seconds = ["a", "b", "called"].map(|key| turns.pass_over(key, behind, PACE, now));
        assert_eq!(seconds.map(|wait| wait.as_secs()), [3, 4, 0]);
        assert_eq!(turns.wait("b", now).as_secs(), 4);
        let later = now + Duration::from_secs(3);
        let caught_up = turns.pass_over("a", Duration::ZERO, PACE, later);
        assert_eq!(caught_up, Duration::ZERO);
        let later = now + MOST - Duration::from_secs(1);
        let end = turns.pass_over("b", behind, PACE, later);
        assert_eq!(end, Duration::from_secs(1), "then at the latest");
        let end = turns.pass_over("b", behind, PACE, now + MOST);
        assert_eq!(end, Duration::ZERO);
    }

    #[test]
    fn who_joins_alone_is_due_at_once_and_of_many_each_after_the_other() {
        let (mut turns, now) = (Turns::default(), Instant::now());
        turns.join("alone", PACE, now);
        assert_eq!(turns.wait("alone", now), Duration::ZERO);
        let later = now + Duration::from_secs(60);
        for key in ["a", "b", "c", "d", "c"] {
            turns.join(key, PACE, later);
        }
        let seconds = |key| turns.wait(key, later).as_secs();
        assert_eq!(["a", "b", "c", "d"].map(seconds), [0, 0, 1, 2]);
        turns.remove("d");
        turns.join("e", PACE, later);
        assert_eq!(turns.wait("e", later).as_secs(), 3);
    }
}
