//! What came of the probes of each tenant cluster.
//!
//! Invariant: what is counted of a tenant cluster goes when it is not probed any more.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use super::outcome::Outcome;

/// Bounds of how long a probe took, in seconds.
const BOUNDS: [f64; 6] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// What came of the probes of one.
#[derive(Clone, Debug)]
pub struct Probes {
    /// How many had which outcome, in the order of [`Outcome::ALL`].
    pub outcomes: [u64; 7],
    /// How long they took, in seconds.
    pub took: Histogram,
}

impl Default for Probes {
    fn default() -> Self {
        Self {
            outcomes: [0; 7],
            took: Histogram::new(BOUNDS),
        }
    }
}

/// Those of all, by tenant namespace. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Mutex<BTreeMap<String, Probes>>>);

impl Counts {
    /// One more.
    pub fn count(&self, tenant: &str, outcome: Outcome, took: Duration) {
        let mut all = self.lock();
        let probes = all.entry(tenant.to_owned()).or_default();
        for (count, other) in probes.outcomes.iter_mut().zip(Outcome::ALL) {
            *count += u64::from(other == outcome);
        }
        probes.took.observe(took.as_secs_f64());
    }

    /// Forgets those that `is_probed` does not say.
    pub fn retain(&self, is_probed: impl Fn(&str) -> bool) {
        self.lock().retain(|tenant, _| is_probed(tenant));
    }

    /// What came of the probes of one; none where none ended yet.
    #[must_use]
    pub fn of(&self, tenant: &str) -> Option<Probes> {
        self.lock().get(tenant).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Probes>> {
        // What is in there is valid after any single statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_per_tenant_cluster_and_forgotten_with_it() {
        let counts = Counts::default();
        for outcome in [Outcome::Ok, Outcome::Ok, Outcome::Auth] {
            counts.count("a", outcome, Duration::from_millis(5));
        }
        counts.count("b", Outcome::Timeout, Duration::from_secs(2));
        assert_eq!(counts.of("a").unwrap().outcomes, [2, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counts.of("b").unwrap().outcomes, [0, 0, 0, 1, 0, 0, 0]);
        counts.retain(|tenant| tenant == "b");
        assert!(counts.of("a").is_none() && counts.of("b").is_some());
    }
}
