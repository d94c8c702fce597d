//! Buckets of requests: for each API, of each account in a region.
//!
//! Invariant: that one was one too many is said, and nothing of how many are left.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::thing::Place;

/// What is left, in thousandths, and since when, by whose and which it is.
pub(super) type Rates = BTreeMap<(Place, String), (i64, Timestamp)>;

/// Takes one; whether there was one.
pub(super) fn take(rates: &mut Rates, place: &Place, action: &str, now: Timestamp) -> bool {
    let (most, per_second) = match action {
        "RunInstances" | "StartInstances" => (5, 2),
        action if action.starts_with("Describe") => (100, 20),
        _ => (50, 5),
    };
    let full = most * 1000;
    let key = (place.clone(), action.to_owned());
    let (left, at) = rates.entry(key).or_insert((full, now));
    let millis = i64::try_from(now.duration_since(*at).as_millis()).unwrap_or_default();
    *left = left
        .saturating_add(millis.saturating_mul(per_second))
        .min(full);
    *at = now;
    if *left < 1000 {
        return false;
    }
    *left -= 1000;
    true
}
