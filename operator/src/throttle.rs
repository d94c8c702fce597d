//! Throttles: of what comes again and again, the first at once and the rest together after a period.
//!
//! Invariant: the last thing that came is never lost; a key is given at most once per period, and no
//! change of an object is missed by the reconcile that was put off.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use kit_client::meter::metered;
use kit_client::rate::Backlog;
use kube::runtime::controller::Action as Requeue;
use tokio::time::Instant;

use crate::request_rate::{RequestRates, Urgency};
use crate::turns::{Pace, Turns};

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
    /// What reconciles sent to the management API, by UID.
    rates: RequestRates,
    /// Who waits for a look that nobody else waits for.
    turns: Turns,
    pace: Pace,
    /// How far the client is behind its rate.
    backlog: Backlog,
}

impl Throttle {
    /// Does the work, unless the object was reconciled just now, or has sent more requests than it may:
    /// then it is to come again later.
    ///
    /// # Errors
    /// Those of the work.
    pub fn reconcile<E>(
        &self,
        key: &str,
        (uid, urgency): (&str, Urgency),
        work: impl Future<Output = Result<Requeue, E>>,
    ) -> impl Future<Output = Result<Requeue, E>> {
        // On the heap before anything waits: reconciles are large futures.
        let work = Box::pin(work);
        async move {
            if let Some(pause) = self.lock().pause(key, uid, urgency) {
                return Ok(Requeue::requeue(pause));
            }
            let (result, requests) = metered(work).await;
            let pauses = &mut *self.lock();
            pauses.rates.pay(uid, requests, Instant::now());
            let done = &mut pauses.done;
            done.retain(|_, at| at.elapsed() < PAUSE);
            if result.is_ok() {
                done.insert(key.to_owned(), Instant::now());
            }
            result
        }
    }

    /// Does not put the next reconcile of an object off: somebody waits for it. To be called before it is
    /// triggered.
    pub fn urge(&self, key: &str) {
        self.lock().urgent.insert(key.to_owned());
    }

    /// From now on these, which are at rest, take turns for their first look.
    pub fn begin_first_looks(&self, keys: impl IntoIterator<Item = String>) {
        let pauses = &mut *self.lock();
        pauses.turns.begin(keys, pauses.pace, Instant::now());
    }

    /// An object fell silent: its next look takes a turn, unless something happens to it. To be called before it
    /// is triggered.
    pub fn join(&self, key: &str) {
        self.lock().turns.join(key, Pace::SILENT, Instant::now());
    }

    /// Something happened to an object: it waits for no turn. To be called before it is triggered.
    pub fn call(&self, key: &str) {
        self.lock().turns.remove(key);
    }

    /// Lets first looks follow each other so fast, when they begin.
    pub fn pace(&self, pace: Pace) {
        self.lock().pace = pace;
    }

    /// Nobody's turn comes while the client is behind.
    pub fn keep_up(&self, backlog: Backlog) {
        self.lock().backlog = backlog;
    }

    /// Owes nothing any more.
    pub fn forgive(&self, uid: &str) {
        self.lock().rates.forget(uid);
    }

