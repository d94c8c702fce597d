//! Pauses by the table, and the life of one probe on paused time.

use std::cell::RefCell;

use kube::core::Status;

use super::*;

/// As long as a reconcile waits for all answers.
const WAIT: Duration = Duration::from_secs(5);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn pauses_of_a_start_are_short_first_then_a_small_part_of_it_and_end_with_its_place() {
    let table = [
        (0, 0, Some(30)),
        (6_000, 0, Some(30)),
        (20_000, 0, Some(100)),
        (89_999, 0, Some(449)),
        (90_000, 0, None),
        (3_600_000, 3, None),
        (1_000, 1, Some(250)),
        (1_000, 2, Some(500)),
        (1_000, 4, Some(2_000)),
        (89_000, 1, Some(445)),
        (1_000, 100, Some(30_000)),
    ];
    pauses_are(Purpose::Startup, &table);
}

#[test]
fn pauses_of_a_silent_one_are_a_tenth_of_its_silence_and_never_end() {
    let table = [
        (0, 0, Some(1_000)),
        (10_000, 0, Some(1_000)),
        (60_000, 0, Some(6_000)),
        (86_400_000, 0, Some(60_000)),
        (0, 1, Some(1_000)),
        (0, 6, Some(8_000)),
        (86_400_000, 100, Some(300_000)),
    ];
    pauses_are(Purpose::Recovery, &table);
}

fn pauses_are(purpose: Purpose, table: &[(u64, u32, Option<u64>)]) {
    for (elapsed, refused, wanted) in table {
        let found = purpose.pause(millis(*elapsed), *refused);
        let found = found.map(|pause| u64::try_from(pause.as_millis()).unwrap());
        assert_eq!(found, *wanted, "{elapsed} ms, {refused} times");
    }
}

/// One that is probed, and when it was asked and woke somebody.
struct Played {
    purpose: Purpose,
    begun: Instant,
    known: Mutex<Known>,
    asked: RefCell<Vec<Duration>>,
    woken: RefCell<Vec<Duration>>,
}

impl Played {
    fn new(purpose: Purpose, heard: Heard) -> Self {
        Self {
            purpose,
            begun: Instant::now(),
            known: Mutex::new(Known { heard, refused: 0 }),
            asked: RefCell::default(),
            woken: RefCell::default(),
        }
    }

    fn start() -> Self {
        Self::new(Purpose::Startup, Heard::Silence(String::new()))
    }

    /// It serves after so long, and each answer takes so long.
    async fn run(&self, serves_after: Duration, takes: Duration, woken: impl Fn(&Self)) {
        let ask = || async move {
            self.asked.borrow_mut().push(self.begun.elapsed());
            let _ = tokio::time::timeout(takes, std::future::pending::<()>()).await;
            match self.begun.elapsed() >= serves_after {
                true => Ok(()),
                false => Err(refusal()),
            }
        };
        run(self.purpose, self.begun, WAIT, &self.known, ask, |_| {
            self.woken.borrow_mut().push(self.begun.elapsed());
            woken(self);
        })
        .await;
    }

    /// The same, for so long.
    async fn run_for(&self, time: Duration, serves_after: Duration, takes: Duration) {
        let run = self.run(serves_after, takes, |_| {});
        let _ = tokio::time::timeout(time, run).await;
    }

    fn heard(&self) -> Heard {
        lock(&self.known).heard.clone()
    }

    fn asked_within(&self, from: u64, to: u64) -> usize {
        let (from, to) = (millis(from * 1_000), millis(to * 1_000));
        let asked = self.asked.borrow();
        asked.iter().filter(|at| (from..to).contains(*at)).count()
    }
}

fn refusal() -> Error {
    let status = Status::failure("not yet", "ServiceUnavailable").with_code(503);
    Error::AskVersion(Box::new(kube::Error::Api(Box::new(status))))
}

