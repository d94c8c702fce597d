//! The clock of this machine.
//!
//! Invariant: nothing that decides reads it; plans are told the time.

use std::time::SystemTime;

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
