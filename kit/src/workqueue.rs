//! Work queue: whose turn it is, each key at most once in it and at most once in hand.
//!
//! Who is urgent comes first, and may have workers of its own ([`Queue::next_urgent`]): they are free when all
//! others wait for something.
//!
//! Invariant: what is added while it is in hand comes again afterwards, so no change is lost; and
//! whoever waits after a failure is not brought forward by time alone, only by a change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub mod pace;

/// Who comes before whom; the order of those that are alike is that in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Before everybody, and for workers of its own, too.
    Urgent,
    /// Before what is normal.
    High,
    /// After all others.
    #[default]
    Normal,
}

/// Where a key is in the queue.
type Place = (Priority, u64);

#[derive(Debug)]
struct State<K> {
    /// And since when.
    ready: BTreeMap<Place, (K, Instant)>,
    /// Of those in `ready`.
    queued: BTreeMap<K, Place>,
    in_hand: BTreeSet<K>,
    /// Added while in hand.
    again: BTreeMap<K, Priority>,
    later: BTreeMap<(Instant, u64), (K, Priority)>,
    /// Of those in `later`: who is not added twice.
    gathers: BTreeSet<K>,
    number: u64,
}

/// Clones share it.
#[derive(Clone, Debug)]
pub struct Queue<K> {
    state: Arc<Mutex<State<K>>>,
    changed: Arc<Notify>,
    /// For those who wait for what is urgent alone.
    urgent: Arc<Notify>,
    /// Told whenever a key was given back.
    given_back: Arc<Notify>,
}

