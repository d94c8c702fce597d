//! Request rate of each tenant at the management API: a token bucket per TenantCluster.
//!
//! What happens inside a tenant cluster has its TenantCluster reconciled, and each reconcile reads all of
//! it; whoever changes something there again and again would use up what all tenants have together. So
//! reconciles pay for their requests, and come later while there is a debt. A reconcile is never cut
//! short: it may take more than there is, and the debt is paid afterwards.
//!
//! Invariant: in any span of t seconds the ordinary reconciles of one tenant send at most [`BURST`] plus
//! [`QPS`] * t requests, and those of one reconcile more. Pure; time comes from the caller.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Requests a second in the long run.
pub const QPS: f64 = 5.0;
/// Requests at once.
pub const BURST: f64 = 50.0;

/// How much may be owed when a reconcile begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Urgency {
    /// Nothing.
    Ordinary,
    /// Somebody may be waiting: its spec changed, or it comes up for the first time. So much that only
    /// something that goes on and on owes more.
    Awaited,
    /// What was waited for has come, which happens a few times at most.
    Urgent,
    /// Any amount: it is to go.
    Goes,
}

impl Urgency {
    /// Tokens below which a reconcile is put off.
    fn floor(self) -> f64 {
        match self {
            Self::Ordinary => 0.0,
            Self::Awaited => -100.0,
            Self::Urgent => -200.0,
            Self::Goes => f64::NEG_INFINITY,
        }
    }
}

/// The buckets, by UID. Only those that are not full are kept.
#[derive(Clone, Debug)]
pub struct RequestRates {
    qps: f64,
    burst: f64,
    buckets: HashMap<String, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl Default for RequestRates {
    fn default() -> Self {
        Self::new(QPS, BURST)
    }
}

impl RequestRates {
    /// All buckets are full. `qps` above 0.
    #[must_use]
    pub fn new(qps: f64, burst: f64) -> Self {
        Self {
            qps: qps.max(f64::MIN_POSITIVE),
            burst,
            buckets: HashMap::new(),
        }
    }

    /// How long a reconcile is put off; zero when it may begin.
    #[must_use]
    pub fn wait(&self, uid: &str, urgency: Urgency, now: Instant) -> Duration {
        let missing = urgency.floor() - self.tokens(uid, now);
        // A rate near zero must not overflow the duration.
        Duration::try_from_secs_f64((missing / self.qps).max(0.0)).unwrap_or(Duration::MAX)
    }

    /// Takes what a reconcile has sent.
    pub fn pay(&mut self, uid: &str, requests: u32, now: Instant) {
        let tokens = self.tokens(uid, now) - f64::from(requests);
        let filled = now;
        self.buckets
            .insert(uid.to_owned(), Bucket { tokens, filled });
        let (qps, burst) = (self.qps, self.burst);
        self.buckets
            .retain(|_, bucket| bucket.tokens(qps, burst, now) < burst);
    }

    /// Fills a bucket, or forgets that of one that is gone.
    pub fn forget(&mut self, uid: &str) {
        self.buckets.remove(uid);
    }

    fn tokens(&self, uid: &str, now: Instant) -> f64 {
        let bucket = self.buckets.get(uid);
        bucket.map_or(self.burst, |b| b.tokens(self.qps, self.burst, now))
    }
}

impl Bucket {
    fn tokens(&self, qps: f64, burst: f64, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.tokens + passed * qps).min(burst)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(wait: Duration) -> f64 {
        (wait.as_secs_f64() * 10.0).round() / 10.0
    }

    #[test]
    fn a_creation_passes_and_is_paid_for_afterwards() {
        let (mut rates, now) = (RequestRates::default(), Instant::now());
        rates.pay("a", 60, now);
        let wait = |urgency| seconds(rates.wait("a", urgency, now));
        assert_eq!(wait(Urgency::Ordinary), 2.0);
        for urgency in [Urgency::Awaited, Urgency::Urgent, Urgency::Goes] {
            assert_eq!(wait(urgency), 0.0, "{urgency:?}");
        }
        assert_eq!(rates.wait("b", Urgency::Ordinary, now), Duration::ZERO);
        rates.forget("a");
        assert_eq!(rates.wait("a", Urgency::Ordinary, now), Duration::ZERO);
    }

    #[test]
    fn only_what_goes_is_never_put_off() {
        let (mut rates, now) = (RequestRates::default(), Instant::now());
        rates.pay("a", 300, now);
        let wait = |urgency| seconds(rates.wait("a", urgency, now));
        assert_eq!(wait(Urgency::Ordinary), 50.0);
        assert_eq!(wait(Urgency::Awaited), 30.0);
        assert_eq!(wait(Urgency::Urgent), 10.0);
        assert_eq!(wait(Urgency::Goes), 0.0);
    }

    #[test]
    fn full_buckets_are_not_kept() {
        let (mut rates, now) = (RequestRates::default(), Instant::now());
        for n in 0..100 {
            rates.pay(&n.to_string(), 20, now);
        }
        assert_eq!(rates.buckets.len(), 100);
        rates.pay("last", 1, now + Duration::from_secs(5));
        assert_eq!(rates.buckets.len(), 1);
    }

    proptest! {
        /// Whoever is woken all the time sends no more than the rate, and one reconcile more.
        #[test]
        fn no_tenant_sends_more_than_its_rate(
            costs in proptest::collection::vec(1_u32..40, 1..200),
            pause in 0_u64..500,
        ) {
            let (mut rates, begin) = (RequestRates::default(), Instant::now());
            let (mut now, mut sent) = (begin, 0.0);
            for cost in costs {
                now += rates.wait("a", Urgency::Ordinary, now) + Duration::from_millis(pause);
                let passed = now.duration_since(begin).as_secs_f64();
                prop_assert!(sent <= BURST + QPS * passed + 1e-3, "{sent} in {passed} s");
                rates.pay("a", cost, now);
                sent += f64::from(cost);
            }
        }
    }
}
