//! When a machine that was not reached is tried again.
//!
//! Invariant: at least half of the wait is certain, so that no draw makes an eager client of it: such are locked
//! out (fail2ban).

use std::time::Duration;

/// Bounds the first wait.
const FIRST: Duration = Duration::from_secs(5);
/// Bounds every wait.
pub const LONGEST: Duration = Duration::from_secs(300);

/// The wait after failure number `failures` in a row (1 is the first): between half of 5 s · 2ⁿ⁻¹ and all of it,
/// at most 5 min. `random` is uniform in `[0, 1)`; what lies outside is clamped.
#[must_use]
pub fn after(failures: u32, random: f64) -> Duration {
    let random = if random.is_nan() {
        0.0
    } else {
        random.clamp(0.0, 1.0)
    };
    let doublings = failures.saturating_sub(1).min(16);
    let ceiling = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    ceiling / 2 + (ceiling / 2).mul_f64(random)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let longest: Vec<_> = (1..=8).map(|n| after(n, 1.0).as_secs()).collect();
        assert_eq!(longest, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(after(0, 1.0), after(1, 1.0));
    }

    proptest! {
        #[test]
        fn no_wait_is_below_half_or_above_the_most(failures: u32, random: f64) {
            let wait = after(failures, random);
            prop_assert!(wait <= LONGEST);
            prop_assert!(wait >= FIRST / 2);
            prop_assert!(wait >= after(failures, 1.0) / 2);
        }
    }
}
