//! Standings by the table; permits and wakes on a paused clock.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// As long as a prompt tenant takes, and as long as a slow one.
const PROMPTLY: Duration = Duration::from_millis(900);
const SLOWLY: Duration = Duration::from_millis(4900);

#[test]
fn only_who_was_prompt_and_not_late_lately_needs_no_permit() {
    let now = Instant::now();
    let late = |at| Standing::Late {
        at,
        held: Duration::ZERO,
        brisk: false,
    };
    let (just, once) = (late(now), late(now - LATELY));
    let table = [
        (None, false, Standing::Prompt),
        (None, true, just),
        (Some(Standing::Prompt), false, Standing::Prompt),
        (Some(Standing::Prompt), true, just),
        (Some(just), false, just),
        (Some(once), false, Standing::Prompt),
        (Some(once), true, just),
    ];
    for (before, late, wanted) in table {
        assert_eq!(
            after(before, late, false, now),
            wanted,
            "{before:?}, {late}"
        );
    }
    assert!(needs_permit(None) && needs_permit(Some(once)));
    assert!(!needs_permit(Some(Standing::Prompt)));
}

#[test]
fn a_quarter_of_the_places_and_never_none() {
    assert_eq!([16, 8, 7, 1].map(most), [4, 2, 1, 1]);
}

/// Counts wakes.
fn wake(woken: &Arc<AtomicUsize>) -> Wake {
    let woken = Arc::clone(woken);
    Box::new(move || {
        woken.fetch_add(1, Ordering::Relaxed);
    })
}

async fn takes_so_long(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}

fn enter(bulkhead: &Bulkhead, uid: &str) -> Option<Pass> {
    bulkhead.enter(uid, uid, &Budget::default(), Box::new(|| {}))
}

type Woken = Arc<Mutex<Vec<&'static str>>>;

/// A bulkhead with one permit, and who was woken.
fn one_permit() -> (Bulkhead, Woken) {
    (Bulkhead::new(Standings::default(), 4), Woken::default())
}

/// Enters, and is among `woken` once there is a permit.
fn told(bulkhead: &Bulkhead, uid: &'static str, woken: &Woken) -> Option<Pass> {
    let woken = Arc::clone(woken);
    let wake = Box::new(move || lock(&woken).push(uid));
    bulkhead.enter(uid, uid, &Budget::default(), wake)
}

async fn ask(bulkhead: &Bulkhead, uid: &str, takes: Duration) -> Result<(), Interrupted> {
    let pass = enter(bulkhead, uid);
    let pass = pass.ok_or(Interrupted::Busy)?;
    pass.within(takes_so_long(takes)).await
}

#[tokio::test(start_paused = true)]
async fn who_is_not_known_needs_a_permit_and_who_gets_none_is_woken_in_turn() {
    let bulkhead = Bulkhead::new(Standings::default(), 8);
    let woken = Arc::new(AtomicUsize::new(0));
    let enter = |uid: &str| bulkhead.enter(uid, uid, &Budget::default(), wake(&woken));
    let (first, second) = (enter("a").unwrap(), enter("b").unwrap());
    assert!(enter("c").is_none() && enter("d").is_none());
    assert!(enter("c").is_none(), "it asks again");
    assert_eq!(bulkhead.counts(), (2, 2));
    drop(first);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let third = enter("d").unwrap();
    drop((second, third));
    assert_eq!(bulkhead.counts(), (0, 0));
    assert_eq!(woken.load(Ordering::Relaxed), 2);
}

/// Bench `neighbours`: a tenant that started among four hundred that are dead or slow took a second once, and
/// then waited for all of them.
#[tokio::test(start_paused = true)]
async fn who_was_slow_for_the_first_time_waits_for_none_that_always_is() {
    let (bulkhead, woken) = one_permit();
    let enter = |uid| told(&bulkhead, uid, &woken);
    for slow in ["a", "b", "c"] {
        ask(&bulkhead, slow, SLOWLY).await.unwrap();
    }
    let held = enter("a").unwrap();
    assert!(enter("b").is_none() && enter("c").is_none() && enter("starts").is_none());
    drop(held);
    assert_eq!(*lock(&woken), ["starts"]);
    assert!(enter("a").is_none(), "the permit is kept for who was woken");
    let held = enter("starts").unwrap();
    drop(held);
    assert_eq!(*lock(&woken), ["starts", "b"]);
    // One that does not come keeps nobody waiting for long.
    tokio::time::advance(INVITED).await;
    assert!(enter("a").is_some());
}

/// Whoever comes finds out for all who wait that somebody who was woken did not.
#[tokio::test(start_paused = true)]
async fn permits_of_those_who_do_not_come_go_to_others_though_nobody_gives_one_back() {
    let (bulkhead, woken) = one_permit();
    let enter = |uid| told(&bulkhead, uid, &woken);
    ask(&bulkhead, "slow", SLOWLY).await.unwrap();
    let held = enter("slow").unwrap();
    assert!(enter("gone").is_none() && enter("b").is_none());
    drop(held);
    assert_eq!(*lock(&woken), ["gone"]);
    tokio::time::advance(INVITED / 2).await;
    assert!(enter("slow").is_none());
    assert_eq!(*lock(&woken), ["gone"]);
    tokio::time::advance(INVITED).await;
    let held = enter("c").unwrap();
    assert!(enter("slow").is_none());
    drop(held);
    assert_eq!(*lock(&woken), ["gone", "b"]);
}

