//! How often a project may ask: a bucket that fills by one a second, where there are 3,600 an hour.
//!
//! Invariant: each answer says what is left, the refusals too.

use jiff::Timestamp;

/// The bucket of a project.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    /// Thousandths of requests.
    left: Option<i64>,
    at: Timestamp,
}

/// What the headers say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers {
    pub(super) limit: u32,
    pub(super) remaining: i64,
    pub(super) reset: i64,
}

impl Headers {
    /// By name.
    pub(super) fn shown(self) -> Vec<(&'static str, String)> {
        vec![
            ("ratelimit-limit", self.limit.to_string()),
            ("ratelimit-remaining", self.remaining.to_string()),
            ("ratelimit-reset", self.reset.to_string()),
            ("x-correlation-id", "fake-1".to_owned()),
        ]
    }
}

impl Bucket {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            left: None,
            at: now,
        }
    }

    /// Takes one, if there is one; and what is said of it.
    pub(super) fn take(&mut self, now: Timestamp, limit: u32) -> (bool, Headers) {
        let full = i64::from(limit) * 1000;
        let passed = i64::try_from(now.duration_since(self.at).as_millis()).unwrap_or_default();
        let left = self.left.unwrap_or(full) + passed.max(0) * i64::from(limit) / 3600;
        let left = left.min(full);
        self.at = now;
        let taken = left >= 1000;
        let left = if taken { left - 1000 } else { left };
        self.left = Some(left);
        let missing = (full - left) * 3600 / i64::from(limit.max(1)) / 1000;
        let headers = Headers {
            limit,
            remaining: left / 1000,
            reset: now.as_second() + missing,
        };
        (taken, headers)
    }
}
