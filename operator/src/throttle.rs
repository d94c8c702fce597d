//! Throttles: of what comes again and again, the first at once and the rest together after a period.
//!
//! Invariant: the last thing that came is never lost; a key is given at most once per period, and no
//! change of an object is missed by the reconcile that was put off.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::controller::Action as Requeue;
use tokio::time::Instant;

/// Pause between two reconciles that went well. What is being started changes many times a second, and
/// each reconcile reads all of it.
const PAUSE: Duration = Duration::from_millis(250);

/// Pauses between reconciles of one object, of one controller. One that is put off comes as soon as
/// the pause is over, and sees everything that happened until then; one that failed is followed by its
/// own back-off alone. Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Throttle(Arc<Mutex<Pauses>>);

/// By object (`namespace/name`).
#[derive(Debug, Default)]
struct Pauses {
    /// When the last reconcile ended well.
    done: HashMap<String, Instant>,
    /// Whose next reconcile is not put off.
    urgent: HashSet<String>,
}

impl Throttle {
    /// Does the work, unless the object was reconciled just now: then it is to come again a moment
    /// later.
    ///
    /// # Errors
    /// Those of the work.
    pub async fn reconcile<E>(
        &self,
        key: &str,
        work: impl Future<Output = Result<Requeue, E>>,
    ) -> Result<Requeue, E> {
        if let Some(pause) = self.lock().pause(key) {
            return Ok(Requeue::requeue(pause));
        }
        let result = work.await;
        let done = &mut self.lock().done;
        done.retain(|_, at| at.elapsed() < PAUSE);
        if result.is_ok() {
            done.insert(key.to_owned(), Instant::now());
        }
        result
    }

    /// Does not put the next reconcile of an object off: somebody waits for it. To be called before it is
    /// triggered.
    pub fn urge(&self, key: &str) {
        self.lock().urgent.insert(key.to_owned());
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &str) {
        let pauses = &mut *self.lock();
        pauses.done.remove(key);
        pauses.urgent.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Pauses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pauses {
    /// How long the next reconcile is put off, if it is.
    fn pause(&mut self, key: &str) -> Option<Duration> {
        if self.urgent.remove(key) {
            return None;
        }
        let pause = PAUSE.checked_sub(self.done.get(key)?.elapsed())?;
        (!pause.is_zero()).then_some(pause)
    }
}

/// Gives each key at once, and then no more often than once per period.
pub fn throttle<K>(
    keys: impl Stream<Item = K> + Send + Unpin,
    period: Duration,
) -> impl Stream<Item = K> + Send
where
    K: Eq + Hash + Clone + Send,
{
    let state = (keys.fuse(), Due::new(period));
    stream::unfold(state, |(mut keys, mut due)| async move {
        loop {
            if let Some(key) = due.take(Instant::now()) {
                return Some((key, (keys, due)));
            }
            let next = due.next();
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                key = keys.next() => due.came(key?, Instant::now()),
                () = wait => {}
            }
        }
    })
}

/// Which keys are due, and when. Pure; time comes from the caller.
#[derive(Debug)]
struct Due<K> {
    period: Duration,
    /// When it may be given again, and whether it came since.
    keys: HashMap<K, (Instant, bool)>,
}

impl<K: Eq + Hash + Clone> Due<K> {
    fn new(period: Duration) -> Self {
        Self {
            period,
            keys: HashMap::new(),
        }
    }

    fn came(&mut self, key: K, now: Instant) {
        self.keys.entry(key).or_insert((now, true)).1 = true;
    }

    /// The next thing that anything has to be done about.
    fn next(&self) -> Option<Instant> {
        self.keys.values().map(|(at, _)| *at).min()
    }

    fn take(&mut self, now: Instant) -> Option<K> {
        // What came no more while it waited is forgotten.
        self.keys.retain(|_, (at, came)| *came || *at > now);
        let mut due = self
            .keys
            .iter()
            .filter(|(_, (at, came))| *came && *at <= now);
        let key = due.next()?.0.clone();
        self.keys.insert(key.clone(), (now + self.period, false));
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_comes_at_once_and_the_rest_together_after_the_period() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut due = Due::new(Duration::from_millis(500));
        assert_eq!((due.take(at(0)), due.next()), (None, None));
        due.came("a", at(0));
        assert_eq!(due.take(at(0)), Some("a"));
        assert_eq!(due.take(at(0)), None);
        for millis in [1, 100, 499] {
            due.came("a", at(millis));
            assert_eq!(due.take(at(millis)), None);
        }
        due.came("b", at(499));
        assert_eq!(due.take(at(499)), Some("b"));
        assert_eq!(due.next(), Some(at(500)));
        assert_eq!(due.take(at(500)), Some("a"));
        assert_eq!(due.take(at(999)), None);
        assert_eq!(due.next(), Some(at(1000)));
        assert_eq!((due.take(at(1000)), due.next()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_reconciled_just_now_comes_again_and_what_failed_is_not_put_off() {
        let pauses = Throttle::default();
        let done = Requeue::await_change();
        let reconcile = async |result| pauses.reconcile("users/demo", async move { result }).await;
        assert_eq!(reconcile(Ok(done.clone())).await, Ok(done.clone()));
        tokio::time::advance(Duration::from_millis(100)).await;
        let later = Requeue::requeue(Duration::from_millis(150));
        assert_eq!(reconcile(Err(())).await, Ok(later), "it is put off");
        tokio::time::advance(Duration::from_millis(150)).await;
        assert_eq!(reconcile(Err(())).await, Err(()));
        assert_eq!(reconcile(Ok(done.clone())).await, Ok(done));
        let other = pauses.reconcile("users/other", async { Err(()) }).await;
        assert_eq!(other, Err(()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_waits_for_is_not_put_off_once() {
        let pauses = Throttle::default();
        let done = Requeue::await_change();
        let again = || Ok::<_, ()>(Requeue::await_change());
        let reconcile = async || pauses.reconcile("users/demo", async { again() }).await;
        assert_eq!(reconcile().await, Ok(done.clone()));
        pauses.urge("users/demo");
        assert_eq!(reconcile().await, Ok(done));
        let later = Requeue::requeue(PAUSE);
        assert_eq!(reconcile().await, Ok(later), "the next one is");
    }
}
