//! Throttles: of what comes again and again, the first at once and the rest together after a period.
//!
//! Invariant: the last thing that came is never lost; a key is given at most once per period, and no
//! change of an object is missed by the reconcile that was put off.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kube::runtime::controller::Action as Requeue;
use tokio::time::Instant;

/// Pause between two reconciles that went well. What is being started changes many times a second, and
/// each reconcile reads all of it.
const PAUSE: Duration = Duration::from_millis(250);

/// Pauses between reconciles of one object, of one controller. One that is put off comes as soon as
/// the pause is over, and sees everything that happened until then; one that failed is followed by its
/// own back-off alone.
#[derive(Debug, Default)]
pub struct Throttle {
    /// When the last reconcile of an object (`namespace/name`) ended well.
    done: Mutex<HashMap<String, Instant>>,
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
        let last = self.lock().get(key).map(Instant::elapsed);
        if let Some(pause) = last.and_then(|since| PAUSE.checked_sub(since))
            && !pause.is_zero()
        {
            return Ok(Requeue::requeue(pause));
        }
        let result = work.await;
        let mut done = self.lock();
        done.retain(|_, at| at.elapsed() < PAUSE);
        if result.is_ok() {
            done.insert(key.to_owned(), Instant::now());
        }
        drop(done);
        result
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
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
}
