//! Work queue: whose turn it is, each key at most once in it and at most once in hand.
//!
//! Invariant: what is added while it is in hand comes again afterwards, so no change is lost; and
//! whoever waits after a failure is not brought forward by time alone, only by a change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub mod pace;

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<(K, Instant)>,
    /// Of those in `ready`.
    queued: BTreeSet<K>,
    in_hand: BTreeSet<K>,
    /// Added while in hand.
    again: BTreeSet<K>,
    later: BTreeMap<(Instant, u64), K>,
    number: u64,
}

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Queue<K> {
    state: Arc<Mutex<State<K>>>,
    changed: Arc<Notify>,
    /// Told whenever a key was given back.
    given_back: Arc<Notify>,
}

/// One key in hand; give it back with [`Queue::done`].
#[derive(Debug)]
pub struct Turn<K> {
    /// Whose turn it is.
    pub key: K,
    /// How long it waited for it.
    pub age: Duration,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: BTreeSet::new(),
            in_hand: BTreeSet::new(),
            again: BTreeSet::new(),
            later: BTreeMap::new(),
            number: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::default(),
            given_back: Arc::default(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a key, unless it is queued already.
    pub fn add(&self, key: K) {
        let mut state = self.lock();
        state.add(key);
        drop(state);
        self.changed.notify_one();
    }

    /// Adds a key after a while.
    pub fn add_after(&self, key: K, wait: Duration) {
        let mut state = self.lock();
        state.number += 1;
        let number = state.number;
        state.later.insert((Instant::now() + wait, number), key);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits for the next key.
    pub async fn next(&self) -> Turn<K> {
        loop {
            let due = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                if let Some(turn) = state.take() {
                    if !state.ready.is_empty() {
                        self.changed.notify_one();
                    }
                    return turn;
                }
                state.later.keys().next().map(|(at, _)| *at)
            };
            match due {
                Some(at) => {
                    tokio::select! {
                        () = self.changed.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// Gives a key back.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.in_hand.remove(key);
        if state.again.remove(key) {
            state.add(key.clone());
        }
        drop(state);
        self.changed.notify_one();
        self.given_back.notify_waiters();
    }

    /// Waits until nothing is queued or in hand.
    pub async fn idle(&self) {
        loop {
            let given_back = self.given_back.notified();
            if self.is_empty() {
                return;
            }
            given_back.await;
        }
    }

    /// Keys that are queued or in hand, without those that wait after a failure.
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.ready.len() + state.in_hand.len()
    }

    /// True when nothing is queued or in hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K) {
        if self.in_hand.contains(&key) {
            self.again.insert(key);
        } else if self.queued.insert(key.clone()) {
            self.ready.push_back((key, Instant::now()));
        }
    }

    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let key = entry.remove();
            self.add(key);
        }
    }

    fn take(&mut self) -> Option<Turn<K>> {
        let (key, since) = self.ready.pop_front()?;
        self.queued.remove(&key);
        self.in_hand.insert(key.clone());
        Some(Turn {
            key,
            age: since.elapsed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn next(queue: &Queue<&'static str>) -> &'static str {
        queue.next().await.key
    }

    #[tokio::test(start_paused = true)]
    async fn keys_come_in_order_and_once() {
        let queue = Queue::new();
        for name in ["a", "b", "a"] {
            queue.add(name);
        }
        assert_eq!(next(&queue).await, "a");
        assert_eq!(next(&queue).await, "b");
        assert_eq!(queue.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_what_is_in_hand_is_not_lost_nor_done_twice_at_once() {
        let queue = Queue::new();
        queue.add("a");
        let turn = queue.next().await;
        queue.add("a");
        queue.add("a");
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(none.is_err(), "it is in hand");
        queue.done(&turn.key);
        assert_eq!(next(&queue).await, "a");
        let idle = tokio::spawn({
            let queue = queue.clone();
            async move { queue.idle().await }
        });
        tokio::task::yield_now().await;
        assert!(!idle.is_finished(), "it is in hand");
        queue.done(&"a");
        idle.await.expect("it is at rest");
        assert!(queue.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_comes_in_time_and_a_change_comes_first() {
        let queue = Queue::new();
        let begin = Instant::now();
        queue.add_after("late", Duration::from_secs(5));
        queue.add_after("early", Duration::from_secs(2));
        queue.add("now");
        assert_eq!(next(&queue).await, "now");
        assert_eq!(next(&queue).await, "early");
        assert_eq!(begin.elapsed().as_secs(), 2);
        assert_eq!(next(&queue).await, "late");
        assert_eq!(begin.elapsed().as_secs(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn several_workers_share_the_work() {
        let queue = Queue::new();
        let waits: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { next(&queue).await })
            })
            .collect();
        tokio::task::yield_now().await;
        for name in ["a", "b", "c"] {
            queue.add(name);
        }
        let mut seen = Vec::new();
        for wait in waits {
            seen.push(wait.await.unwrap());
        }
        seen.sort();
        assert_eq!(seen, ["a", "b", "c"]);
    }
}
