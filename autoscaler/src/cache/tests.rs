//! The loop of what is kept right.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::testing::{cache, pool, pool_event};

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_less_and_less_often_and_delays_nothing_else() {
    let cache = cache([
        pool_event(&pool("bad", 1, 0, 5)),
        pool_event(&pool("good", 1, 0, 5)),
    ]);
    let tried = Arc::new(Mutex::new(BTreeMap::<String, Vec<Instant>>::new()));
    let begin = Instant::now();
    let due = |state: &State| state.pools.keys().cloned().collect::<Vec<_>>();
    let succeeds = |name: String| {
        let tried = Arc::clone(&tried);
        async move {
            let mut tried = tried.lock().unwrap();
            tried.entry(name.clone()).or_default().push(Instant::now());
            name != "bad"
        }
    };
    let hour = Duration::from_secs(3600);
    let ended = tokio::time::timeout(hour, cache.control_loop(due, succeeds)).await;
    assert!(ended.is_err(), "it ends never");
    let tried = tried.lock().unwrap();
    assert_eq!(
        tried["good"].first(),
        Some(&begin),
        "at once, though the other failed"
    );
    let times = tried["bad"].len();
    assert!((20..200).contains(&times), "tried {times} times in an hour");
}

fn many(number: usize) -> Arc<Cache> {
    let pools = (0..number).map(|n| pool_event(&pool(&format!("pool-{n:03}"), 1, 0, 5)));
    cache(pools)
}

/// Finding D14: 500 writes of 30 seconds one after the other, decided on what was known hours ago.
#[tokio::test(start_paused = true)]
async fn api_that_does_not_answer_holds_up_few_at_a_time_and_none_for_long() {
    let cache = many(100);
    let (begun, under_way, most) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let names = Mutex::new(BTreeSet::new());
    let due = |state: &State| state.pools.keys().cloned().collect::<Vec<_>>();
    let hangs = |name: String| {
        names.lock().unwrap().insert(name);
        let (begun, under_way, most) = (&begun, &under_way, &most);
        async move {
            begun.fetch_add(1, Ordering::Relaxed);
            let now = under_way.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(now, Ordering::Relaxed);
            let _left = Left(under_way);
            std::future::pending::<bool>().await
        }
    };
    let all_once = WITHIN * u32::try_from(100_usize.div_ceil(AT_ONCE)).unwrap();
    let ended = tokio::time::timeout(2 * all_once, cache.control_loop(due, hangs)).await;
    assert!(ended.is_err(), "it ends never");
    assert_eq!(most.load(Ordering::Relaxed), AT_ONCE);
    assert_eq!(names.lock().unwrap().len(), 100, "each was tried");
    let begun = begun.load(Ordering::Relaxed);
    assert!(begun <= 2 * 100 + AT_ONCE, "tried {begun} times");
}

struct Left<'a>(&'a AtomicUsize);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_longer_due_when_its_turn_comes_is_not_done() {
    let cache = many(2 * AT_ONCE);
    let done = Mutex::new(BTreeSet::new());
    let due = |state: &State| {
        let pools = state.pools.values().filter(|pool| pool.replicas == 1);
        pools.map(|pool| pool.name.clone()).collect::<Vec<_>>()
    };
    let works = |name: String| {
        // While the first ones are written, somebody changes all.
        for n in 0..2 * AT_ONCE {
            cache.apply(&pool_event(&pool(&format!("pool-{n:03}"), 2, 0, 5)));
        }
        let fresh = done.lock().unwrap().insert(name);
        async move { fresh }
    };
    let minute = Duration::from_secs(60);
    let ended = tokio::time::timeout(minute, cache.control_loop(due, works)).await;
    assert!(ended.is_err(), "it ends never");
    assert_eq!(
        done.lock().unwrap().len(),
        AT_ONCE,
        "decided on what is known now"
    );
}
