//! How long a member's disk takes, as its metrics say (`etcd_disk_wal_fsync_duration_seconds`,
//! `etcd_disk_backend_commit_duration_seconds`): histograms since its process began, and what lies between two of them.
//!
//! Invariant: a few numbers are kept of an answer; histograms of two processes are never taken for one.

use std::time::Duration;

/// Most buckets of a histogram that is believed; etcd's have fifteen.
const MOST_BUCKETS: usize = 64;
/// Of a hundred writes one may take longer.
const SLOWEST: u64 = 100;
/// So many have to have taken so long, however few there were: one alone may have been a pause of the machine.
const FEWEST: u64 = 3;
/// Writes from which on anything is said.
const LEAST: u64 = 10;

const FSYNC: &str = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"";
const COMMIT: &str = "etcd_disk_backend_commit_duration_seconds_bucket{le=\"";

/// What a member's disk took since its process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskTimes {
    /// To have the log on the disk, before a write is acknowledged.
    pub fsync: Histogram,
    /// To commit to the database.
    pub commit: Histogram,
}

/// How often something took up to so long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Upper bounds in seconds, ascending, and how often it took that or less; the last bound is infinite.
    buckets: Vec<(f64, u64)>,
}

impl DiskTimes {
    /// Those that metrics tell of; none where they do not.
    #[must_use]
    pub fn read(metrics: &str) -> Option<Self> {
        Some(Self {
            fsync: Histogram::read(metrics, FSYNC)?,
            commit: Histogram::read(metrics, COMMIT)?,
        })
    }

    /// What came since; none where it is of another process.
    #[must_use]
    pub fn since(&self, before: &Self) -> Option<Self> {
        Some(Self {
            fsync: self.fsync.since(&before.fsync)?,
            commit: self.commit.since(&before.commit)?,
        })
    }
}

