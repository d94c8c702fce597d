//! When the operator may begin what nobody asked for at this moment: windows of a FleetPolicy, and of a TenantCluster.
//! They are computed from the clock, with the schedules of sleep.
//!
//! Invariant: no windows are one that is always open; what comes next is never a moment that is over.

use api::fleet_policy::Window;
use jiff::{SignedDuration, Timestamp};

use crate::hibernation::{self, Fault, Schedule};

/// How far ahead it is looked for a moment at which windows of two are open: a week, after which most come again.
const HORIZON: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Moments that are looked at for that.
const MOST_MOMENTS: usize = 128;

/// What windows say of one moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Windows {
    /// Whether any is open, or there is none.
    pub open: bool,
    /// When any of them opens or closes next.
    pub next: Option<Timestamp>,
    /// When the first one opens next; none where one is open.
    pub opens: Option<Timestamp>,
}

/// Windows that can be read.
#[derive(Clone, Debug, Default)]
pub struct Read(Vec<Schedule>);

/// Reads windows.
///
/// # Errors
/// What is wrong with them: which one, and what, for people.
pub fn read(windows: &[Window]) -> Result<Read, Vec<(usize, Fault)>> {
    let (mut read, mut faults) = (Vec::new(), Vec::new());
    for (number, window) in windows.iter().enumerate() {
        match schedule(window) {
            Ok(schedule) => read.push(schedule),
            Err(fault) => faults.push((number, fault)),
        }
    }
    match faults.is_empty() {
        true => Ok(Read(read)),
        false => Err(faults),
    }
}

/// What is wrong with windows, one sentence each. `field`: the field that has them, as `spec.windows`.
#[must_use]
pub fn told(field: &str, faults: &[(usize, Fault)]) -> Vec<String> {
    let each = faults.iter().map(|(number, fault)| {
        let Fault { field: of, message } = fault;
        format!("{field}[{number}].{of}: {message}")
    });
    each.collect()
}

impl Read {
    /// What they say of a moment.
    #[must_use]
    pub fn at(&self, now: Timestamp) -> Windows {
        let each: Vec<_> = self
            .0
            .iter()
            .map(|one| hibernation::at(std::slice::from_ref(one), now))
            .collect();
        let open = each.is_empty() || each.iter().any(|one| one.asleep_since.is_some());
        let opens = self.0.iter().filter_map(|one| one.begins(now)).min();
        Windows {
            open,
            next: each.iter().filter_map(|one| one.next).min(),
            opens: opens.filter(|_| !open),
        }
    }

    /// The first moment from now on at which a window of both is open; none where there is none within a week.
    #[must_use]
    pub fn opens_with(&self, other: &Self, now: Timestamp) -> Option<Timestamp> {
        let last = now.checked_add(HORIZON).ok()?;
        let mut moment = now;
        for _ in 0..MOST_MOMENTS {
            let (own, others) = (self.at(moment), other.at(moment));
            if own.open && others.open {
                return Some(moment);
            }
            // Neither opens before whichever is closed does.
            let next = [own, others].into_iter().filter(|one| !one.open);
            moment = next
                .map(|closed| closed.opens)
                .max()
                .flatten()
                .filter(|next| *next <= last)?;
        }
        None
    }
}

