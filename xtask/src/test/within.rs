//! A run that somebody ends after some minutes: what could not end by then is not begun.
//!
//! From nothing, two cores build for an hour before the first test of the lab. A run that is ended from
//! outside says nothing of what passed. Invariant: what is left out is named, and such a run is not taken
//! for a whole one.

use std::time::Duration;

/// What T2 takes on two cores, the lab from built programs included, and taking it down: 14.5 min warm
/// (docs/benchmarks.md), 2 min of hosts that are reached by SSH, and a half more for a busy machine.
const T2: Duration = Duration::from_secs(25 * 60);

/// Why T2 is not begun; nothing where it is. `gone` is the time since the check began, `minutes` are those
/// after which it is ended.
pub(crate) fn leaves_out_t2(gone: Duration, minutes: Option<u64>) -> Option<String> {
    let all = Duration::from_secs(minutes? * 60);
    if gone + T2 <= all {
        return None;
    }
    Some(format!(
        "T2: {} min are over, it takes up to {}, and all of this is ended after {}",
        gone.as_secs() / 60,
        T2.as_secs() / 60,
        all.as_secs() / 60,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_is_left_out_in_words_when_it_could_not_end_in_time() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(leaves_out_t2(minutes(65), Some(90)), None);
        let said = leaves_out_t2(minutes(66), Some(90));
        assert_eq!(
            said.as_deref(),
            Some("T2: 66 min are over, it takes up to 25, and all of this is ended after 90"),
        );
        assert_eq!(leaves_out_t2(minutes(1000), None), None);
    }
}
