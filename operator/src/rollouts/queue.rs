//! Queue of control planes that start: how many at once, and who is next.
//!
//! A kube-apiserver needs two to three CPU-seconds to start. More of them at once than there are
//! cores only slow each other down, until probes kill servers that are merely slow and nothing
//! comes up any more. So starts are admitted one after another: users' namespaces take turns, and
//! within a namespace the oldest goes first, so that whoever asks for fifty tenant clusters holds up
//! nobody but himself.
//!
//! Invariant: never more than `limit` running starts; of those that wait the namespace goes first
//! that had its turn least lately, and its oldest; a start that takes longer than [`PATIENCE`] gives
//! its place up, so that one broken tenant cluster cannot hold up the others for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

/// How long a start keeps its place.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Who waits, in the order of waiting within one namespace: creation, then UID, so that two of the
/// same second have an order too.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Turn {
    /// When the tenant cluster was created.
    pub created: Timestamp,
    /// Its UID.
    pub uid: String,
    /// The user's namespace.
    pub namespace: String,
}

/// The queue. Pure but for the lock; time comes from the caller.
#[derive(Debug)]
pub struct StartQueue {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<String, Timestamp>,
    waiting: BTreeSet<Turn>,
    /// Number of the last start of each namespace, while anybody starts or waits: otherwise there is
    /// nobody to be fair to.
    served: BTreeMap<String, u64>,
    starts: u64,
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
        if state.running.contains_key(&turn.uid) {
            return Answer::Go;
        }
        state.waiting.insert(turn.clone());
        if state.next(self.limit).contains(turn) {
            state.start(turn, now);
            return Answer::Go;
        }
        Answer::Wait
    }

    /// Takes in a start that is under way already: after a restart of the operator.
    pub fn resume(&self, uid: &str, now: Timestamp) {
        let mut state = self.lock();
        state.leave(uid);
        state.running.entry(uid.to_owned()).or_insert(now);
    }

    /// Gives the place back; true when somebody waits who may now be next.
    pub fn done(&self, uid: &str) -> bool {
        let mut state = self.lock();
        let held = state.running.remove(uid).is_some();
        let waited = state.waiting.len();
        state.leave(uid);
        (held || waited != state.waiting.len()) && !state.waiting.is_empty()
    }

    /// UIDs of those whose turn it is now.
    #[must_use]
    pub fn next(&self) -> Vec<String> {
        let next = self.lock().next(self.limit);
        next.into_iter().map(|turn| turn.uid).collect()
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

    /// Whose turn it is now: as many as there are free places.
    fn next(&self, limit: usize) -> Vec<Turn> {
        let mut lines: BTreeMap<&str, Vec<&Turn>> = BTreeMap::new();
        for turn in self.waiting.iter().rev() {
            lines.entry(&turn.namespace).or_default().push(turn);
        }
        let mut served = self.served.clone();
        let mut starts = self.starts;
        let mut next = Vec::new();
        while next.len() < limit.saturating_sub(self.running.len()) {
            let heads = lines.values().filter_map(|line| line.last().copied());
            // One that never had its turn comes first; among those the oldest.
            let Some(head) = heads.min_by_key(|turn| (served.get(&turn.namespace), *turn)) else {
                break;
            };
            starts += 1;
            served.insert(head.namespace.clone(), starts);
            next.push(head.clone());
            lines.entry(&head.namespace).or_default().pop();
        }
        next
    }

    fn start(&mut self, turn: &Turn, now: Timestamp) {
        self.running.insert(turn.uid.clone(), now);
        self.starts += 1;
        self.served.insert(turn.namespace.clone(), self.starts);
        self.leave(&turn.uid);
    }

    /// Waits no longer.
    fn leave(&mut self, uid: &str) {
        self.waiting.retain(|turn| turn.uid != uid);
        if self.waiting.is_empty() && self.running.is_empty() {
            self.served.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(second: i64, uid: &str) -> Turn {
        of("team-a", second, uid)
    }

    fn of(namespace: &str, second: i64, uid: &str) -> Turn {
        Turn {
            created: Timestamp::from_second(second).unwrap(),
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
        }
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

    /// Starts one after another whoever is next, until nobody waits.
    fn order(queue: &StartQueue, turns: &[Turn]) -> Vec<String> {
        let mut order = Vec::new();
        for second in 1.. {
            let going = turns.iter().find(|turn| {
                !order.contains(&turn.uid) && queue.ask(turn, at(second)) == Answer::Go
            });
            let Some(going) = going else { break };
            queue.done(&going.uid);
            order.push(going.uid.clone());
        }
        order
    }

    #[test]
    fn fifty_of_one_namespace_do_not_hold_up_the_one_of_another() {
        let queue = StartQueue::new(1);
        let first = of("team-a", 0, "first");
        assert_eq!(queue.ask(&first, at(0)), Answer::Go);
        let mut turns: Vec<_> = (1..=50)
            .map(|n| of("team-a", n, &format!("a{n:02}")))
            .collect();
        turns.push(of("team-b", 1000, "b01"));
        for turn in &turns {
            assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
        }
        assert_eq!(queue.next(), [""; 0]);
        assert!(queue.done("first"));
        assert_eq!(queue.next(), ["b01"], "it never had its turn");
        let order = order(&queue, &turns);
        assert_eq!(order.len(), 51);
        assert_eq!(order[..3], ["b01", "a01", "a02"]);
    }

    #[test]
    fn namespaces_take_turns_and_each_keeps_its_own_order() {
        let queue = StartQueue::new(1);
        assert_eq!(queue.ask(&of("team-c", 0, "c"), at(0)), Answer::Go);
        let turns = [
            of("team-a", 1, "a1"),
            of("team-a", 2, "a2"),
            of("team-a", 3, "a3"),
            of("team-b", 4, "b1"),
            of("team-b", 5, "b2"),
        ];
        for turn in &turns {
            assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
        }
        // Whoever asks one by one is served and then has had its turn, too.
        assert_eq!(queue.ask(&of("team-c", 6, "c2"), at(0)), Answer::Wait);
        assert!(queue.done("c"));
        assert_eq!(order(&queue, &turns), ["a1", "b1"], "then it is c2's turn");
        assert_eq!(queue.next(), ["c2"]);
        queue.done("c2");
        let rest = [&turns[1], &turns[2], &turns[4]].map(Clone::clone);
        assert_eq!(order(&queue, &rest), ["a2", "b2", "a3"]);
    }

    #[test]
    fn several_places_are_shared_among_namespaces() {
        let queue = StartQueue::new(2);
        let turns = [
            of("team-a", 1, "a1"),
            of("team-a", 2, "a2"),
            of("team-a", 3, "a3"),
            of("team-b", 4, "b1"),
        ];
        queue.resume("old-1", at(0));
        queue.resume("old-2", at(0));
        for turn in &turns {
            assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
        }
        queue.done("old-1");
        queue.done("old-2");
        assert_eq!(queue.next(), ["a1", "b1"]);
    }
}
