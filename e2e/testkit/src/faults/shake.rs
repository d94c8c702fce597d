//! Shake mode: with `COVEY_SHAKE_SEED` in the environment each request and each event of a watch comes up
//! to 300 ms late.
//!
//! Invariant: how late follows from the seed, from how often nextest has run the test before and from the
//! number of the delay; without a seed nothing waits.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LONGEST_MS: u64 = 300;

static SEED: LazyLock<Option<u64>> = LazyLock::new(|| {
    let seed = std::env::var("COVEY_SHAKE_SEED")
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let round = std::env::var("NEXTEST_STRESS_CURRENT").unwrap_or_default();
    Some(of_round(seed, &round))
});
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Waits as long as the seed says.
pub(super) async fn pause() {
    if let Some(seed) = *SEED {
        tokio::time::sleep(delay(seed, NUMBER.fetch_add(1, Ordering::Relaxed))).await;
    }
}

/// Else each of the rounds of one process each would have the same delays.
fn of_round(seed: u64, round: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, round).hash(&mut hasher);
    hasher.finish()
}

fn delay(seed: u64, number: u64) -> Duration {
    let mut hasher = DefaultHasher::new();
    (seed, number).hash(&mut hasher);
    Duration::from_millis(hasher.finish() % (LONGEST_MS + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_follow_from_the_seed_and_are_short() {
        let delays = |seed| (0..1000).map(|n| delay(seed, n)).collect::<Vec<_>>();
        assert_eq!(delays(42), delays(42));
        assert_ne!(delays(42), delays(43));
        assert_ne!(of_round(42, "0"), of_round(42, "1"));
        let longest = delays(42).into_iter().max();
        assert!(
            longest <= Some(Duration::from_millis(LONGEST_MS)),
            "{longest:?}"
        );
        assert!(
            longest > Some(Duration::from_millis(LONGEST_MS / 2)),
            "{longest:?}"
        );
    }
}