/// One key in hand; give it back with [`Queue::done`].
#[derive(Debug)]
pub struct Turn<K> {
    /// Whose turn it is.
    pub key: K,
    /// How it was queued.
    pub priority: Priority,
    /// How long it waited for it.
    pub age: Duration,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            ready: BTreeMap::new(),
            queued: BTreeMap::new(),
            in_hand: BTreeSet::new(),
            again: BTreeMap::new(),
            later: BTreeMap::new(),
            gathers: BTreeSet::new(),
            number: 0,
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            changed: Arc::default(),
            urgent: Arc::default(),
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
        self.add_with(key, Priority::Normal);
    }

    /// Adds a key with a priority; one that is queued already comes forward, and never goes back.
    pub fn add_with(&self, key: K, priority: Priority) {
        let mut state = self.lock();
        state.add(key, priority);
        self.tell(&state);
    }

    /// Adds a key after a while.
    pub fn add_after(&self, key: K, wait: Duration) {
        self.add_after_with(key, wait, Priority::Normal);
    }

    /// Adds a key with a priority after a while.
    pub fn add_after_with(&self, key: K, wait: Duration, priority: Priority) {
        let mut state = self.lock();
        state.add_later(key, wait, priority);
        self.changed.notify_one();
        self.urgent.notify_one();
    }

    /// Adds a key with a priority after a while, unless it waits for that already: what happens meanwhile
    /// is looked at once.
    pub fn throttle(&self, key: K, wait: Duration, priority: Priority) {
        let mut state = self.lock();
        if state.gathers.insert(key.clone()) {
            state.add_later(key, wait, priority);
            self.changed.notify_one();
            self.urgent.notify_one();
        }
    }

    /// Waits for the next key.
    pub async fn next(&self) -> Turn<K> {
        self.next_of(Priority::Normal, &self.changed).await
    }

    /// Waits for the next key that is urgent.
    pub async fn next_urgent(&self) -> Turn<K> {
        self.next_of(Priority::Urgent, &self.urgent).await
    }

    async fn next_of(&self, last: Priority, changed: &Notify) -> Turn<K> {
        loop {
            let due = {
                let mut state = self.lock();
                let ripe = state.ripen(Instant::now());
                let turn = state.take(last);
                if ripe || turn.is_some() {
                    self.tell(&state);
                }
                if let Some(turn) = turn {
                    return turn;
                }
                state.later.keys().next().map(|(at, _)| *at)
            };
            match due {
                Some(at) => {
                    tokio::select! {
                        () = changed.notified() => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => changed.notified().await,
            }
        }
    }

    /// Gives a key back.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        state.in_hand.remove(key);
        if let Some(priority) = state.again.remove(key) {
            state.add(key.clone(), priority);
        }
        self.tell(&state);
        drop(state);
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

    /// Shows those that are due and wait for their turn, and since when. `look` must not use the queue.
    pub fn each_due(&self, mut look: impl FnMut(&K, Instant)) {
        let state = self.lock();
        state
            .ready
            .values()
            .for_each(|(key, since)| look(key, *since));
    }

    /// True when nothing is queued or in hand.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Wakes one of those who may have something to do now.
    fn tell(&self, state: &State<K>) {
        let Some(((first, _), _)) = state.ready.first_key_value() else {
            return;
        };
        self.changed.notify_one();
        if *first == Priority::Urgent {
            self.urgent.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Clone> State<K> {
    fn add(&mut self, key: K, priority: Priority) {
        if self.in_hand.contains(&key) {
            let again = self.again.entry(key).or_insert(priority);
            *again = priority.min(*again);
            return;
        }
        let since = match self.queued.get(&key) {
            Some((has, _)) if *has <= priority => return,
            Some(place) => self.ready.remove(place).map(|(_, since)| since),
            None => None,
        };
        let place = (priority, self.next_number());
        self.queued.insert(key.clone(), place);
        let since = since.unwrap_or_else(Instant::now);
        self.ready.insert(place, (key, since));
    }

    fn add_later(&mut self, key: K, wait: Duration, priority: Priority) {
        let number = self.next_number();
        let at = (Instant::now() + wait, number);
        self.later.insert(at, (key, priority));
    }

    const fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Queues who has waited long enough; whether there was anybody.
    fn ripen(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (key, priority) = entry.remove();
            self.gathers.remove(&key);
            self.add(key, priority);
            any = true;
        }
        any
    }

    /// The first one, if it comes no later than those of this priority.
    fn take(&mut self, last: Priority) -> Option<Turn<K>> {
        let first = self.ready.first_entry()?;
        let (priority, _) = *first.key();
        if priority > last {
            return None;
        }
        let (key, since) = first.remove();
        self.queued.remove(&key);
        self.in_hand.insert(key.clone());
        Some(Turn {
            key,
            priority,
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
    async fn who_is_due_is_shown_with_the_time_since_when() {
        let queue = Queue::new();
        let begin = Instant::now();
        queue.add("a");
        queue.add_after("later", Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(2)).await;
        queue.add("b");
        queue.add("a");
        let due = || {
            let mut due = Vec::new();
            queue.each_due(|key, since| due.push((*key, (since - begin).as_secs())));
            due
        };
        assert_eq!(due(), [("a", 0), ("b", 2)]);
        assert_eq!(next(&queue).await, "a");
        assert_eq!(due(), [("b", 2)], "the other is in hand");
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

    #[tokio::test(start_paused = true)]
    async fn who_is_urgent_overtakes_and_is_never_put_back() {
        let queue = Queue::new();
        for name in ["a", "b", "c"] {
            queue.add(name);
        }
        queue.add_with("d", Priority::High);
        queue.add_with("c", Priority::Urgent);
        queue.add("c");
        let turn = queue.next().await;
        assert_eq!((turn.key, turn.priority), ("c", Priority::Urgent));
        for name in ["d", "a"] {
            assert_eq!(next(&queue).await, name);
        }
        // What is added while it is in hand comes with the highest priority that it was added with.
        queue.add_with("a", Priority::Urgent);
        queue.add("a");
        queue.done(&"a");
        assert_eq!(next(&queue).await, "a");
        assert_eq!(next(&queue).await, "b");
        assert_eq!(queue.len(), 4, "each once: they are in hand");
    }

    #[tokio::test(start_paused = true)]
    async fn workers_for_what_is_urgent_take_nothing_else_and_do_not_miss_it() {
        let queue = Queue::new();
        let urgent = tokio::spawn({
            let queue = queue.clone();
            async move { queue.next_urgent().await.key }
        });
        tokio::task::yield_now().await;
        queue.add("normal");
        queue.add_with("high", Priority::High);
        tokio::task::yield_now().await;
        assert!(!urgent.is_finished());
        // Nobody else is there to see that its time has come.
        queue.throttle("urgent", Duration::from_secs(1), Priority::Urgent);
        assert_eq!(urgent.await.unwrap(), "urgent");
        assert_eq!(next(&queue).await, "high");
        assert_eq!(next(&queue).await, "normal");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gathered_comes_once() {
        let queue = Queue::new();
        let begin = Instant::now();
        for _ in 0..100 {
            queue.throttle("a", Duration::from_millis(200), Priority::Normal);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(next(&queue).await, "a");
        assert_eq!(begin.elapsed().as_millis(), 200);
        queue.done(&"a");
        let none = tokio::time::timeout(Duration::from_secs(1), queue.next()).await;
        assert!(none.is_err(), "it came already");
        queue.throttle("a", Duration::from_millis(200), Priority::Normal);
        assert_eq!(next(&queue).await, "a");
    }
}
