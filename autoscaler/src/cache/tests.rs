//! The loop of what is kept right.

use std::sync::Arc;

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
