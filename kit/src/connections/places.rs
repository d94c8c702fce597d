//! Places for connections, and who gives way when all of them are taken.
//!
//! Two groups share the places: connections that were answered at least once, and those that never
//! were. A newcomer takes the place of the longest idle one of whichever group has more than half.
//! So strangers who never finish a request cannot push out who does, and those who did once
//! cannot keep strangers out.
//!
//! Invariant: there are never more [`Place`]s than places.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All places of one server.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    free: Arc<Semaphore>,
    held: Mutex<Held>,
}

/// Who holds one: by when it was last answered or, if it never was, when it came.
#[derive(Debug, Default)]
struct Held {
    clock: u64,
    strangers: BTreeMap<u64, Arc<Notify>>,
    answered: BTreeMap<u64, Arc<Notify>>,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self {
            most,
            free: Arc::new(Semaphore::new(most)),
            held: Mutex::default(),
        })
    }

    /// A place for a newcomer; when there is none, that of another, once it has let go.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.held().cut_one(self.most);
            if let Ok(permit) = Arc::clone(&self.free).acquire_owned().await {
                break permit;
            }
            // Nobody closes the semaphore; if somebody did, no more connections is right.
            std::future::pending::<()>().await;
        };
        let cut = Arc::new(Notify::new());
        let mut held = self.held();
        let since = held.tick();
        held.strangers.insert(since, Arc::clone(&cut));
        drop(held);
        let uses = Uses {
            places: Arc::clone(self),
            since: Arc::new(Mutex::new(since)),
            cut,
        };
        Place {
            uses,
            _permit: permit,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn remove(&mut self, since: u64) -> bool {
        self.strangers.remove(&since).is_some() || self.answered.remove(&since).is_some()
    }

    fn cut_one(&mut self, most: usize) {
        let group = match self.strangers.len() > most / 2 {
            true => &mut self.strangers,
            false => &mut self.answered,
        };
        // None: all that could go are on their way.
        if let Some((_, cut)) = group.pop_first() {
            cut.notify_one();
        }
    }
}

/// The place of one connection, which ends with it.
#[derive(Debug)]
pub(super) struct Place {
    uses: Uses,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// For the requests of the connection.
    pub(super) fn uses(&self) -> Uses {
        self.uses.clone()
    }

    /// Resolves when the place is another's.
    pub(super) async fn cut(&self) {
        self.uses.cut.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let since = self.uses.since();
        self.uses.places.held().remove(*since);
    }
}

/// Says when a connection was last of use.
#[derive(Clone, Debug)]
pub(super) struct Uses {
    places: Arc<Places>,
    since: Arc<Mutex<u64>>,
    cut: Arc<Notify>,
}

impl Uses {
    /// A request was answered.
    pub(super) fn answered(&self) {
        // Always in this order: its own time, then all of them.
        let mut since = self.since();
        let mut held = self.places.held();
        // One that is cut, or has ended, has no place any more.
        if held.remove(*since) {
            *since = held.tick();
            held.answered.insert(*since, Arc::clone(&self.cut));
        }
    }

    fn since(&self) -> MutexGuard<'_, u64> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn is_cut(place: &Place) -> bool {
        place.cut().now_or_never().is_some()
    }

    /// Somebody comes while all places are taken; who is cut lets go when asked.
    async fn displaced(places: &Arc<Places>, all: &mut Vec<Place>) -> usize {
        let mut entering = Box::pin(places.enter());
        assert!(
            entering.as_mut().now_or_never().is_none(),
            "one must go first"
        );
        let index = all.iter().position(is_cut).expect("one is cut");
        drop(all.remove(index));
        all.push(entering.await);
        index
    }

    #[tokio::test]
    async fn strangers_push_out_strangers_and_not_who_was_answered() {
        let places = Places::new(4);
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(places.enter().await);
        }
        // The oldest of all, but it was answered.
        all[0].uses().answered();
        for _ in 0..100 {
            assert_eq!(displaced(&places, &mut all).await, 1);
        }
    }

    #[tokio::test]
    async fn who_was_answered_once_does_not_keep_newcomers_out() {
        let places = Places::new(4);
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(places.enter().await);
            all.last().unwrap().uses().answered();
        }
        // The first is of use again, so the second is idle for longest.
        all[0].uses().answered();
        assert_eq!(displaced(&places, &mut all).await, 1);
        assert_eq!(displaced(&places, &mut all).await, 1);
        // Two strangers and two others: still not the strangers.
        assert_eq!(displaced(&places, &mut all).await, 1);
        // Three strangers: now the oldest of them, and the first stays.
        assert_eq!(displaced(&places, &mut all).await, 1);
        assert!(!is_cut(&all[0]));
    }

    #[tokio::test]
    async fn a_place_that_is_let_go_is_forgotten() {
        let places = Places::new(1);
        for _ in 0..3 {
            let place = places.enter().await;
            let uses = place.uses();
            uses.answered();
            drop(place);
            // A request that outlives its connection brings nothing back.
            uses.answered();
        }
        assert!(places.held().answered.is_empty() && places.held().strangers.is_empty());
    }
}
