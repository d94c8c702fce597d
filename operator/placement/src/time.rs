//! Arithmetic on wall-clock times that the caller gives.
//!
//! Invariant: a clock that goes back makes no time pass, and none of this overflows.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// What has passed since `since`; nothing when the clock went back.
pub(crate) fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// `after` later, or the end of time.
pub(crate) fn later(now: Timestamp, after: Duration) -> Timestamp {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    now.checked_add(after).unwrap_or(Timestamp::MAX)
}
