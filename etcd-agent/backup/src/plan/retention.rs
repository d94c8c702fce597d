//! Which full snapshots are kept: everything of the last hour, then the first one of each hour, day,
//! week and month (UTC), for so many of them.
//!
//! The first of a period and not its last: what is kept does not change when more comes.
//! Invariant: the newest is kept.

use std::collections::BTreeSet;

use backup_format::FullName;

/// For how many periods a snapshot is kept, the current one counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Retention {
    /// Hours.
    pub hours: u32,
    /// Days.
    pub days: u32,
    /// Weeks, which begin on Monday.
    pub weeks: u32,
    /// Months.
    pub months: u32,
}

impl Default for Retention {
    /// Those of etcd-backup-restore's "Exponential": 24 hours, 7 days, 4 weeks; and no month.
    fn default() -> Self {
        Self {
            hours: 24,
            days: 7,
            weeks: 4,
            months: 0,
        }
    }
}

const HOUR_MS: u64 = 3600 * 1000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Those of `fulls` that are kept.
#[must_use]
pub fn kept(retention: Retention, fulls: &BTreeSet<FullName>, now_ms: u64) -> BTreeSet<FullName> {
    let Retention {
        hours,
        days,
        weeks,
        months,
    } = retention;
    let mut kept: BTreeSet<_> = fulls.last().copied().into_iter().collect();
    let last_hour = now_ms.saturating_sub(HOUR_MS);
    kept.extend(fulls.iter().filter(|full| full.taken_ms >= last_hour));
    // The first of January 1970 was a Thursday.
    let week = |ms: u64| (ms / DAY_MS + 3) / 7;
    let periods: [(u32, &dyn Fn(u64) -> u64); 4] = [
        (hours, &|ms| ms / HOUR_MS),
        (days, &|ms| ms / DAY_MS),
        (weeks, &week),
        (months, &|ms| month(ms / DAY_MS)),
    ];
    for (many, period) in periods {
        let now = period(now_ms);
        let mut seen = BTreeSet::new();
        // By time, whatever their revisions: a restore may have set them back.
        let mut by_time: Vec<_> = fulls.iter().collect();
        by_time.sort_by_key(|full| (full.taken_ms, full.revision));
        for full in by_time {
            let period = period(full.taken_ms);
            let recent = now.saturating_sub(period) < u64::from(many);
            if recent && seen.insert(period) {
                kept.insert(*full);
            }
        }
    }
    kept
}

/// Months since the beginning of the Gregorian year 0, of days since 1970; the year is counted from March,
/// so that the day that comes every four years is its last.
fn month(days: u64) -> u64 {
    // 0000-03-01 is 719468 days before 1970.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    (era * 400 + year) * 12 + month
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn full(taken_ms: u64) -> FullName {
        FullName {
            revision: taken_ms,
            next: 0,
            taken_ms,
        }
    }

    /// 2026-11-26 20:00 UTC, a Thursday.
    const NOW: u64 = 1_795_723_200_000;

    #[test]
    fn the_first_of_each_hour_day_week_and_month_is_kept() {
        let hourly: BTreeSet<_> = (0..24 * 100)
            .map(|hour| full(NOW - hour * HOUR_MS))
            .collect();
        let retention = Retention {
            hours: 24,
            days: 7,
            weeks: 4,
            months: 3,
        };
        let ages: BTreeSet<_> = kept(retention, &hourly, NOW)
            .iter()
            .map(|full| (NOW - full.taken_ms) / HOUR_MS)
            .collect();
        // 20 hours ago this day began, a Thursday; on the 1st 25 days and 20 hours ago the month.
        let day = |days: u64| 20 + days * 24;
        let mut expected: BTreeSet<u64> = (0..24).collect();
        expected.extend((0..7).map(day));
        expected.extend([3, 10, 17, 24].map(day));
        expected.extend([25, 25 + 31, 25 + 31 + 30].map(day));
        assert_eq!(ages, expected);
    }

    #[test]
    fn months_begin_on_their_first_day() {
        for (day, first) in [
            (31, true),
            (30, false),
            (59, true),
            (60, false),
            (19_782, false),
            (19_783, true),
        ] {
            // 1970-02-01, 1970-03-01, 2024-02-29, 2024-03-01.
            assert_eq!(month(day) != month(day - 1), first, "{day}");
        }
    }

    proptest! {
        #[test]
        fn the_newest_stays_and_what_is_let_go_never_comes_back(
            ages in prop::collection::btree_set(0..90 * DAY_MS, 1..40), later in 0..30 * DAY_MS,
        ) {
            let fulls: BTreeSet<_> = ages.iter().map(|age| full(NOW - age)).collect();
            let now = kept(Retention::default(), &fulls, NOW);
            prop_assert!(now.contains(fulls.last().unwrap()));
            let then = kept(Retention::default(), &fulls, NOW + later);
            prop_assert!(then.is_subset(&now), "{then:?} {now:?}");
            // What was deleted decides nothing.
            prop_assert_eq!(kept(Retention::default(), &now, NOW + later), then);
        }
    }
}
