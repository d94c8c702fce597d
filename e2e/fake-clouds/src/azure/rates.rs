//! Buckets of requests: for reads, for writes and for deletions, of each principal.
//!
//! Invariant: what is left is told before it is none.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::behaviour::Behaviour;

/// What is left, in thousandths, and since when, by whose and which it is.
pub(super) type Rates = BTreeMap<(String, &'static str), (i64, Timestamp)>;

/// Takes one. Gives the header that says how many are left, or after how many seconds there is one again.
pub(super) fn take(
    rates: &mut Rates,
    behaviour: &Behaviour,
    token: &str,
    method: &str,
    now: Timestamp,
) -> Result<(&'static str, u32), u64> {
    let (header, most, per_second) = match method {
        "GET" => (
            "x-ms-ratelimit-remaining-subscription-reads",
            behaviour.reads,
            25,
        ),
        "DELETE" => (
            "x-ms-ratelimit-remaining-subscription-deletes",
            behaviour.writes,
            10,
        ),
        _ => (
            "x-ms-ratelimit-remaining-subscription-writes",
            behaviour.writes,
            10,
        ),
    };
    let full = i64::from(most) * 1000;
    let key = (token.to_owned(), header);
    let (left, at) = rates.entry(key).or_insert((full, now));
    let millis = i64::try_from(now.duration_since(*at).as_millis()).unwrap_or_default();
    *left = left
        .saturating_add(millis.saturating_mul(per_second))
        .min(full);
    *at = now;
    if *left < 1000 {
        return Err(1);
    }
    *left -= 1000;
    Ok((header, u32::try_from(*left / 1000).unwrap_or_default()))
}
