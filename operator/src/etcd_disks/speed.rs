//! Whether the disk of a member is slow, from what its metrics said now and then.
//!
//! Invariant: it is slow since a moment from which on there was no gap in what is known; slow ends only where it is
//! clearly faster.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use crate::tenant_session::etcd::disk_times::DiskTimes;

/// Over so long it is judged (operations.md §4.5). What is older, or of before a gap that is longer, says nothing.
const WINDOW: Duration = Duration::from_mins(5);
/// From so long on: the first reading is only where it begins.
const LEAST: Duration = Duration::from_mins(2);
/// Time between two readings: their answer has some ten thousand bytes.
const PAUSE: Duration = Duration::from_secs(75);
/// Readings that are kept: those of a window, and one before.
const MOST: usize = 8;
/// Slower than this is slow (operations.md §4.5); etcd's own advice is a tenth of it.
const SLOW: Duration = Duration::from_millis(100);
/// One that is slow is so until it is faster than this.
const FAST: Duration = Duration::from_millis(50);

/// What the slowest of a hundred writes took, of those that were enough to say so.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Figures {
    /// To have the log on the disk.
    pub fsync: Option<Duration>,
    /// To commit to the database.
    pub commit: Option<Duration>,
}

impl Figures {
    fn worst(self) -> Option<Duration> {
        self.fsync.max(self.commit)
    }
}

/// How fast the disk of a member is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Speed {
    /// It was not read, or not for long enough, or hardly anything was written.
    #[default]
    Unknown,
    /// Fast enough.
    Fast,
    /// Slow.
    Slow {
        /// Since then, without a gap.
        since: Timestamp,
        /// How slow.
        figures: Figures,
    },
}

impl Speed {
    /// Whether it is slow.
    #[must_use]
    pub fn is_slow(self) -> bool {
        matches!(self, Self::Slow { .. })
    }

    /// Whether both say the same, whatever the figures.
    #[must_use]
    pub fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Slow { since, .. }, Self::Slow { since: also, .. }) => since == also,
            (one, other) => one == other,
        }
    }
}

/// What is known of the disks of an etcd's members.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Disks {
    /// By name of the member.
    pub speeds: BTreeMap<String, Speed>,
    /// When the lead was last taken from a member whose disk is slow.
    pub moved: Option<Timestamp>,
}

impl Disks {
    /// How fast a member's is.
    #[must_use]
    pub fn of(&self, member: &str) -> Speed {
        self.speeds.get(member).copied().unwrap_or_default()
    }

    /// Members whose disks are slow, since when, and how slow.
    pub fn slow(&self) -> impl Iterator<Item = (&str, Timestamp, Figures)> {
        self.speeds.iter().filter_map(|(name, speed)| match speed {
            Speed::Slow { since, figures } => Some((name.as_str(), *since, *figures)),
            Speed::Fast | Speed::Unknown => None,
        })
    }
}

/// What was read of one member's disk.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    kept: VecDeque<(Timestamp, DiskTimes)>,
    judged: Speed,
}

impl Readings {
    /// Whether it may be read again.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.age(now).is_none_or(|age| age >= PAUSE)
    }

    /// Takes in what was read now.
    pub fn take(&mut self, now: Timestamp, times: DiskTimes) {
        let last = self.kept.back();
        let is_same_process = last.is_some_and(|(_, last)| times.since(last).is_some());
        if !is_same_process || self.age(now).is_none_or(|age| age > WINDOW) {
            self.kept.clear();
            self.judged = Speed::Unknown;
        }
        self.kept.push_back((now, times));
        // The oldest goes where the next one is as old as the window, or there are too many.
        while self.kept.len() > MOST
            || self
                .kept
                .get(1)
                .is_some_and(|(at, _)| elapsed(*at, now) >= WINDOW)
        {
            self.kept.pop_front();
        }
        self.judged = self.judge(now);
    }

    /// What is known of it now.
    #[must_use]
    pub fn speed(&self, now: Timestamp) -> Speed {
        match self.age(now) {
            Some(age) if age <= WINDOW => self.judged,
            _ => Speed::Unknown,
        }
    }

    fn age(&self, now: Timestamp) -> Option<Duration> {
        self.kept.back().map(|(at, _)| elapsed(*at, now))
    }

    fn judge(&self, now: Timestamp) -> Speed {
        let (Some((from, first)), Some((_, last))) = (self.kept.front(), self.kept.back()) else {
            return Speed::Unknown;
        };
        let window = last.since(first).filter(|_| elapsed(*from, now) >= LEAST);
        let Some(window) = window else {
            return Speed::Unknown;
        };
        let figures = Figures {
            fsync: window.fsync.slowest(),
            commit: window.commit.slowest(),
        };
        let Some(worst) = figures.worst() else {
            return Speed::Unknown;
        };
        match self.judged {
            Speed::Slow { since, .. } if worst >= FAST => Speed::Slow { since, figures },
            _ if worst > SLOW => Speed::Slow {
                since: now,
                figures,
            },
            _ => Speed::Fast,
        }
    }
}

