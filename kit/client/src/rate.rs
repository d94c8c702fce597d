//! Holds requests back to a rate: a token bucket that refills evenly.
//!
//! Invariant: in any span of t seconds at most `burst + qps * t` requests pass, in the order in
//! which they came. The Lease's requests pass freely, or a busy leader would lose its Lease.

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
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.qps).min(self.burst) - 1.0;
        self.filled = self.filled.max(now);
        // A rate near zero must not overflow the duration.
        Duration::try_from_secs_f64((-self.tokens / self.qps).max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// Limits all services made by this layer together.
#[derive(Clone, Debug)]
pub struct RateLayer {
    bucket: Arc<Mutex<Bucket>>,
}

impl RateLayer {
    /// `qps` requests a second in the long run (above 0), `burst` at once (at least 1).
    pub fn new(qps: f64, burst: u32) -> Self {
        let bucket = Bucket::new(qps.max(f64::MIN_POSITIVE), burst.max(1), Instant::now());
        Self {
            bucket: Arc::new(Mutex::new(bucket)),
        }
    }
}

impl<S> Layer<S> for RateLayer {
    type Service = RateLimited<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimited {
            inner,
            bucket: Arc::clone(&self.bucket),
        }
    }
}

/// A service behind a [`RateLayer`].
#[derive(Clone, Debug)]
pub struct RateLimited<S> {
    inner: S,
    bucket: Arc<Mutex<Bucket>>,
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
            false => {
                let mut bucket = self.bucket.lock().unwrap_or_else(PoisonError::into_inner);
                bucket.take(Instant::now())
            }
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
