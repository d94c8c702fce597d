//! How long ago something was, in a few characters.
//!
//! Invariant: never negative: clocks differ.

use jiff::{SignedDuration, Timestamp};

/// `45s`, `12m`, `3h`, `9d`.
#[must_use]
pub fn since(then: Timestamp, now: Timestamp) -> String {
    let age = now.duration_since(then).max(SignedDuration::ZERO);
    let (minutes, hours) = (age.as_mins(), age.as_hours());
    match (minutes, hours) {
        (0..2, _) => format!("{}s", age.as_secs()),
        (2..120, _) => format!("{minutes}m"),
        (_, 0..48) => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short_and_never_negative() {
        let now: Timestamp = "2026-11-27T12:00:00Z".parse().unwrap();
        for (then, age) in [
            ("2026-11-27T11:59:15Z", "45s"),
            ("2026-11-27T11:48:00Z", "12m"),
            ("2026-11-27T09:00:00Z", "3h"),
            ("2026-11-18T12:00:00Z", "9d"),
            ("2026-11-27T12:30:00Z", "0s"),
        ] {
            assert_eq!(since(then.parse().unwrap(), now), age);
        }
    }
}
