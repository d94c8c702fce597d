//! A process that dies at every one of its writes.
//!
//! Invariant: after each write it died once: lives go on until one of them ends without having died.
//! Where writes follow one another, one that dies before a write leaves what one leaves that died after
//! the last write, so before a write it dies at the first only, unless [`Deaths::BothSides`] is asked
//! for.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, ensure};

use super::{Crash, FaultPlan};

/// On which sides of its writes a process dies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deaths {
    /// After each, and before the first.
    Once,
    /// After the first and then after each so many-th, and before the first: on a real server, of a flow
    /// that dies on both sides of each of its writes on the API in memory.
    Every(u64),
    /// Before each.
    Before,
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
            Self::Before => Crash::Before(number + 1),
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
    next: AtomicU64,
    /// First write whose death was outlived, before and after; 0 while there is none.
    outlived: [AtomicU64; 2],
}

impl Ledger {
    /// Nothing has lived yet.
    #[must_use]
    pub fn new(deaths: Deaths) -> Self {
        Self {
            deaths,
            next: AtomicU64::new(0),
            outlived: Default::default(),
        }
    }

    /// The death of the next life; none once all are over.
    pub fn next(&self) -> Option<Crash> {
        loop {
            let crash = self.deaths.of(self.next.fetch_add(1, Ordering::SeqCst));
            let [before, after] = self.outlived();
            let is_over = match self.deaths {
                Deaths::Once | Deaths::Every(_) | Deaths::After => after != 0,
                Deaths::Before => before != 0,
                Deaths::BothSides => before != 0 && after != 0,
            };
            if is_over {
                return None;
            }
            let side = self.side(crash);
            if side.is_some_and(|(outlived, _)| outlived.load(Ordering::SeqCst) == 0) {
                return Some(crash);
            }
        }
    }

    /// A life has outlived its death.
    pub fn survived(&self, crash: Crash) {
        if let Some((outlived, k)) = self.side(crash) {
            let _ = outlived.compare_exchange(0, k, Ordering::SeqCst, Ordering::SeqCst);
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
        if !died {
            ledger.survived(crash);
        }
    }
    let [before, after] = ledger.outlived();
    let outlived = match deaths {
        Deaths::Once | Deaths::Every(_) | Deaths::After => after,
        Deaths::Before => before,
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
