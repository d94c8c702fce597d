//! Decides whether a request is sent again.
//!
//! At most three tries within ten seconds. Reads: 429, 503, 504 and failures of the connection.
//! Writes: 429 only, which says that the request was not carried out. Invariant: a write whose
//! fate is unknown is never repeated here; the reconcile observes and decides anew.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use kube::client::Body;
use tokio::time::{Instant, Sleep};
use tower::BoxError;

use crate::backoff::Backoff;
use crate::deadline::TimedOut;

/// Tries in all, the first included.
const TRIES: u32 = 3;
/// No try starts later than this after the first.
const WITHIN: Duration = Duration::from_secs(10);
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(4));

/// The retry state of one request.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    retried: u32,
}

/// When a request was first tried. It travels with the request: the policy that is asked to copy the
/// first one belongs to the whole client.
#[derive(Clone, Copy, Debug)]
struct FirstTry(Instant);

impl Policy {
    /// How long to wait before the next try; `None` to give up.
    fn delay<B>(
        &self,
        method: &Method,
        result: &Result<Response<B>, BoxError>,
        spent: Duration,
        random: f64,
    ) -> Option<Duration> {
        if self.retried + 1 >= TRIES || !is_retryable(method, result) {
            return None;
        }
        let asked = result
            .as_ref()
            .ok()
            .and_then(retry_after)
            .unwrap_or_default();
        let delay = asked.max(BACKOFF.next(self.retried, random));
        (spent + delay <= WITHIN).then_some(delay)
    }
}

impl<B> tower::retry::Policy<Request<Body>, Response<B>, BoxError> for Policy {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        let first = request.extensions().get::<FirstTry>();
        let spent = first.map_or(Duration::ZERO, |first| first.0.elapsed());
        let delay = self.delay(request.method(), result, spent, rand::random())?;
        self.retried += 1;
        Some(tokio::time::sleep(delay))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let mut copy = Request::new(request.body().try_clone()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        if copy.extensions().get::<FirstTry>().is_none() {
            copy.extensions_mut().insert(FirstTry(Instant::now()));
        }
        Some(copy)
    }
}

fn is_retryable<B>(method: &Method, result: &Result<Response<B>, BoxError>) -> bool {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    match result {
        Ok(response) => match response.status() {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => is_read,
            _ => false,
        },
        // A request that ran into its own time-out has used up more than all tries may take.
        Err(error) => is_read && !error.is::<TimedOut>(),
    }
}

/// `Retry-After` in seconds (RFC 9110 §10.2.3); the API server never sends a date.
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let value = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16) -> Result<Response<()>, BoxError> {
        Ok(Response::builder().status(code).body(()).unwrap())
    }

    fn busy(seconds: &str) -> Result<Response<()>, BoxError> {
        Ok(Response::builder()
            .status(429)
            .header("retry-after", seconds)
            .body(())
            .unwrap())
    }

    fn retries(method: &Method, result: &Result<Response<()>, BoxError>) -> bool {
        let delay = Policy::default().delay(method, result, Duration::ZERO, 0.5);
        delay.is_some()
    }

    #[test]
    fn reads_are_retried_when_the_server_or_the_connection_fails() {
        for code in [429, 503, 504] {
            assert!(retries(&Method::GET, &answer(code)), "{code}");
        }
        assert!(retries(&Method::GET, &Err("connection refused".into())));
        for code in [200, 404, 409, 410, 500, 502] {
            assert!(!retries(&Method::GET, &answer(code)), "{code}");
        }
        assert!(!retries(&Method::GET, &Err(Box::new(TimedOut))));
    }

    #[test]
    fn writes_are_retried_only_when_they_were_surely_not_carried_out() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(retries(&method, &answer(429)), "{method}");
            for code in [503, 504, 500] {
                assert!(!retries(&method, &answer(code)), "{method} {code}");
            }
            assert!(
                !retries(&method, &Err("connection reset".into())),
                "{method}"
            );
        }
    }

    #[test]
    fn the_third_failure_is_final() {
        let delay =
            |retried| Policy { retried }.delay(&Method::GET, &answer(503), Duration::ZERO, 1.0);
        assert_eq!(delay(0), Some(Duration::from_millis(500)));
        assert_eq!(delay(1), Some(Duration::from_secs(1)));
        assert_eq!(delay(2), None);
    }

    #[test]
    fn what_the_server_asks_is_honoured_within_ten_seconds() {
        let delay = |seconds, spent| {
            let spent = Duration::from_secs(spent);
            Policy::default().delay(&Method::PATCH, &busy(seconds), spent, 0.5)
        };
        assert_eq!(delay("3", 0), Some(Duration::from_secs(3)));
        assert_eq!(delay("11", 0), None);
        assert_eq!(delay("18446744073709551615", 0), None);
        assert_eq!(delay("3", 8), None);
        assert_eq!(delay("2", 8), Some(Duration::from_secs(2)));
    }
}