impl Histogram {
    fn read(metrics: &str, start: &str) -> Option<Self> {
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(start));
        let mut buckets = Vec::new();
        for line in lines.take(MOST_BUCKETS) {
            let (bound, count) = line.split_once("\"} ")?;
            let (bound, count): (f64, f64) = (bound.parse().ok()?, count.trim().parse().ok()?);
            let is_count = (0.0..9e15).contains(&count);
            let (last, most) = buckets.last().copied().unwrap_or((0.0, 0));
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is within these bounds"
            )]
            let whole = if is_count { count as u64 } else { return None };
            let goes_up = bound > last && whole >= most;
            if !goes_up {
                return None;
            }
            buckets.push((bound, whole));
        }
        let is_whole = buckets.len() > 1 && buckets.last()?.0.is_infinite();
        is_whole.then_some(Self { buckets })
    }

    /// How often it was.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.last().map_or(0, |(_, count)| *count)
    }

    fn since(&self, before: &Self) -> Option<Self> {
        if self.buckets.len() != before.buckets.len() {
            return None;
        }
        let both = self.buckets.iter().zip(&before.buckets);
        let between = both.map(|((bound, now), (same, then))| {
            let is_same = bound.total_cmp(same).is_eq();
            Some((*bound, now.checked_sub(*then).filter(|_| is_same)?))
        });
        let buckets: Vec<_> = between.collect::<Option<_>>()?;
        // Counts of buckets differ from each other no less than before.
        let is_ascending = buckets.windows(2).all(|two| two[0].1 <= two[1].1);
        is_ascending.then_some(Self { buckets })
    }

    /// What the slowest of a hundred took at least, and no fewer than three; within a bucket as Prometheus reckons
    /// (`histogram_quantile`). None where there are too few.
    #[must_use]
    pub fn slowest(&self) -> Option<Duration> {
        let all = self.count();
        if all < LEAST {
            return None;
        }
        // As many took less than that, or as long.
        let rank = all - (all / SLOWEST).max(FEWEST);
        let mut before = (0.0, 0);
        for bucket in &self.buckets {
            let (bound, count) = *bucket;
            if count > rank {
                let (from, fewer) = before;
                if bound.is_infinite() {
                    return Some(Duration::from_secs_f64(from));
                }
                #[expect(clippy::cast_precision_loss, reason = "it is told with two digits")]
                let part = (rank - fewer) as f64 / (count - fewer) as f64;
                return Duration::try_from_secs_f64(from + (bound - from) * part).ok();
            }
            before = (bound, count);
        }
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As many in each of etcd's buckets; the last one has no bound.
    pub(crate) fn metrics(fsync: [u64; 15], commit: [u64; 15]) -> String {
        let mut text = "# TYPE etcd_disk_wal_fsync_duration_seconds histogram\n".to_owned();
        for (start, counts) in [(COMMIT, commit), (FSYNC, fsync)] {
            let mut all = 0;
            for (number, count) in counts.into_iter().enumerate() {
                all += count;
                let bound = match number {
                    14 => "+Inf".to_owned(),
                    number => (0.001 * f64::from(1_u32 << number)).to_string(),
                };
                text += &format!("{start}{bound}\"}} {all}\n");
            }
        }
        text + "etcd_disk_wal_fsync_duration_seconds_sum 3.5\n"
    }

    /// So many that took a millisecond or two, and so many between 128 and 256.
    pub(crate) fn mixed(fast: u64, slow: u64) -> DiskTimes {
        let mut counts = [0; 15];
        (counts[1], counts[8]) = (fast, slow);
        DiskTimes::read(&metrics(counts, counts)).unwrap()
    }

    #[test]
    fn histograms_are_read_and_what_is_none_is_not() {
        let read = mixed(90, 7);
        assert_eq!((read.fsync.count(), read.commit.count()), (97, 97));
        let text = metrics([1; 15], [1; 15]);
        assert!(DiskTimes::read(&text).is_some());
        assert_eq!(DiskTimes::read(""), None);
        let start = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.002\"} ";
        for wrong in ["-1", "NaN", "1e300", "0", "x"] {
            let text = text.replace(&format!("{start}2"), &format!("{start}{wrong}"));
            assert_eq!(DiskTimes::read(&text), None, "{wrong}");
        }
        let endless = text.replace("+Inf", "99");
        assert_eq!(DiskTimes::read(&endless), None);
    }

    #[test]
    fn slowest_of_a_hundred_are_told_and_never_of_fewer_than_three() {
        let slowest = |fast, slow| mixed(fast, slow).fsync.slowest();
        assert_eq!(slowest(0, 9), None, "too few");
        let is_slow = |fast, slow| slowest(fast, slow).unwrap() >= Duration::from_millis(128);
        assert!(!is_slow(100, 2) && is_slow(100, 3));
        assert!(!is_slow(9990, 10) && is_slow(9900, 100));
        let seconds = |counts| DiskTimes::read(&metrics(counts, counts)).unwrap();
        let mut endless = [0; 15];
        endless[14] = 20;
        let slowest = seconds(endless).commit.slowest();
        assert_eq!(slowest, Some(Duration::from_millis(8192)));
    }

    #[test]
    fn other_process_is_not_taken_for_the_same() {
        let (old, new) = (mixed(900, 5), mixed(1000, 5));
        assert_eq!(new.since(&old).unwrap().fsync.count(), 100);
        assert_eq!(old.since(&new), None);
        assert_eq!(
            mixed(2000, 1).since(&old),
            None,
            "it counts more all in all"
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_is_told_lies_within_the_bounds(
            text in "((etcd_disk_wal_fsync_duration_seconds|etcd_disk_backend_commit_duration_seconds)_bucket\\{le=\"(0|1e9|\\+Inf|-1|NaN|0.5)\"\\} (-1|0|7|20|9e99|NaN)\n){0,12}",
            counts in prop::array::uniform15(0..2000_u64),
        ) {
            if let Some(times) = DiskTimes::read(&text) {
                let _ = times.fsync.slowest();
            }
            let times = DiskTimes::read(&metrics(counts, counts)).unwrap();
            if let Some(slowest) = times.fsync.slowest() {
                prop_assert!(slowest <= Duration::from_millis(8192));
            }
            prop_assert_eq!(times.since(&times).unwrap().fsync.count(), 0);
        }
    }
}
