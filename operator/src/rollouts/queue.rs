//! Queue of control planes that start: how many at once, and who is next.
//!
//! A kube-apiserver needs two to three CPU-seconds to start. More of them at once than there are
//! cores only slow each other down, until probes kill servers that are merely slow and nothing
//! comes up any more. So starts are admitted in order of creation.
//!
//! Invariant: never more than `limit` running starts, and the oldest waiting one goes first; a
//! start that takes longer than [`PATIENCE`] gives its place up, so that one broken tenant
//! cluster cannot hold up the others for ever.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// How long a start keeps its place.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Order of waiting: creation, then UID, so that two of the same second have an order too.
pub type Turn = (Timestamp, String);

/// The queue. Pure but for the lock; time comes from the caller.
#[derive(Debug)]
pub struct StartQueue {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<String, Timestamp>,
    waiting: BTreeMap<Turn, ()>,
}

/// What a tenant cluster that wants to start is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Start now.
    Go,
    /// Others start or wait before this one. How many changes all the time: whoever said so in a
    /// status would write it for all that wait whenever one has started.
    Wait,
}

impl StartQueue {
    /// At most `limit` (at least one) at once.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            state: Mutex::default(),
        }
    }

    /// Asks for a place. Asking again keeps the place.
    pub fn ask(&self, turn: &Turn, now: Timestamp) -> Answer {
        let mut state = self.lock();
        state.expire(now);
        if state.running.contains_key(&turn.1) {
            return Answer::Go;
        }
        state.waiting.insert(turn.clone(), ());
        let before = state.waiting.range(..turn.clone()).count();
        if state.running.len() + before < self.limit {
            state.waiting.remove(turn);
            state.running.insert(turn.1.clone(), now);
            return Answer::Go;
        }
        Answer::Wait
    }

    /// Takes in a start that is under way already: after a restart of the operator.
    pub fn resume(&self, uid: &str, now: Timestamp) {
        let mut state = self.lock();
        state.waiting.retain(|turn, ()| turn.1 != uid);
        state.running.entry(uid.to_owned()).or_insert(now);
    }

    /// Gives the place back; true when somebody waits who may now be next.
    pub fn done(&self, uid: &str) -> bool {
        let mut state = self.lock();
        let held = state.running.remove(uid).is_some();
        let waited = state.waiting.len();
        state.waiting.retain(|turn, ()| turn.1 != uid);
        (held || waited != state.waiting.len()) && !state.waiting.is_empty()
    }

    /// UIDs of those whose turn it is now.
    #[must_use]
    pub fn next(&self) -> Vec<String> {
        let state = self.lock();
        let free = self.limit.saturating_sub(state.running.len());
        state
            .waiting
            .keys()
            .take(free)
            .map(|turn| turn.1.clone())
            .collect()
    }

    /// Running and waiting, for the admin port and metrics.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.running.len(), state.waiting.len())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The state is valid after any single statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn expire(&mut self, now: Timestamp) {
        let patience = jiff::SignedDuration::try_from(PATIENCE).unwrap_or_default();
        self.running
            .retain(|_, since| now.duration_since(*since) < patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(second: i64, uid: &str) -> Turn {
        (Timestamp::from_second(second).unwrap(), uid.to_owned())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn oldest_goes_first_and_the_limit_holds() {
        let queue = StartQueue::new(1);
        assert_eq!(queue.ask(&turn(1, "a"), at(10)), Answer::Go);
        assert_eq!(queue.ask(&turn(3, "c"), at(10)), Answer::Wait);
        assert_eq!(queue.ask(&turn(2, "b"), at(10)), Answer::Wait);
        assert_eq!(queue.ask(&turn(3, "c"), at(10)), Answer::Wait);
        assert!(queue.done("a"));
        assert_eq!(queue.next(), ["b"]);
        assert_eq!(queue.ask(&turn(3, "c"), at(11)), Answer::Wait);
        assert_eq!(queue.ask(&turn(2, "b"), at(11)), Answer::Go);
        assert_eq!(queue.ask(&turn(2, "b"), at(11)), Answer::Go);
    }

    #[test]
    fn a_start_that_hangs_gives_its_place_up() {
        let queue = StartQueue::new(1);
        assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Go);
        assert_eq!(queue.ask(&turn(2, "b"), at(89)), Answer::Wait);
        assert_eq!(queue.ask(&turn(2, "b"), at(90)), Answer::Go);
    }

    #[test]
    fn a_deleted_one_no_longer_stands_in_the_way() {
        let queue = StartQueue::new(1);
        assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Go);
        assert_eq!(queue.ask(&turn(2, "b"), at(0)), Answer::Wait);
        assert_eq!(queue.ask(&turn(3, "c"), at(0)), Answer::Wait);
        assert!(queue.done("b"));
        assert!(queue.done("a"));
        assert_eq!(queue.next(), ["c"]);
    }

    #[test]
    fn what_ran_before_a_restart_counts() {
        let queue = StartQueue::new(1);
        queue.resume("old", at(0));
        assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Wait);
        assert_eq!(queue.counts(), (1, 1));
    }
}