    /// Lets each tenant send so many requests a second and at once, from now on.
    pub fn limit(&self, qps: f64, burst: f64) {
        self.lock().rates = RequestRates::new(qps, burst);
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, key: &str, uid: &str) {
        let pauses = &mut *self.lock();
        pauses.rates.forget(uid);
        pauses.done.remove(key);
        pauses.urgent.remove(key);
        pauses.turns.remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, Pauses> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pauses {
    /// How long the next reconcile is put off, if it is.
    fn pause(&mut self, key: &str, uid: &str, urgency: Urgency) -> Option<Duration> {
        let urged = self.urgent.contains(key);
        let urgency = match (urged, urgency) {
            (true, Urgency::Ordinary | Urgency::Awaited) => Urgency::Urgent,
            _ => urgency,
        };
        let since = self.done.get(key).map(Instant::elapsed);
        let just_now = since.and_then(|since| PAUSE.checked_sub(since));
        let just_now = just_now.filter(|_| !urged).unwrap_or_default();
        let debt = self.rates.wait(uid, urgency, Instant::now());
        let turn = self.turns.wait(key, Instant::now());
        let turn = Some(turn).filter(|_| urgency == Urgency::Ordinary);
        let mut pause = just_now.max(debt).max(turn.unwrap_or_default());
        if pause.is_zero() && turn.is_some() {
            let (behind, pace) = (self.backlog.wait(), self.pace);
            pause = self.turns.pass_over(key, behind, pace, Instant::now());
        }
        if pause.is_zero() {
            self.turns.remove(key);
            self.urgent.remove(key);
            return None;
        }
        Some(pause)
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
        let reconcile = async |result| {
            let whose = ("uid", Urgency::Ordinary);
            pauses
                .reconcile("users/demo", whose, async move { result })
                .await
        };
        assert_eq!(reconcile(Ok(done.clone())).await, Ok(done.clone()));
        tokio::time::advance(Duration::from_millis(100)).await;
        let later = Requeue::requeue(Duration::from_millis(150));
        assert_eq!(reconcile(Err(())).await, Ok(later), "it is put off");
        tokio::time::advance(Duration::from_millis(150)).await;
        assert_eq!(reconcile(Err(())).await, Err(()));
        assert_eq!(reconcile(Ok(done.clone())).await, Ok(done));
        let other = pauses
            .reconcile("users/other", ("other", Urgency::Ordinary), async {
                Err(())
            })
            .await;
        assert_eq!(other, Err(()));
    }

    #[tokio::test(start_paused = true)]
    async fn first_look_waits_for_its_turn_unless_something_happens() {
        let pauses = Throttle::default();
        let second = Duration::from_secs(1);
        pauses.pace(Pace {
            at_once: 1,
            period: second,
        });
        pauses.begin_first_looks(["a", "b", "c", "d"].map(str::to_owned));
        let look = async |key, urgency| {
            let work = async { Ok::<_, ()>(Requeue::await_change()) };
            pauses.reconcile(key, (key, urgency), work).await.unwrap()
        };
        let done = Requeue::await_change();
        assert_eq!(look("a", Urgency::Ordinary).await, done);
        assert_eq!(look("b", Urgency::Ordinary).await, Requeue::requeue(second));
        let third = Requeue::requeue(3 * second);
        assert_eq!(look("d", Urgency::Ordinary).await, third);
        assert_eq!(look("c", Urgency::Awaited).await, done, "its spec changed");
        pauses.call("d");
        assert_eq!(look("d", Urgency::Ordinary).await, done, "it was called");
        tokio::time::advance(second).await;
        assert_eq!(look("b", Urgency::Ordinary).await, done);
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_waits_for_is_not_put_off_once() {
        let pauses = Throttle::default();
        let done = Requeue::await_change();
        let again = || Ok::<_, ()>(Requeue::await_change());
        let reconcile = async || {
            let whose = ("uid", Urgency::Ordinary);
            pauses
                .reconcile("users/demo", whose, async { again() })
                .await
        };
        assert_eq!(reconcile().await, Ok(done.clone()));
        pauses.urge("users/demo");
        assert_eq!(reconcile().await, Ok(done));
        let later = Requeue::requeue(PAUSE);
        assert_eq!(reconcile().await, Ok(later), "the next one is");
    }

    /// A reconcile that sends so many requests.
    async fn sends(requests: u32) -> Result<Requeue, ()> {
        use tower::{Layer as _, Service as _};
        let answer = tower::service_fn(async |_: http::Request<()>| Ok::<_, ()>(()));
        let mut service = kit_client::meter::MeterLayer.layer(answer);
        for _ in 0..requests {
            service.call(http::Request::new(())).await?;
        }
        Ok(Requeue::await_change())
    }

    #[tokio::test(start_paused = true)]
    async fn tenant_that_is_woken_all_the_time_sends_no_more_than_its_rate_and_is_not_forgotten() {
        const COST: u32 = 13;
        let pauses = Throttle::default();
        let begin = Instant::now();
        let (mut sent, mut last) = (0, Requeue::await_change());
        while begin.elapsed() < Duration::from_secs(60) {
            let whose = ("uid", Urgency::Ordinary);
            last = pauses
                .reconcile("users/demo", whose, async {
                    sent += COST;
                    sends(COST).await
                })
                .await
                .unwrap();
            tokio::time::advance(Duration::from_millis(250)).await;
        }
        assert!((300..=50 + 5 * 60 + COST).contains(&sent), "{sent}");
        assert_ne!(last, Requeue::await_change(), "it comes again");
        let other = pauses.reconcile("users/other", ("other", Urgency::Ordinary), sends(1));
        assert_eq!(
            other.await,
            Ok(Requeue::await_change()),
            "others do not pay"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_awaited_and_what_goes_is_not_put_off_by_a_debt() {
        let pauses = Throttle::default();
        let reconcile = async |urgency| {
            tokio::time::advance(PAUSE).await;
            pauses
                .reconcile("users/demo", ("uid", urgency), sends(60))
                .await
                .unwrap()
        };
        let done = Requeue::await_change();
        assert_eq!(reconcile(Urgency::Ordinary).await, done);
        assert_ne!(reconcile(Urgency::Ordinary).await, done);
        assert_eq!(reconcile(Urgency::Awaited).await, done);
        assert_eq!(reconcile(Urgency::Awaited).await, done);
        assert_ne!(
            reconcile(Urgency::Awaited).await,
            done,
            "not without an end"
        );
        pauses.urge("users/demo");
        assert_eq!(reconcile(Urgency::Awaited).await, done);
        assert_eq!(reconcile(Urgency::Goes).await, done);
        pauses.forgive("uid");
        assert_eq!(reconcile(Urgency::Ordinary).await, done);
    }
}
