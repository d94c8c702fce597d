//! Holds requests back to a rate: a token bucket that refills evenly.
//!
//! A reserve is a second bucket, for what must not wait behind the rest: its requests take from it, or from
//! the common one where that is sooner, so a reserve that is used up is no worse than none.
//!
//! Invariant: in any span of t seconds at most `burst + qps * t` requests pass, in the order in
//! which they came, and of a reserve as many more as it has. The Lease's requests pass freely, or a busy
//! leader would lose its Lease.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Request;
use tokio::time::Instant;
use tower::{Layer, Service};

/// The pure core. May owe tokens: whoever comes then waits until they are paid.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    qps: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    fn new(qps: f64, burst: u32, now: Instant) -> Self {
        Self {
            qps,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            filled: now,
        }
    }

    /// Takes one token and says how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        self.tokens = self.left(now);
        self.filled = self.filled.max(now);
        self.wait_for(self.tokens)
    }

    /// How long whoever takes one token now is to wait for it.
    fn wait(&self, now: Instant) -> Duration {
        self.wait_for(self.left(now))
    }

    /// Tokens once one is taken now.
    fn left(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        (self.tokens + passed * self.qps).min(self.burst) - 1.0
    }

    fn wait_for(&self, left: f64) -> Duration {
        // A rate near zero must not overflow the duration.
        Duration::try_from_secs_f64((-left / self.qps).max(0.0)).unwrap_or(Duration::MAX)
    }
}

type Shared = Arc<Mutex<Bucket>>;

fn shared(qps: f64, burst: u32) -> Shared {
    let bucket = Bucket::new(qps.max(f64::MIN_POSITIVE), burst.max(1), Instant::now());
    Arc::new(Mutex::new(bucket))
}

/// What requests take from.
#[derive(Clone, Debug)]
struct Limit {
    common: Shared,
    reserve: Option<Shared>,
}

impl Limit {
    fn take(&self, now: Instant) -> Duration {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reserve) = &self.reserve {
            let mut reserve = reserve.lock().unwrap_or_else(PoisonError::into_inner);
            if reserve.wait(now) <= common.wait(now) {
                return reserve.take(now);
            }
        }
        common.take(now)
    }
}

/// How far a client is behind its rate. Clones are one. Default: of none, which is never behind.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Option<Shared>);

impl Backlog {
    /// How long a request waits that is sent now, of one without a reserve.
    #[must_use]
    pub fn wait(&self) -> Duration {
        let wait = |bucket: &Shared| {
            let bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.wait(Instant::now())
        };
        self.0.as_ref().map(wait).unwrap_or_default()
    }
}

/// Limits all services made by this layer, and by what is made of it, together.
#[derive(Clone, Debug)]
pub struct RateLayer {
    limit: Limit,
}

impl RateLayer {
    /// `qps` requests a second in the long run (above 0), `burst` at once (at least 1).
    pub fn new(qps: f64, burst: u32) -> Self {
        Self {
            limit: Limit {
                common: shared(qps, burst),
                reserve: None,
            },
        }
    }

    /// How far the services are behind, their reserve aside.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        Backlog(Some(Arc::clone(&self.limit.common)))
    }

    /// Another layer on the same bucket, whose requests have this reserve besides.
    #[must_use]
    pub fn with_reserve(&self, qps: f64, burst: u32) -> Self {
        Self {
            limit: Limit {
                common: Arc::clone(&self.limit.common),
                reserve: Some(shared(qps, burst)),
            },
        }
    }
}

impl<S> Layer<S> for RateLayer {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimited {
            inner,
            limit: self.limit.clone(),
        }
    }
}

/// A service behind a [`RateLayer`].
#[derive(Clone, Debug)]
pub struct RateLimited<S> {
    inner: S,
    limit: Limit,
}

