//! How many sessions there may be at once.
//!
//! Invariant: a session holds its places until it is dropped, and a jump host that nobody goes through any more
//! leaves nothing behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places for sessions.
#[derive(Debug)]
pub(super) struct Slots {
    all: Arc<Semaphore>,
    per_jump: usize,
    jumps: Mutex<BTreeMap<String, Weak<Semaphore>>>,
}

/// The places of one session.
#[derive(Debug)]
pub(super) struct Slot {
    // Before the semaphore it comes from, which is counted by who holds it.
    _jump: Option<(OwnedSemaphorePermit, Arc<Semaphore>)>,
    _all: OwnedSemaphorePermit,
}

impl Slots {
    /// So many in all, so many through each jump host.
    pub(super) fn new(all: usize, per_jump: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            per_jump,
            jumps: Mutex::default(),
        }
    }

    /// Waits for a place; none when the operator ends. The jump host's place comes first: who waits for a crowded
    /// jump host keeps nobody else out.
    pub(super) async fn take(&self, jump: Option<&str>) -> Option<Slot> {
        let jump = match jump {
            Some(name) => {
                let places = self.of(name);
                let permit = Arc::clone(&places).acquire_owned().await.ok()?;
                Some((permit, places))
            }
            None => None,
        };
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Slot {
            _jump: jump,
            _all: all,
        })
    }

    fn of(&self, jump: &str) -> Arc<Semaphore> {
        let mut jumps = self.jumps.lock().unwrap_or_else(PoisonError::into_inner);
        jumps.retain(|_, places| places.strong_count() > 0);
        if let Some(places) = jumps.get(jump).and_then(Weak::upgrade) {
            return places;
        }
        let places = Arc::new(Semaphore::new(self.per_jump));
        jumps.insert(jump.to_owned(), Arc::downgrade(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    async fn is_full(slots: &Slots, jump: Option<&str>) -> bool {
        let wait = Duration::from_secs(3600);
        tokio::time::timeout(wait, slots.take(jump)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowded_jump_host_keeps_nobody_else_out() {
        let slots = Slots::new(3, 2);
        let (one, two) = (slots.take(Some("a")).await, slots.take(Some("a")).await);
        assert!(is_full(&slots, Some("a")).await);
        let other = slots.take(Some("b")).await;
        assert!(other.is_some());
        assert!(is_full(&slots, None).await, "three in all");
        drop(one);
        assert!(slots.take(Some("a")).await.is_some());
        drop((two, other));
        assert!(slots.take(None).await.is_some());
        assert_eq!(slots.of("c").available_permits(), 2);
        assert_eq!(
            slots.jumps.lock().unwrap().len(),
            1,
            "the others are forgotten"
        );
    }
}
