//! A process that dies at every one of its writes.
//!
//! Invariant: after each write it died once: lives go on until one of them ends without having died.
//! Where writes follow one another, one that dies before a write leaves what one leaves that died after
//! the last write, so before a write it dies at the first only, unless [`Deaths::BothSides`] is asked
//! for.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};

use super::{Crash, FaultPlan};

/// On which sides of its writes a process dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deaths {
    /// After each, and before the first.
    Once,
    /// After the first and then after each so many-th, and before the first: on a real server, of a flow
    /// that dies at each of its writes on a model, be it the API in memory or a world of T0.
    Every(u64),
    /// Before the first and then before each so many-th.
    Before(u64),
    /// After each.
    After,
    /// Before and after each. Of writes that are under way side by side, others may have arrived.
    BothSides,
}

/// How often in a row a request fails that a silent API does not answer, before the API is heard again: once, or with
/// `COVEY_ALL=1` in the environment five times, which takes minutes, since each waits for about 30 s.
#[must_use]
pub fn failures_of_a_silence() -> u32 {
    match is_all_asked_for() {
        true => 5,
        false => 1,
    }
}

fn is_all_asked_for() -> bool {
    std::env::var_os("COVEY_ALL").is_some_and(|value| value == "1")
}

impl Deaths {
    /// [`Self::Once`], or with `COVEY_ALL=1` in the environment [`Self::BothSides`].
    #[must_use]
    pub fn asked_for() -> Self {
        Self::Once.unless_all()
    }

    /// [`Self::Every`] `nth` write, or with `COVEY_ALL=1` in the environment [`Self::BothSides`].
    #[must_use]
    pub fn asked_for_beside_the_model(nth: u64) -> Self {
        Self::Every(nth).unless_all()
    }

    /// [`Self::Before`] each `nth` write, or with `COVEY_ALL=1` in the environment before each: of a flow that
    /// dies after each of them, too. What differs are writes that are under way side by side: then others may
    /// have arrived.
    #[must_use]
    pub fn asked_for_before(nth: u64) -> Self {
        match is_all_asked_for() {
            true => Self::Before(1),
            false => Self::Before(nth),
        }
    }

    fn unless_all(self) -> Self {
        match is_all_asked_for() {
            true => Self::BothSides,
            false => self,
        }
    }

    /// The death of the `number`-th life, from 0. Those that come after a life that outlived its death
    /// are not needed on that side.
    #[must_use]
    pub fn of(self, number: u64) -> Crash {
        match self {
            Self::Once | Self::Every(_) if number == 0 => Crash::Before(1),
            Self::Once => Crash::After(number),
            Self::Every(nth) => Crash::After((number - 1) * nth + 1),
            Self::Before(nth) => Crash::Before(number * nth + 1),
            Self::After => Crash::After(number + 1),
            Self::BothSides if number.is_multiple_of(2) => Crash::Before(number / 2 + 1),
            Self::BothSides => Crash::After(number / 2 + 1),
        }
    }
}

/// Which death is next, and from which write on nothing dies any more; lives may go on side by side.
#[derive(Debug)]
pub struct Ledger {
    deaths: Deaths,
    /// Deaths at later writes than this one are tried one by one.
    expected: u64,
    turn: Mutex<Turn>,
    /// First write whose death was outlived, before and after; 0 while there is none.
    outlived: [AtomicU64; 2],
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turn {
    /// Number of the next life.
    next: u64,
    /// One lives whose death is at a later write than is expected.
    is_beyond: bool,
}

impl Ledger {
    /// Nothing has lived yet.
    #[must_use]
    pub fn new(deaths: Deaths) -> Self {
        Self {
            deaths,
            expected: u64::MAX,
            turn: Mutex::default(),
            outlived: Default::default(),
        }
    }

    /// A life has about so many writes. Lives that die at later ones are not tried side by side: all but one
    /// of those would be in vain. Who asks for the next one meanwhile is told that there is none, and the lane
    /// of the one that lives goes on.
    #[must_use]
    pub fn expecting(self, writes: u64) -> Self {
        Self {
            expected: writes,
            ..self
        }
    }

    /// The death of the next life; none once all are over. [`Self::ended`] has to be told of each.
    pub fn next(&self) -> Option<Crash> {
        let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let [before, after] = self.outlived();
            let is_over = match self.deaths {
                Deaths::Once | Deaths::Every(_) | Deaths::After => after != 0,
                Deaths::Before(_) => before != 0,
                Deaths::BothSides => before != 0 && after != 0,
            };
            if is_over {
                return None;
            }
            let crash = self.deaths.of(turn.next);
            let needed = self
                .side(crash)
                .filter(|(outlived, _)| outlived.load(Ordering::SeqCst) == 0);
            let Some((_, k)) = needed else {
                turn.next += 1;
                continue;
            };
            let is_beyond = k > self.expected;
            if is_beyond && turn.is_beyond {
                return None;
            }
            turn.next += 1;
            turn.is_beyond |= is_beyond;
            return Some(crash);
        }
    }

    /// A life is over; it died as it was to, or outlived its death.
    pub fn ended(&self, crash: Crash, died: bool) {
        let Some((outlived, k)) = self.side(crash) else {
            return;
        };
        if !died {
            let _ = outlived.compare_exchange(0, k, Ordering::SeqCst, Ordering::SeqCst);
        }
        if k > self.expected {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            turn.is_beyond = false;
        }
    }

