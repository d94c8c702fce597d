//! Pauses by the table, and the life of one probe on paused time.

use std::cell::RefCell;

use kube::core::Status;

use super::*;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn pauses_are_short_first_then_a_small_part_of_the_start_and_end_with_its_place() {
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
    for (elapsed, refused, wanted) in table {
        let found = pause(millis(elapsed), refused);
        let found = found.map(|pause| u64::try_from(pause.as_millis()).unwrap());
        assert_eq!(found, wanted, "{elapsed} ms, {refused} times");
    }
}

/// One start: answers that it gives after so many milliseconds, and when it was asked and woke somebody.
struct Played {
    begun: Instant,
    heard: Mutex<Heard>,
    asked: RefCell<Vec<Duration>>,
    woken: RefCell<Vec<Duration>>,
}

impl Played {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            heard: Mutex::new(Heard {
                start: Start::Waits(String::new()),
                refused: 0,
            }),
            asked: RefCell::default(),
            woken: RefCell::default(),
        }
    }

    /// It serves after so long.
    async fn run(&self, serves_after: Duration, woken: impl Fn(&Self)) {
        let ask = || async move {
            self.asked.borrow_mut().push(self.begun.elapsed());
            match self.begun.elapsed() >= serves_after {
                true => Ok(()),
                false => Err(refusal()),
            }
        };
        run(self.begun, &self.heard, ask, || {
            self.woken.borrow_mut().push(self.begun.elapsed());
            woken(self);
        })
        .await;
    }

    fn start(&self) -> Start {
        lock(&self.heard).start.clone()
    }
}

fn refusal() -> Error {
    let status = Status::failure("not yet", "ServiceUnavailable").with_code(503);
    Error::AskVersion(Box::new(kube::Error::Api(Box::new(status))))
}

#[tokio::test(start_paused = true)]
async fn somebody_is_woken_as_soon_as_it_answers_and_once_only() {
    let played = Played::new();
    played
        .run(millis(5_000), |played| {
            let now = match played.woken.borrow().len() {
                1 => Start::Answers,
                _ => Start::Over,
            };
            assert_eq!(played.start(), now);
        })
        .await;
    let woken = played.woken.borrow();
    assert_eq!(
        woken.len(),
        2,
        "{woken:?}: when it answers, when it is over"
    );
    assert!(woken[0] < millis(5_000) + SHORTEST * 2, "{woken:?}");
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
    let played = Played::new();
    played.run(Duration::MAX, |_| {}).await;
    assert_eq!(played.start(), Start::Over);
    let woken = played.woken.borrow();
    let over = PATIENCE..PATIENCE + Duration::from_secs(1);
    assert!(matches!(&woken[..], [at] if over.contains(at)), "{woken:?}");
    let asked = played.asked.borrow();
    let within = |from: u64, to: u64| {
        let (from, to) = (millis(from * 1_000), millis(to * 1_000));
        asked.iter().filter(|at| (from..to).contains(*at)).count()
    };
    assert!((150..=200).contains(&within(0, 6)), "{}", within(0, 6));
    assert!(within(80, 90) < 30, "{}", within(80, 90));
    assert!(asked.len() < 800, "{}", asked.len());
}

#[tokio::test(start_paused = true)]
async fn one_whose_answers_are_never_good_enough_wakes_somebody_seldom() {
    let played = Played::new();
    played
        .run(Duration::ZERO, |played| {
            let mut heard = lock(&played.heard);
            if heard.start == Start::Answers {
                heard.start = Start::Waits("not good enough".to_owned());
                heard.refused += 1;
            }
        })
        .await;
    let woken = played.woken.borrow().len();
    // 0.25 s, doubled up to 30 s, until 90 s are over.
    assert!((8..=12).contains(&woken), "{woken}");
    assert_eq!(played.start(), Start::Over);
}