#[tokio::test(start_paused = true)]
async fn somebody_is_woken_as_soon_as_it_answers_and_once_only() {
    let played = Played::start();
    played
        .run(millis(5_000), Duration::ZERO, |played| {
            let now = match played.woken.borrow().len() {
                1 => Heard::Answers,
                _ => Heard::Over,
            };
            assert_eq!(played.heard(), now);
        })
        .await;
    let woken = played.woken.borrow();
    assert_eq!(
        woken.len(),
        2,
        "{woken:?}: when it answers, when it is over"
    );
    assert!(woken[0] < millis(5_000) + millis(60), "{woken:?}");
    let later = played
        .asked
        .borrow()
        .iter()
        .filter(|at| **at > woken[0])
        .count();
    assert_eq!(later, 0, "it is left in peace while somebody looks");
}

#[tokio::test(start_paused = true)]
async fn one_that_never_answers_is_asked_less_and_less_and_then_no_more() {
    let played = Played::start();
    played.run(Duration::MAX, Duration::ZERO, |_| {}).await;
    assert_eq!(played.heard(), Heard::Over);
    let woken = played.woken.borrow();
    let over = PATIENCE..PATIENCE + Duration::from_secs(1);
    assert!(matches!(&woken[..], [at] if over.contains(at)), "{woken:?}");
    let first = played.asked_within(0, 6);
    assert!((150..=200).contains(&first), "{first}");
    let last = played.asked_within(80, 90);
    assert!(last < 30, "{last}");
    let all = played.asked.borrow().len();
    assert!(all < 800, "{all}");
}

#[tokio::test(start_paused = true)]
async fn one_whose_answers_are_never_good_enough_wakes_somebody_seldom() {
    let played = Played::start();
    played
        .run(Duration::ZERO, Duration::ZERO, |played| {
            let mut known = lock(&played.known);
            if known.heard == Heard::Answers {
                known.heard = Heard::Silence("not good enough".to_owned());
                known.refused += 1;
            }
        })
        .await;
    let woken = played.woken.borrow().len();
    // 0.25 s, doubled up to 30 s, until 90 s are over.
    assert!((8..=12).contains(&woken), "{woken}");
    assert_eq!(played.heard(), Heard::Over);
}

/// Bench `neighbours`: each dead tenant was looked at again and again, with a dozen requests at the management
/// API, only to wait for a place to ask it in.
#[tokio::test(start_paused = true)]
async fn one_that_is_dead_wakes_somebody_once_and_is_asked_less_and_less() {
    let played = Played::new(Purpose::Recovery, Heard::Nothing);
    played
        .run_for(millis(600_000), Duration::MAX, millis(1_000))
        .await;
    assert!(matches!(played.heard(), Heard::Silence(_)));
    assert_eq!(
        *played.woken.borrow(),
        [millis(1_000)],
        "to tell that it is"
    );
    assert_eq!(played.asked.borrow()[0], Duration::ZERO);
    assert!((4..=10).contains(&played.asked_within(0, 20)));
    assert!((1..=2).contains(&played.asked_within(500, 600)));
}

#[tokio::test(start_paused = true)]
async fn one_that_is_back_is_found_soon() {
    for away in [5_000, 60_000, 900_000] {
        let played = Played::new(Purpose::Recovery, Heard::Silence("it was asked".to_owned()));
        played
            .run_for(millis(2 * away), millis(away), Duration::ZERO)
            .await;
        assert_eq!(played.heard(), Heard::Answers);
        let woken = played.woken.borrow();
        let soon = away + (away / 9).clamp(1_000, 60_000);
        assert!(
            matches!(&woken[..], [at] if *at <= millis(soon)),
            "{away}: {woken:?}"
        );
    }
}

/// A reconcile has five seconds for at least three answers.
#[tokio::test(start_paused = true)]
async fn one_that_is_too_slow_for_a_reconcile_counts_as_silent() {
    for (takes, is_silent) in [(2_400, false), (2_500, true), (4_900, true)] {
        let played = Played::new(Purpose::Recovery, Heard::Nothing);
        played
            .run_for(millis(60_000), Duration::ZERO, millis(takes))
            .await;
        let silent =
            matches!(played.heard(), Heard::Silence(why) if why.contains("within the 5 s"));
        assert_eq!(silent, is_silent, "{takes} ms");
        assert_eq!(played.woken.borrow().len(), 1, "{takes} ms");
    }
}