    /// First write (from 1) whose death was outlived, before and after; 0 where none was.
    #[must_use]
    pub fn outlived(&self) -> [u64; 2] {
        let load = |outlived: &AtomicU64| outlived.load(Ordering::SeqCst);
        self.outlived.each_ref().map(load)
    }

    fn side(&self, crash: Crash) -> Option<(&AtomicU64, u64)> {
        match crash {
            Crash::Before(k) => Some((&self.outlived[0], k)),
            Crash::After(k) => Some((&self.outlived[1], k)),
            Crash::Never => None,
        }
    }
}

/// Has a process live once without faults, and then die at its k-th write, for every k, on the sides
/// that [`Deaths::asked_for`] gives. `life` tells whether the process died in it, and what there was in
/// the end, which has to be the same each time. Gives the number of writes of a life; where it died
/// on both sides, the smaller one.
///
/// # Errors
/// When a life fails, or ends otherwise; the error says at which write.
pub async fn wherever_it_dies<T: Debug + PartialEq>(
    life: impl AsyncFn(&FaultPlan) -> Result<(bool, T)>,
) -> Result<u64> {
    live(Deaths::asked_for(), life).await
}

async fn live<T: Debug + PartialEq>(
    deaths: Deaths,
    life: impl AsyncFn(&FaultPlan) -> Result<(bool, T)>,
) -> Result<u64> {
    let (died, expected) = life(&FaultPlan::none()).await?;
    ensure!(!died, "it died without faults");
    let (mut lives, ledger) = (1, Ledger::new(deaths));
    while let Some(crash) = ledger.next() {
        let plan = FaultPlan::none();
        plan.arm(crash);
        let outcome = life(&plan).await;
        lives += 1;
        let (died, seen) = outcome.with_context(|| format!("died at the write {crash:?}"))?;
        ensure!(
            seen == expected,
            "died at the write {crash:?}: {seen:#?} is not {expected:#?}"
        );
        ledger.ended(crash, died);
    }
    let [before, after] = ledger.outlived();
    let outlived = match deaths {
        Deaths::Once | Deaths::Every(_) | Deaths::After => after,
        Deaths::Before(_) => before,
        Deaths::BothSides => before.min(after),
    };
    let writes = outlived - 1;
    eprintln!("{deaths:?}: died at each of {writes} writes, {lives} lives");
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use http::{Method, Uri};

    use super::super::Decision;
    use super::*;

    /// Writes five times.
    fn five(plan: &FaultPlan) -> bool {
        let path = Uri::from_static("/api/v1/namespaces/a/secrets/b");
        (0..5).any(|_| {
            matches!(
                plan.decide(&Method::PATCH, &path),
                Decision::Dead | Decision::SendAndDie
            )
        })
    }

    #[tokio::test]
    async fn no_write_is_left_out_and_one_side_takes_half_of_the_lives() {
        for (deaths, expected) in [(Deaths::Once, 8), (Deaths::BothSides, 13)] {
            let lives = Cell::new(0);
            let life = async |plan: &FaultPlan| {
                lives.set(lives.get() + 1);
                Ok((five(plan), ()))
            };
            assert_eq!(live(deaths, life).await.unwrap(), 5);
            assert_eq!(lives.get(), expected, "{deaths:?}");
        }
    }

    #[test]
    fn beside_a_model_the_first_write_and_some_others_are_the_last_one() {
        let deaths: Vec<_> = (0..4).map(|n| Deaths::Every(3).of(n)).collect();
        let after = Crash::After;
        assert_eq!(deaths, [Crash::Before(1), after(1), after(4), after(7)]);
        let deaths: Vec<_> = (0..3).map(|n| Deaths::Before(3).of(n)).collect();
        assert_eq!(deaths, [1, 4, 7].map(Crash::Before));
    }

    #[test]
    fn beyond_what_is_expected_one_lives_at_a_time_and_no_write_is_left_out() {
        let ledger = Ledger::new(Deaths::After).expecting(2);
        let side_by_side: Vec<_> = (0..5).map_while(|_| ledger.next()).collect();
        assert_eq!(side_by_side, [1, 2, 3].map(Crash::After));
        ledger.ended(Crash::After(1), true);
        ledger.ended(Crash::After(2), true);
        assert_eq!(ledger.next(), None);
        ledger.ended(Crash::After(3), true);
        assert_eq!(ledger.next(), Some(Crash::After(4)));
        assert_eq!(ledger.next(), None);
        ledger.ended(Crash::After(4), false);
        assert_eq!((ledger.next(), ledger.outlived()), (None, [0, 4]));
        // With fewer writes than are expected it ends, too.
        let few = Ledger::new(Deaths::BothSides).expecting(9);
        while let Some(crash) = few.next() {
            let (Crash::Before(k) | Crash::After(k)) = crash else {
                unreachable!("{crash:?}")
            };
            few.ended(crash, k <= 3);
        }
        assert_eq!(few.outlived(), [4, 4]);
    }

    #[tokio::test]
    async fn another_end_after_a_death_is_an_error_that_names_the_write() {
        let life = async |plan: &FaultPlan| {
            let died = five(plan);
            // What was written last stays away.
            Ok((died, died && plan.writes() == 3))
        };
        let error = live(Deaths::Once, life).await.unwrap_err().to_string();
        assert!(error.contains("After(3)"), "{error}");
    }
}
