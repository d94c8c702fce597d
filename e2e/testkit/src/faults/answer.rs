//! Errors that a server may give, as the Kubernetes API writes them.
//!
//! Invariant: the body is a `Status` whose reason fits the code
//! (apimachinery `pkg/apis/meta/v1/types.go`), so clients see what a real server sends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::request::RequestInfo;

type Predicate = Arc<dyn Fn(&RequestInfo) -> bool + Send + Sync>;

/// An error for every n-th request that a predicate picks.
#[derive(Clone)]
pub struct Answer {
    status: u16,
    retry_after: Option<u32>,
    every: u64,
    limit: u64,
    panics: bool,
    when: Predicate,
    seen: Arc<AtomicU64>,
}

impl Answer {
    /// Answers every request with this status, for example 409, 429, 500 or 503.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            retry_after: None,
            every: 1,
            limit: u64::MAX,
            panics: false,
            when: Arc::new(|_| true),
            seen: Arc::default(),
        }
    }

    /// Has whoever waits for the answer panic, as a parser would at what it says.
    #[must_use]
    pub fn panic() -> Self {
        Self {
            panics: true,
            ..Self::status(500)
        }
    }

    /// Adds `Retry-After`, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Answers only every n-th of the picked requests (the n-th, the 2n-th, …); default 1.
    #[must_use]
    pub fn every(mut self, n: u64) -> Self {
        self.every = n.max(1);
        self
    }

    /// Answers so often and no more.
    #[must_use]
    pub fn times(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Picks requests; default: all.
    #[must_use]
    pub fn when(mut self, when: impl Fn(&RequestInfo) -> bool + Send + Sync + 'static) -> Self {
        self.when = Arc::new(when);
        self
    }

    pub(super) fn applies(&self, info: &RequestInfo) -> bool {
        if !(self.when)(info) {
            return false;
        }
        let seen = self.seen.fetch_add(1, Ordering::SeqCst) + 1;
        seen.is_multiple_of(self.every) && seen / self.every <= self.limit
    }

    pub(super) fn panics(&self) -> bool {
        self.panics
    }

    pub(super) fn response(&self) -> Response<Vec<u8>> {
        status_response(self.status, self.retry_after)
    }
}

/// A `Status` with this code.
pub(crate) fn status_response(status: u16, retry_after: Option<u32>) -> Response<Vec<u8>> {
    let mut response = Response::new(status_body(status, retry_after).into_bytes());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The JSON of a `Status` with this code.
pub(crate) fn status_body(status: u16, retry_after: Option<u32>) -> String {
    let reason = match status {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("a fault of the test: {reason}"), "reason": reason, "code": status,
    });
    if let Some(seconds) = retry_after {
        body["details"] = json!({ "retryAfterSeconds": seconds });
    }
    body.to_string()
}
