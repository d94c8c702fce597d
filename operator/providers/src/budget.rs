//! How often an API may be asked: half of what a project has, because the project's owner asks it too.
//!
//! An API lets a project ask so often in an hour, refilled all the time, and may say in each answer how much is left
//! (Hetzner's documentation, "Rate Limiting"). Another has a bucket, and says how large it is and how fast it fills
//! (Azure's, "Understand how Azure Resource Manager throttles requests"). A 429 counts for the project, so it pauses
//! everything, not one Machine.
//!
//! Invariant: what changes something is let through longer than what only looks, so that looking never keeps a machine
//! from being deleted; a clock that is wrong changes nothing, since times of the API are compared with its own.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Most requests in one go: a sixth of those of an hour. With those that come back in an hour, a third, that is half.
const BURST_PART: i64 = 6;
/// Those that come back in an hour: a third of the project's.
const REFILL_PART: i64 = 3;
/// Of those in one go, kept for what changes something: one in so many.
const RESERVE_PART: i64 = 4;
/// Thousandths: what is counted in.
const UNIT: i64 = 1000;
/// Seconds in an hour.
const HOUR: i64 = 3600;
/// First pause after a 429, where the API says nothing else.
const PAUSE: i64 = 5;
/// Longest pause after a 429.
const LONGEST: i64 = 300;
/// Below this part of the project's limit only what changes something is sent: one in so many.
const LOW: u32 = 10;
/// The same of a bucket.
const BUCKET_LOW: u32 = 5;

/// What a request is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// It looks.
    Look,
    /// It makes or deletes something.
    Change,
}

/// What an answer says of the limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Told {
    /// Requests in an hour (`RateLimit-Limit`).
    pub limit: Option<u32>,
    /// Requests that are left (`RateLimit-Remaining`).
    pub remaining: Option<u32>,
    /// When all are there again, in seconds since 1970 by the API's clock (`RateLimit-Reset`).
    pub reset: Option<i64>,
    /// The API's clock, in seconds since 1970 (`Date`).
    pub date: Option<i64>,
    /// How long to wait, in seconds (`Retry-After`).
    pub retry_after: Option<i64>,
}

/// A bucket of requests, of which half are ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// Requests that it holds.
    pub most: u32,
    /// Requests that come back in each second.
    pub per_second: u32,
}

/// How requests are counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Limit {
    /// So many in an hour.
    Hour(u32),
    /// By a bucket.
    Bucket(Bucket),
}

/// How much may still be asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Budget {
    limit: Limit,
    /// Thousandths of requests that are left of our own share.
    left: i64,
    at: Timestamp,
    paused_until: Option<Timestamp>,
    pauses: u32,
    /// What was left of the project's, and when.
    remaining: Option<(u32, Timestamp)>,
}

impl Budget {
    /// A full one. `limit`: requests in an hour, until an answer says otherwise.
    #[must_use]
    pub fn new(now: Timestamp, limit: u32) -> Self {
        Self::full(now, Limit::Hour(limit))
    }

    /// A full one of a bucket, whose size no answer says.
    #[must_use]
    pub fn of_bucket(now: Timestamp, bucket: Bucket) -> Self {
        Self::full(now, Limit::Bucket(bucket))
    }

    fn full(now: Timestamp, limit: Limit) -> Self {
        let mut budget = Self {
            limit,
            left: 0,
            at: now,
            paused_until: None,
            pauses: 0,
            remaining: None,
        };
        budget.left = budget.burst();
        budget
    }

    /// Takes one request.
    ///
    /// # Errors
    /// How long to wait.
    pub fn take(&mut self, now: Timestamp, use_: Use) -> Result<(), Duration> {
        self.refill(now);
        if let Some(until) = self.paused_until {
            if now < until {
                return Err(between(now, until));
            }
            self.paused_until = None;
        }
        if use_ == Use::Look && self.is_low(now) {
            return Err(self.until_more());
        }
        let floor = match use_ {
            Use::Look => self.burst() / RESERVE_PART,
            Use::Change => 0,
        };
        let missing = floor + UNIT - self.left;
        if missing > 0 {
            let seconds = missing.div_euclid(self.rate().max(1)) + 1;
            return Err(Duration::from_secs(u64::try_from(seconds).unwrap_or(1)));
        }
        self.left -= UNIT;
        Ok(())
    }

