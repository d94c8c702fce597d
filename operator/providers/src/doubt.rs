//! What may be somebody's although nobody is known to have it.
//!
//! What is asked for is written down before, so in one history of what is stored nothing is made that nobody knows. Where
//! an older state is brought back, what was made after it is known to nobody, and may be in use. Whoever looks for what
//! nobody has any more therefore is told of which times that may be so, and leaves what was made then.
//!
//! Invariant: what was made in a time of doubt is confirmed by a person before it may be deleted; of two such times the one
//! that is not confirmed counts.

use jiff::{SignedDuration, Timestamp};

/// How far a cloud's clock, by which something was made, may be off from ours.
pub const SKEW: SignedDuration = SignedDuration::from_mins(10);

/// A time of which it is not known who made what.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Doubt {
    /// Its beginning; none: all that was before.
    pub from: Option<Timestamp>,
    /// Its end.
    pub to: Timestamp,
    /// A person has said that what nobody is known to have since is nobody's.
    pub is_confirmed: bool,
}

/// Whether something that nobody is known to have may be deleted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Standing {
    /// It may be somebody's.
    Doubted,
    /// It is nobody's.
    Clear,
    /// It is nobody's: a person says so.
    Confirmed,
}

impl Doubt {
    /// Whether something that was made then, by the cloud's clock, may have been made in this time.
    #[must_use]
    pub fn covers(&self, made: Timestamp) -> bool {
        let begins = |from| made.duration_since(from) >= -SKEW;
        self.from.is_none_or(begins) && made.duration_since(self.to) <= SKEW
    }
}

/// How something that was made then stands.
#[must_use]
pub fn standing(doubts: &[Doubt], made: Timestamp) -> Standing {
    let covering = doubts.iter().filter(|doubt| doubt.covers(made));
    let each = covering.map(|doubt| match doubt.is_confirmed {
        true => Standing::Confirmed,
        false => Standing::Doubted,
    });
    each.min().unwrap_or(Standing::Clear)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + 60 * minutes).unwrap()
    }

    fn doubt(from: Option<i64>, to: i64, is_confirmed: bool) -> Doubt {
        Doubt {
            from: from.map(at),
            to: at(to),
            is_confirmed,
        }
    }

    #[test]
    fn what_was_made_in_the_time_or_near_it_is_doubted_and_all_else_is_clear() {
        let doubts = [doubt(Some(100), 200, false)];
        for (made, expected) in [
            (0, Standing::Clear),
            (89, Standing::Clear),
            (90, Standing::Doubted),
            (150, Standing::Doubted),
            (210, Standing::Doubted),
            (211, Standing::Clear),
        ] {
            assert_eq!(standing(&doubts, at(made)), expected, "{made}");
        }
        assert_eq!(standing(&[], at(150)), Standing::Clear);
        assert_eq!(standing(&[doubt(None, 9, false)], at(0)), Standing::Doubted);
    }

    #[test]
    fn what_a_person_confirmed_is_nobodys_unless_another_time_covers_it() {
        let first = doubt(None, 100, true);
        assert_eq!(standing(&[first], at(50)), Standing::Confirmed);
        let both = [first, doubt(Some(40), 60, false)];
        assert_eq!(standing(&both, at(50)), Standing::Doubted);
        assert_eq!(standing(&both, at(20)), Standing::Confirmed);
    }
}