/// Bench `neighbours`: one that started took a second for a hundred answers, and waited for all that give none.
#[tokio::test(start_paused = true)]
async fn who_gives_each_answer_soon_waits_for_none_that_gives_none() {
    let (bulkhead, woken) = one_permit();
    let enter = |uid| told(&bulkhead, uid, &woken);
    bulkhead.standings.answered("starts");
    let held = enter("dead-0").unwrap();
    assert!(enter("dead-1").is_none() && enter("dead-2").is_none());
    // It needs no permit, however much there is to ask.
    let budget = Budget::default();
    let pass = bulkhead.enter("starts", "starts", &budget, Box::new(|| {}));
    let work = async {
        for _ in 0..100 {
            takes_so_long(Duration::from_millis(40)).await;
            budget.count_answer();
        }
    };
    pass.unwrap().within(work).await.unwrap();
    assert!(budget.waited() >= 3 * budget.promptly());
    // Unless it takes long for one answer.
    let pass = enter("starts").unwrap();
    let cut = pass.within(takes_so_long(SLOWLY)).await;
    assert!(matches!(cut, Err(Interrupted::Busy)));
    drop(held);
    assert_eq!(*lock(&woken), ["dead-1"], "it gave no answer this time");
}

/// Bench `neighbours`: each of four hundred took its permit for a look at etcd, which woke the next, and had
/// none for the API, of which nothing was known for ever.
#[tokio::test(start_paused = true)]
async fn permit_is_for_all_that_a_reconcile_asks() {
    let bulkhead = Bulkhead::new(Standings::default(), 4);
    let queue = Arc::new(Mutex::new(
        (0..20).collect::<std::collections::VecDeque<_>>(),
    ));
    let mut asked = std::collections::BTreeSet::new();
    // One place of the controller: whoever is woken is reconciled after those before it.
    for _ in 0..100 {
        let Some(number) = lock(&queue).pop_front() else {
            break;
        };
        let (uid, budget) = (format!("dead-{number}"), Budget::default());
        let wake = || -> Wake {
            let queue = Arc::clone(&queue);
            Box::new(move || lock(&queue).push_back(number))
        };
        let Some(etcd) = bulkhead.enter(&uid, &uid, &budget, wake()) else {
            continue;
        };
        etcd.within(takes_so_long(Duration::from_millis(5)))
            .await
            .unwrap();
        let Some(api) = bulkhead.enter(&uid, &uid, &budget, wake()) else {
            continue;
        };
        api.within(takes_so_long(Duration::MAX)).await.unwrap_err();
        asked.insert(number);
    }
    assert_eq!(asked.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn prompt_tenants_need_no_permit_however_many_the_others_hold() {
    let bulkhead = Bulkhead::new(Standings::default(), 4);
    ask(&bulkhead, "prompt", PROMPTLY).await.unwrap();
    bulkhead.standings.answered("started");
    let _held = enter(&bulkhead, "dead").unwrap();
    ask(&bulkhead, "prompt", PROMPTLY).await.unwrap();
    ask(&bulkhead, "started", PROMPTLY).await.unwrap();
    let other = ask(&bulkhead, "other", PROMPTLY).await;
    assert!(matches!(other, Err(Interrupted::Busy)));
}

#[tokio::test(start_paused = true)]
async fn prompt_tenant_that_turns_slow_is_cut_off_where_there_is_no_permit() {
    let bulkhead = Bulkhead::new(Standings::default(), 4);
    ask(&bulkhead, "a", PROMPTLY).await.unwrap();
    let held = enter(&bulkhead, "dead").unwrap();
    let begun = Instant::now();
    let cut = ask(&bulkhead, "a", SLOWLY).await;
    assert!(matches!(cut, Err(Interrupted::Busy)));
    assert_eq!(begun.elapsed(), Budget::default().promptly());
    drop(held);
    ask(&bulkhead, "a", SLOWLY).await.unwrap();
    let _held = enter(&bulkhead, "dead").unwrap();
    let late = ask(&bulkhead, "a", PROMPTLY).await;
    assert!(matches!(late, Err(Interrupted::Busy)), "it was slow lately");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_silent_ones_never_hold_more_than_their_share() {
    let bulkhead = Bulkhead::new(Standings::default(), 16);
    let (holding, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = |n: usize| {
        let (bulkhead, holding, peak) = (&bulkhead, &holding, &peak);
        async move {
            let uid = format!("silent-{n}");
            // Half of them were prompt once.
            if n.is_multiple_of(2) {
                bulkhead.standings.answered(&uid);
            }
            let budget = Budget::default();
            let Some(pass) = bulkhead.enter(&uid, &uid, &budget, Box::new(|| {})) else {
                return;
            };
            let work = async {
                takes_so_long(budget.promptly()).await;
                // From here on only with a permit.
                takes_so_long(Duration::from_millis(1)).await;
                let now = holding.fetch_add(1, Ordering::Relaxed) + 1;
                peak.fetch_max(now, Ordering::Relaxed);
                std::future::pending::<()>().await;
            };
            let before = peak.load(Ordering::Relaxed);
            let result = pass.within(work).await;
            assert!(result.is_err() && peak.load(Ordering::Relaxed) >= before);
        }
    };
    futures::future::join_all((0..100).map(one)).await;
    assert_eq!(peak.load(Ordering::Relaxed), 4);
    assert_eq!(bulkhead.counts().0, 0);
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_takes_more_than_its_budget_has_exceeded_it() {
    let bulkhead = Bulkhead::new(Standings::default(), 16);
    let exceeded = ask(&bulkhead, "a", Duration::from_secs(60)).await;
    assert!(matches!(
        exceeded,
        Err(Interrupted::Exceeded(Exceeded::Time(_)))
    ));
    assert_eq!(
        bulkhead.standings.of("a").map(|s| s == Standing::Prompt),
        Some(false)
    );
    bulkhead.standings.forget("a");
    assert_eq!(bulkhead.standings.of("a"), None);
}