impl<S, B> Service<Request<B>> for RateLimited<S>
where
    S: Service<Request<B>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone is not ready yet; the one that is goes into the future.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone);
        let wait = match is_of_lease(request.uri().path()) {
            true => Duration::ZERO,
            false => self.limit.take(Instant::now()),
        };
        Box::pin(async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            ready.call(request).await
        })
    }
}

/// Whether a request is one of the Lease's.
pub(super) fn is_of_lease(path: &str) -> bool {
    path.starts_with("/apis/coordination.k8s.io/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_passes_and_what_follows_is_spaced_evenly() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10.0, 3, now);
        let waits: Vec<_> = (0..6).map(|_| bucket.take(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200, 300]);
    }

    #[test]
    fn a_rest_refills_the_burst_and_no_more() {
        let now = Instant::now();
        let mut bucket = Bucket::new(10.0, 2, now);
        for _ in 0..4 {
            bucket.take(now);
        }
        let later = now + Duration::from_secs(60);
        let waits: Vec<_> = (0..3).map(|_| bucket.take(later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_passes_an_empty_bucket() {
        let layer = RateLayer::new(1.0, 1);
        let mut service = layer.layer(tower::service_fn(async |_: Request<()>| {
            Ok::<_, std::convert::Infallible>(Instant::now())
        }));
        let start = Instant::now();
        let mut at = async |path| {
            let request = Request::get(path).body(()).unwrap();
            service
                .call(request)
                .await
                .unwrap()
                .duration_since(start)
                .as_secs()
        };
        assert_eq!(at("/api/v1/pods").await, 0);
        assert_eq!(at("/api/v1/pods").await, 1);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases/b";
        assert_eq!(at(lease).await, 1);
        assert_eq!(at("/api/v1/pods").await, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn backlog_is_what_the_next_request_waits() {
        let layer = RateLayer::new(10.0, 2);
        let backlog = layer.backlog();
        assert_eq!(backlog.wait(), Duration::ZERO);
        for _ in 0..4 {
            layer.limit.take(Instant::now());
        }
        assert_eq!(backlog.wait(), Duration::from_millis(300));
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(backlog.wait(), Duration::ZERO);
        assert_eq!(Backlog::default().wait(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reserve_does_not_wait_behind_a_flood_and_has_an_end() {
        let common = RateLayer::new(1.0, 1);
        let urgent = common.with_reserve(0.5, 2);
        let mut waits = Vec::new();
        // The flood owes a hundred seconds.
        for _ in 0..101 {
            common.limit.take(Instant::now());
        }
        for _ in 0..4 {
            waits.push(urgent.limit.take(Instant::now()).as_secs());
        }
        assert_eq!(waits, [0, 0, 2, 4]);
        // Where the common bucket is sooner, it is taken from.
        let common = RateLayer::new(1.0, 3);
        let urgent = common.with_reserve(0.1, 1);
        let waits: Vec<_> = (0..5)
            .map(|_| urgent.limit.take(Instant::now()).as_secs())
            .collect();
        assert_eq!(waits, [0, 0, 0, 0, 1]);
    }

    proptest! {
        #[test]
        fn no_span_holds_more_than_burst_plus_rate(
            qps in 1_u32..50,
            burst in 1_u32..20,
            gaps in proptest::collection::vec(0_u64..500, 1..60),
        ) {
            let mut now = Instant::now();
            let mut bucket = Bucket::new(f64::from(qps), burst, now);
            let mut passed = Vec::new();
            for gap in gaps {
                now += Duration::from_millis(gap);
                passed.push(now + bucket.take(now));
            }
            for (first, start) in passed.iter().enumerate() {
                for (count, end) in (1_u32..).zip(&passed[first..]) {
                    let span = end.saturating_duration_since(*start).as_secs_f64();
                    let most = f64::from(burst) + f64::from(qps) * span;
                    prop_assert!(f64::from(count) <= most + 1e-3, "{count} in {span} s");
                }
            }
        }
    }
}
