//! What stays longer than others, and goes all the same.

use super::*;

#[test]
fn snapshot_that_somebody_wants_kept_stays_until_then() {
    let mut life = Life::new();
    life.settle();
    life.happen(Event::Finished);
    life.settle();
    let first = life.stored.newest_full().unwrap();
    let until = life.now_ms + 40 * 7 * DAY_MS;
    life.store(Name::Kept(first, until));
    // Long after every retention, with newer ones each day.
    let mut was_there_last = 0;
    for _ in 0..50 * 7 {
        life.happen(Event::Writes(3));
        life.happen(Event::Passes(DAY_MS));
        life.settle();
        life.happen(Event::Finished);
        life.settle();
        if life.stored.fulls.contains(&first) {
            was_there_last = life.now_ms;
        }
    }
    assert!(was_there_last >= until - DAY_MS, "{was_there_last} {until}");
    assert!(
        was_there_last <= until + 3 * DAY_MS,
        "{was_there_last} {until}"
    );
}

#[test]
fn identity_goes_when_no_snapshot_is_as_old_and_the_newest_never() {
    let mut life = Life::new();
    for _ in 0..60 {
        life.happen(Event::Identity);
        life.settle();
        life.happen(Event::Writes(3));
        life.settle();
        life.happen(Event::Finished);
        life.happen(Event::Passes(DAY_MS));
        life.settle();
    }
    // Those of a week and of the days beside it, by the retention of these tests.
    let many = life.stored.identities.len();
    assert!((2..=16).contains(&many), "{many}");
    let told = life.identity;
    for _ in 0..60 {
        life.happen(Event::Writes(3));
        life.happen(Event::Passes(DAY_MS));
        life.settle();
        life.happen(Event::Finished);
        life.settle();
    }
    let left: Vec<_> = life.stored.identities.iter().copied().collect();
    assert_eq!(left, Vec::from_iter(told));
}