    /// Takes in what an answer says. `throttled`: it was a 429. Gives how long everything pauses then.
    pub fn learn(&mut self, now: Timestamp, told: Told, throttled: bool) -> Option<Duration> {
        if let (Some(limit), Limit::Hour(known)) =
            (told.limit.filter(|limit| *limit > 0), &mut self.limit)
        {
            *known = limit;
        }
        if let Some(remaining) = told.remaining {
            self.remaining = Some((remaining, now));
        }
        if !throttled {
            self.pauses = 0;
            return None;
        }
        let doubled = PAUSE.saturating_mul(1 << self.pauses.min(6));
        self.pauses = self.pauses.saturating_add(1);
        // When everything is there again is later than when one request is.
        let full = told.reset.zip(told.date).map(|(reset, date)| reset - date);
        let guess = full.map_or(doubled, |full| doubled.min(full));
        let seconds = told.retry_after.unwrap_or(guess).clamp(1, LONGEST);
        let until = now.saturating_add(SignedDuration::from_secs(seconds));
        self.paused_until = Some(until.unwrap_or(now));
        u64::try_from(seconds).ok().map(Duration::from_secs)
    }

    /// Thousandths of requests that come back in a second.
    fn rate(&self) -> i64 {
        match self.limit {
            Limit::Hour(limit) => i64::from(limit) * UNIT / HOUR / REFILL_PART,
            Limit::Bucket(bucket) => i64::from(bucket.per_second) * UNIT / 2,
        }
    }

    /// Thousandths of requests in one go.
    fn burst(&self) -> i64 {
        match self.limit {
            Limit::Hour(limit) => i64::from(limit) * UNIT / BURST_PART,
            Limit::Bucket(bucket) => i64::from(bucket.most) * UNIT / 2,
        }
    }

    fn refill(&mut self, now: Timestamp) {
        let passed = now.duration_since(self.at);
        // A clock that was set back gives nothing, and takes nothing.
        let millis = i64::try_from(passed.as_millis()).unwrap_or(i64::MAX).max(0);
        let more = millis.saturating_mul(self.rate()) / UNIT;
        self.left = self.left.saturating_add(more).min(self.burst());
        self.at = now;
    }

    /// Whether little is left of the project's, as far as it is known: what was left, and what came since.
    fn is_low(&self, now: Timestamp) -> bool {
        let Some((remaining, at)) = self.remaining else {
            return false;
        };
        let passed = u64::try_from(now.duration_since(at).as_secs()).unwrap_or_default();
        let (back, low) = match self.limit {
            Limit::Hour(limit) => (
                passed.saturating_mul(u64::from(limit)) / 3600,
                u64::from(limit / LOW),
            ),
            Limit::Bucket(bucket) => (
                passed.saturating_mul(u64::from(bucket.per_second)),
                u64::from(bucket.most / BUCKET_LOW),
            ),
        };
        u64::from(remaining).saturating_add(back) < low
    }

    /// How long until as much is there again as looking leaves.
    fn until_more(&self) -> Duration {
        match self.limit {
            // By then a tenth is there again.
            Limit::Hour(_) => Duration::from_secs(60),
            Limit::Bucket(bucket) => {
                let seconds = bucket.most / BUCKET_LOW / bucket.per_second.max(1);
                Duration::from_secs(u64::from(seconds) + 1)
            }
        }
    }
}

