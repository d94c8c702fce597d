//! Divides seats by weights: Webster's method (Sainte-Laguë) with caps.
//!
//! Seats go one by one to whoever has the largest weight / (2 · seats + 1) and is below its cap.
//! Invariant: for the same weights, caps, held seats and ties, one seat more never takes a seat away from
//! anybody. Integers only. Source: clouds.md 11.1.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::budget::Micros;

/// Who takes part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Share<T> {
    /// Its weight; 0 gets nothing.
    pub weight: u32,
    /// The most seats it may have; `u32::MAX` where nothing limits it.
    pub cap: u32,
    /// Seats it has now. Among equals whoever has the seat already keeps it, so that no tie, and so no
    /// price, ever moves a seat. 0 where that is not wanted.
    pub held: u32,
    /// Decides among equals after that: the smallest first. Different for each.
    pub tie: T,
}

/// Who got what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Apportioned {
    /// Seats of each, in the order of the input.
    pub seats: Vec<u32>,
    /// Seats that nobody may have: all caps are reached, or nobody has a weight. No error.
    pub missing: u32,
}

/// The tie of pools: the lower hourly price, one that is not known after every one that is, then the name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ByPrice<'a> {
    /// Price of the next machine there.
    pub hourly: Option<Micros>,
    /// Its name.
    pub name: &'a str,
}

impl ByPrice<'_> {
    fn key(&self) -> (bool, Option<Micros>, &str) {
        (self.hourly.is_none(), self.hourly, self.name)
    }
}

impl Ord for ByPrice<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for ByPrice<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Divides. Takes a time that does not grow with `seats` but by its logarithm: whoever asks for four
/// thousand million machines gets the answer as fast.
#[must_use]
pub fn apportion<T: Ord>(seats: u32, shares: &[Share<T>]) -> Apportioned {
    let mut given = without_doubt(seats, shares);
    let placed: u64 = given.iter().copied().map(u64::from).sum();
    let mut missing = u64::from(seats).saturating_sub(placed);
    let open = |share: &Share<T>, seats: u32| share.weight > 0 && seats < share.cap;
    let mut queue: BinaryHeap<_> = shares
        .iter()
        .zip(&given)
        .enumerate()
        .filter(|(_, (share, seats))| open(share, **seats))
        .map(|(index, (share, seats))| Candidate {
            share,
            seats: *seats,
            index,
        })
        .collect();
    while missing > 0 {
        let Some(mut best) = queue.pop() else {
            break;
        };
        best.seats += 1;
        given[best.index] = best.seats;
        missing -= 1;
        if open(best.share, best.seats) {
            queue.push(best);
        }
    }
    Apportioned {
        seats: given,
        missing: u32::try_from(missing).unwrap_or(u32::MAX),
    }
}

/// Which of two has the stronger claim on one seat more: the larger weight / (2 · seats + 1).
#[must_use]
pub fn claim(weight: u32, seats: u32, other_weight: u32, other_seats: u32) -> Ordering {
    let product = |weight: u32, seats: u32| u128::from(weight) * (2 * u128::from(seats) + 1);
    product(weight, other_seats).cmp(&product(other_weight, seats))
}

/// Fineness of the quotients that [`without_doubt`] compares with. So large that between two of them
/// nobody, whatever its weight, has more than one seat.
const SCALE: u128 = 1 << 33;

/// The seats whose quotient is at least SCALE / m, for the largest m for which there are enough seats. All
/// of them come before all others in the order of the method, so they are given without asking for ties;
/// of what is left nobody gets more than two.
fn without_doubt<T>(seats: u32, shares: &[Share<T>]) -> Vec<u32> {
    let at = |m: u128, share: &Share<T>| {
        // weight · m ≥ SCALE · (2 · seat + 1), counted over all seats from 0.
        let number = (u128::from(share.weight) * m + SCALE) / (2 * SCALE);
        u32::try_from(number).unwrap_or(u32::MAX).min(share.cap)
    };
    let fits = |m: u128| {
        let sum: u64 = shares.iter().map(|share| u64::from(at(m, share))).sum();
        sum <= u64::from(seats)
    };
    let (mut low, mut high) = (0, SCALE * (2 * u128::from(seats) + 2));
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    shares.iter().map(|share| at(low, share)).collect()
}

struct Candidate<'a, T> {
    share: &'a Share<T>,
    seats: u32,
    index: usize,
}

impl<T: Ord> Ord for Candidate<'_, T> {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = (self.share, other.share);
        claim(a.weight, self.seats, b.weight, other.seats)
            .then_with(|| (a.held > self.seats).cmp(&(b.held > other.seats)))
            .then_with(|| b.tie.cmp(&a.tie))
            .then_with(|| Reverse(self.index).cmp(&Reverse(other.index)))
    }
}

impl<T: Ord> PartialOrd for Candidate<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for Candidate<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T: Ord> Eq for Candidate<'_, T> {}

#[cfg(test)]
mod tests;