/// Time since then; zero where that is in the future.
#[must_use]
pub fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;

    use super::*;
    use crate::tenant_session::etcd::disk_times::tests::mixed;

    fn at(seconds: i64) -> Timestamp {
        let begin: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        begin + SignedDuration::from_secs(seconds)
    }

    /// A member that wrote so many fast and so many slow times more each time it was read.
    struct Member {
        readings: Readings,
        written: (u64, u64),
        now: i64,
    }

    impl Member {
        fn new() -> Self {
            Self {
                readings: Readings::default(),
                written: (0, 0),
                now: 0,
            }
        }

        fn write(&mut self, seconds: i64, fast: u64, slow: u64) -> Speed {
            self.now += seconds;
            self.written = (self.written.0 + fast, self.written.1 + slow);
            let times = mixed(self.written.0, self.written.1);
            self.readings.take(at(self.now), times);
            self.speed()
        }

        fn speed(&self) -> Speed {
            self.readings.speed(at(self.now))
        }
    }

    #[test]
    fn disk_that_becomes_slow_is_seen_within_five_minutes_and_is_fast_again_once_a_window_was() {
        let mut member = Member::new();
        for reading in 0..10 {
            let speed = member.write(90, 200, 0);
            let is_known = reading >= 2;
            assert_eq!(speed == Speed::Fast, is_known, "{reading}");
        }
        let begun = member.now;
        while !member.speed().is_slow() {
            member.write(90, 100, 100);
        }
        let since = member.now;
        assert!(since - begun <= 300, "{}", since - begun);
        for _ in 0..20 {
            member.write(90, 100, 100);
        }
        let Speed::Slow {
            since: told,
            figures,
        } = member.speed()
        else {
            panic!("{:?}", member.speed())
        };
        assert_eq!(told, at(since), "it stays since when");
        assert!(figures.fsync.unwrap() > SLOW && figures.commit.unwrap() > SLOW);
        let mended = member.now;
        while member.speed().is_slow() {
            member.write(90, 200, 0);
        }
        assert!((300..=480).contains(&(member.now - mended)));
        assert_eq!(member.speed(), Speed::Fast);
    }

    #[test]
    fn pause_of_the_machine_is_no_slow_disk() {
        let mut member = Member::new();
        for _ in 0..20 {
            assert!(!member.write(90, 40, 0).is_slow());
        }
        for _ in 0..2 {
            assert!(!member.write(90, 40, 1).is_slow());
        }
    }

    #[test]
    fn what_is_not_read_for_long_or_of_another_process_is_unknown() {
        let mut member = Member::new();
        for _ in 0..5 {
            member.write(90, 0, 100);
        }
        assert!(member.speed().is_slow());
        assert!(member.readings.speed(at(member.now + 300)).is_slow());
        assert_eq!(member.readings.speed(at(member.now + 301)), Speed::Unknown);
        let mut other = Member {
            readings: member.readings.clone(),
            written: (0, 0),
            now: member.now,
        };
        assert_eq!(other.write(90, 0, 50), Speed::Unknown, "it was restarted");
        let told = member.write(310, 0, 100);
        assert_eq!(told, Speed::Unknown, "nobody knows what was meanwhile");
        member.write(90, 0, 100);
        let Speed::Slow { since, .. } = member.write(90, 0, 100) else {
            panic!("{:?}", member.speed())
        };
        assert_eq!(since, at(member.now), "it begins anew");
    }

    #[test]
    fn reading_is_due_again_after_a_pause() {
        let mut readings = Readings::default();
        assert!(readings.is_due(at(0)));
        readings.take(at(0), mixed(1, 0));
        assert!(!readings.is_due(at(74)) && readings.is_due(at(75)));
    }

    proptest! {
        /// Whatever it writes and whenever it is read: it keeps few readings, is told slow only where so many writes were,
        /// and slow since a moment at which it was read.
        #[test]
        fn slow_is_told_only_of_what_was_seen_without_a_gap(
            life in prop::collection::vec((1..700_i64, 0..300_u64, 0..5_u64, prop::bool::weighted(0.1)), 1..60),
        ) {
            let mut member = Member::new();
            let mut unbroken = 0;
            for (seconds, fast, slow, restarts) in life {
                if restarts {
                    member.written = (0, 0);
                }
                let before = member.speed();
                let begun = member.now;
                let speed = member.write(seconds, fast, slow);
                prop_assert!(member.readings.kept.len() <= MOST);
                if seconds > 300 || restarts && speed == Speed::Unknown {
                    unbroken = member.now;
                }
                if let Speed::Slow { since, .. } = speed {
                    prop_assert!(since >= at(unbroken) && since <= at(member.now));
                    prop_assert!(member.written.1 >= 3);
                    match before {
                        Speed::Slow { since: told, .. } if seconds <= 300 => prop_assert_eq!(since, told),
                        _ => prop_assert!(since > at(begun)),
                    }
                }
            }
        }
    }
}
