//! A time in which nobody is known to have led. No clock and no client.
//!
//! What the API stores may be brought back to an older state, with the Lease as it was then. Who leads next finds a Lease
//! that was renewed long ago, and cannot tell that from a long time in which nobody led; but in both cases what was done in
//! the meantime, if anything was, stands in nothing that is stored.
//!
//! Invariant: a gap is in the Lease from the write by which one leads after it, so that it is known to the next one, too,
//! where this one ends at once.

use jiff::{SignedDuration, Timestamp};

/// Annotation of the Lease: the gap, as `from/to`, or `/to` where nobody knows its beginning.
pub(super) const ANNOTATION: &str = "covey.dev/nobody-led";
/// A renewal that is no older than this leaves none: another one leads within that after any ordinary end, and nobody
/// brings an older state back as fast.
const NO_GAP: SignedDuration = SignedDuration::from_mins(1);
/// How long it stays in the Lease: who has to know it writes it down long before.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// A time in which nobody is known to have led.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gap {
    /// When one was last known to lead; none: there was no Lease that said it.
    pub from: Option<Timestamp>,
    /// When one is known to lead again.
    pub to: Timestamp,
}

impl Gap {
    /// The time from the beginning of the first of both to the end of the last.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            from: self.from.min(other.from),
            to: self.to.max(other.to),
        }
    }

    /// As it stands in the annotation.
    pub(super) fn written(self) -> String {
        let from = self.from.map(|from| from.to_string());
        format!("{}/{}", from.unwrap_or_default(), self.to)
    }

    /// What the annotation says; none where it cannot be read.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('/')?;
        let from = match from {
            "" => None,
            from => Some(from.parse().ok()?),
        };
        let to = to.parse().ok()?;
        Some(Self { from, to })
    }
}

/// The gap that is known once we write the Lease at `now` over one that was `renewed` then, and that `told` of one. Times
/// may be of another clock than ours, and so in any order.
pub(super) fn gap(renewed: Option<Timestamp>, told: Option<Gap>, now: Timestamp) -> Option<Gap> {
    let found = match renewed {
        None => Some(Gap {
            from: None,
            to: now,
        }),
        Some(renewed) => {
            let is_gap = now.duration_since(renewed).abs() > NO_GAP;
            is_gap.then(|| Gap {
                from: Some(renewed.min(now)),
                to: renewed.max(now),
            })
        }
    };
    let told = told.filter(|told| now.duration_since(told.to) < KEPT);
    match (found, told) {
        (Some(found), Some(told)) => Some(found.with(told)),
        (found, told) => found.or(told),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + 60 * minutes).unwrap()
    }

    fn span(from: Option<i64>, to: i64) -> Gap {
        Gap {
            from: from.map(at),
            to: at(to),
        }
    }

    #[test]
    fn lease_that_was_renewed_just_now_leaves_no_gap_and_one_of_long_ago_does() {
        assert_eq!(gap(Some(at(9)), None, at(10)), None);
        let old = gap(Some(at(3)), None, at(10));
        assert_eq!(old, Some(span(Some(3), 10)));
        let ahead = gap(Some(at(15)), None, at(10));
        assert_eq!(ahead, Some(span(Some(10), 15)), "a clock that is ahead");
        let none = gap(None, None, at(10));
        assert_eq!(none, Some(span(None, 10)), "no Lease, or it does not say");
    }

    #[test]
    fn who_leads_next_knows_the_gap_of_who_ended_at_once_and_not_one_of_the_day_before() {
        let told = span(Some(3), 10);
        let next = gap(Some(at(11)), Some(told), at(11));
        assert_eq!(next, Some(told));
        let both = gap(Some(at(11)), Some(told), at(20));
        assert_eq!(both, Some(span(Some(3), 20)));
        let day = 24 * 60;
        let later = gap(Some(at(day + 10)), Some(told), at(day + 10));
        assert_eq!(later, None);
    }

    #[test]
    fn annotation_says_what_it_was_written_from() {
        for gap in [span(Some(3), 10), span(None, 10)] {
            assert_eq!(Gap::parse(&gap.written()), Some(gap));
        }
        for text in [
            "",
            "/",
            "soon",
            "2026-11-29T10:00:00Z/",
            "soon/2026-11-29T10:00:00Z",
        ] {
            assert_eq!(Gap::parse(text), None, "{text}");
        }
    }
}