fn between(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u32 = 3600;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn looking_leaves_a_reserve_for_changes() {
        let mut budget = Budget::new(at(0), LIMIT);
        let looks = (0..1000).filter(|_| budget.take(at(0), Use::Look).is_ok());
        assert_eq!(looks.count(), 450);
        let changes = (0..1000).filter(|_| budget.take(at(0), Use::Change).is_ok());
        assert_eq!(changes.count(), 150);
    }

    #[test]
    fn it_is_said_how_long_to_wait() {
        let mut budget = Budget::new(at(0), LIMIT);
        while budget.take(at(0), Use::Change).is_ok() {}
        let wait = budget.take(at(0), Use::Change).unwrap_err();
        let then = at(i64::try_from(wait.as_secs()).unwrap());
        assert_eq!(budget.take(then, Use::Change), Ok(()));
    }

    #[test]
    fn a_429_pauses_everything_and_longer_each_time() {
        let mut budget = Budget::new(at(0), LIMIT);
        assert_eq!(
            budget.learn(at(0), Told::default(), true),
            Some(Duration::from_secs(5))
        );
        assert_eq!(budget.take(at(1), Use::Change), Err(Duration::from_secs(4)));
        assert_eq!(budget.take(at(5), Use::Change), Ok(()));
        assert_eq!(
            budget.learn(at(5), Told::default(), true),
            Some(Duration::from_secs(10))
        );
        assert_eq!(budget.learn(at(20), Told::default(), false), None);
        assert_eq!(
            budget.learn(at(20), Told::default(), true),
            Some(Duration::from_secs(5))
        );
    }

    #[test]
    fn what_the_api_says_is_obeyed_within_reason_and_by_its_own_clock() {
        let pause = |told: Told| Budget::new(at(0), LIMIT).learn(at(0), told, true).unwrap();
        let told = Told {
            retry_after: Some(7),
            ..Told::default()
        };
        assert_eq!(pause(told).as_secs(), 7);
        let told = Told {
            retry_after: Some(100_000),
            ..Told::default()
        };
        assert_eq!(pause(told).as_secs(), 300);
        // Its clock is years away from ours.
        let told = Told {
            reset: Some(4_000_000_002),
            date: Some(4_000_000_000),
            ..Told::default()
        };
        assert_eq!(pause(told).as_secs(), 2);
        let told = Told {
            reset: Some(5),
            date: Some(4_000_000_000),
            ..Told::default()
        };
        assert_eq!(pause(told).as_secs(), 1);
    }

    #[test]
    fn while_little_is_left_of_the_projects_nothing_looks() {
        let mut budget = Budget::new(at(0), LIMIT);
        let told = Told {
            limit: Some(3600),
            remaining: Some(100),
            ..Told::default()
        };
        budget.learn(at(0), told, false);
        assert!(budget.take(at(0), Use::Look).is_err());
        assert_eq!(budget.take(at(0), Use::Change), Ok(()));
        assert_eq!(budget.take(at(300), Use::Look), Ok(()), "it came back");
    }

    #[test]
    fn of_a_bucket_half_is_taken_and_looking_waits_while_little_is_left() {
        let bucket = Bucket {
            most: 200,
            per_second: 10,
        };
        let mut budget = Budget::of_bucket(at(0), bucket);
        let mut taken = |now| {
            (0..1000)
                .filter(|_| budget.take(now, Use::Change).is_ok())
                .count()
        };
        assert_eq!(taken(at(0)), 100);
        assert_eq!(taken(at(4)), 20, "half of what came back");
        let mut budget = Budget::of_bucket(at(0), bucket);
        let told = Told {
            limit: Some(7),
            remaining: Some(20),
            ..Told::default()
        };
        budget.learn(at(0), told, false);
        let wait = budget.take(at(0), Use::Look).unwrap_err();
        assert_eq!(wait, Duration::from_secs(5));
        assert_eq!(budget.take(at(0), Use::Change), Ok(()));
        assert_eq!(budget.take(at(5), Use::Look), Ok(()), "it came back");
    }

    proptest! {
        #[test]
        fn never_more_than_half_of_the_limit_in_an_hour(
            steps in proptest::collection::vec((-20..60_i64, any::<bool>()), 1..400),
        ) {
            let mut budget = Budget::new(at(0), LIMIT);
            let (mut now, mut sent, mut passed) = (0_i64, 0_i64, 0_i64);
            for (step, change) in steps {
                now += step;
                passed += step.max(0);
                let use_ = if change { Use::Change } else { Use::Look };
                while budget.take(at(now), use_).is_ok() {
                    sent += 1;
                }
            }
            prop_assert!(sent <= 600 + passed / 3 + 1);
        }
    }
}