/// Open is what asleep is for a tenant cluster.
fn schedule(window: &Window) -> Result<Schedule, Fault> {
    let times = [
        ("opens", window.opens.as_str()),
        ("closes", window.closes.as_str()),
    ];
    Schedule::read_moments(times, window.time_zone.as_deref())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn window(opens: &str, closes: &str, zone: Option<&str>) -> Window {
        Window {
            opens: opens.to_owned(),
            closes: closes.to_owned(),
            time_zone: zone.map(str::to_owned),
        }
    }

    fn at(windows: &[Window], now: &str) -> (bool, Option<String>) {
        let at = read(windows).unwrap().at(time(now));
        (at.open, at.opens.map(|opens| opens.to_string()))
    }

    #[test]
    fn closed_says_when_the_next_one_opens_and_not_when_one_closes() {
        // Saturday: the one of Friday closes on Monday, and the next one opens that evening.
        let nights = [window("0 22 * * 1-4", "0 4 * * *", None)];
        let opens = Some("2026-11-23T22:00:00Z".to_owned());
        assert_eq!(at(&nights, "2026-11-21T12:00:00Z"), (false, opens));
        assert_eq!(at(&nights, "2026-11-23T22:00:00Z"), (true, None));
        assert_eq!(at(&nights, "2026-11-24T03:59:59Z"), (true, None));
        assert!(!at(&nights, "2026-11-24T04:00:00Z").0);
        assert_eq!(at(&[], "2026-11-24T04:00:00Z"), (true, None));
    }

    #[test]
    fn what_the_clock_leaves_out_opens_right_after_it_and_what_comes_twice_the_first_time() {
        let of = |hour: &str| {
            [window(
                &format!("30 {hour} * * *"),
                "0 5 * * *",
                Some("Europe/Berlin"),
            )]
        };
        // 2027-03-28 02:00 is 03:00.
        assert!(!at(&of("2"), "2027-03-28T00:59:59Z").0);
        assert!(at(&of("2"), "2027-03-28T01:00:00Z").0);
        // 2026-10-25 03:00 is 02:00 again.
        assert!(!at(&of("2"), "2026-10-25T00:29:59Z").0);
        assert!(at(&of("2"), "2026-10-25T00:30:00Z").0);
        assert!(at(&of("2"), "2026-10-25T01:30:00Z").0);
    }

    #[test]
    fn each_that_cannot_be_is_named() {
        let faults = read(&[
            window("0 22 * * *", "0 4 * * *", None),
            window("0 22 31 2 *", "0 4 * * *", None),
            window("0 22 * * *", "0 4 * * *", Some("CEST")),
            window("0 22 * * *", "0 22 * * *", None),
        ]);
        let told = told("spec.windows", &faults.unwrap_err());
        let begins = [
            "spec.windows[1].opens: \"0 22 31 2 *\" never comes",
            "spec.windows[2].timeZone: \"CEST\" is no time zone",
            "spec.windows[3].closes: \"0 22 * * *\" are the moments of `opens`, too",
        ];
        assert_eq!(told.len(), begins.len());
        for (told, begin) in told.iter().zip(begins) {
            assert!(told.starts_with(begin), "{told}");
        }
    }

    #[test]
    fn two_that_are_never_open_together_are_found_out() {
        let of = |opens: &str, closes: &str| read(&[window(opens, closes, None)]).unwrap();
        let (nights, days) = (of("0 22 * * *", "0 4 * * *"), of("0 8 * * *", "0 18 * * *"));
        let now = time("2026-11-21T12:00:00Z");
        assert_eq!(nights.opens_with(&days, now), None);
        assert_eq!(days.opens_with(&Read::default(), now), Some(now));
        let sundays = of("0 3 * * 0", "0 6 * * 0");
        let together = Some(time("2026-11-22T03:00:00Z"));
        assert_eq!(nights.opens_with(&sundays, now), together);
        assert_eq!(sundays.opens_with(&nights, now), together);
        let yearly = of("0 3 1 1 *", "0 6 1 1 *");
        assert_eq!(
            yearly.opens_with(&Read::default(), now),
            None,
            "too far ahead to wait for"
        );
    }

    proptest! {
        /// What it says of the next opening is so, and nothing is open before.
        #[test]
        fn nothing_is_open_before_the_next_opening(
            opens in (0..24_u8, 0..7_u8), closes in (0..24_u8, 0..7_u8), minute in 0..20_160_i64,
        ) {
            prop_assume!(opens != closes);
            let of = |(hour, day): (u8, u8)| format!("0 {hour} * * {day}");
            let read = read(&[window(&of(opens), &of(closes), Some("America/New_York"))]).unwrap();
            let now = time("2026-10-25T00:00:00Z") + SignedDuration::from_mins(minute);
            let said = read.at(now);
            prop_assert_eq!(said.opens.is_none(), said.open);
            if let Some(opens) = said.opens {
                prop_assert!(opens > now && read.at(opens).open);
                let before = opens - SignedDuration::from_secs(1);
                prop_assert!(!read.at(before).open);
                prop_assert!(read.at(now).next.is_some_and(|next| next <= opens));
            }
        }
    }
}
