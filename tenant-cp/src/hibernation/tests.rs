//! Schedules with a virtual clock: what they say at each moment, also where the clock is put forward or back.

use proptest::prelude::*;

use super::*;

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn schedule(sleep: &str, wake: &str, zone: Option<&str>) -> HibernationSchedule {
    HibernationSchedule {
        sleep: sleep.to_owned(),
        wake: wake.to_owned(),
        time_zone: zone.map(str::to_owned),
    }
}

fn wish(schedules: &[HibernationSchedule], now: &str) -> (Option<String>, Option<String>) {
    let wish = of(schedules, time(now));
    let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
    (text(wish.asleep_since), text(wish.next))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn it_sleeps_at_night_and_over_the_weekend() {
    let nights = [schedule(
        "0 20 * * 1-5",
        "30 6 * * mon-fri",
        Some("Europe/Berlin"),
    )];
    // 2026-11-20 is a Friday; Berlin is an hour ahead of UTC then.
    for (now, asleep_since, next) in [
        ("2026-11-20T18:59:59Z", None, "2026-11-20T19:00:00Z"),
        (
            "2026-11-20T19:00:00Z",
            some("2026-11-20T19:00:00Z"),
            "2026-11-23T05:30:00Z",
        ),
        (
            "2026-11-22T12:00:00Z",
            some("2026-11-20T19:00:00Z"),
            "2026-11-23T05:30:00Z",
        ),
        ("2026-11-23T05:30:00Z", None, "2026-11-23T19:00:00Z"),
    ] {
        assert_eq!(wish(&nights, now), (asleep_since, some(next)), "{now}");
    }
    assert_eq!(wish(&[], "2026-11-20T18:59:59Z"), (None, None));
}

#[test]
fn several_are_one_and_awake_counts_where_two_say_something_at_once() {
    let both = [
        schedule("0 20 * * *", "0 6 * * *", None),
        schedule("0 12 * * *", "0 20 * * *", None),
    ];
    assert_eq!(
        wish(&both, "2026-11-20T13:00:00Z"),
        (some("2026-11-20T12:00:00Z"), some("2026-11-20T20:00:00Z"))
    );
    assert_eq!(
        wish(&both, "2026-11-20T21:00:00Z"),
        (None, some("2026-11-21T06:00:00Z"))
    );
}

/// In 2026 Berlin's clock goes from 02:00 to 03:00 on March 29, and from 03:00 back to 02:00 on October 25.
#[test]
fn time_that_does_not_exist_comes_later_and_time_that_there_is_twice_is_the_first() {
    let early = [schedule("30 2 * * *", "0 12 * * *", Some("Europe/Berlin"))];
    // 02:30 is not there: 03:00, which is 01:00 in UTC.
    assert_eq!(
        wish(&early, "2026-03-29T00:00:00Z").1,
        some("2026-03-29T01:00:00Z")
    );
    assert_eq!(
        wish(&early, "2026-03-29T01:00:00Z").0,
        some("2026-03-29T01:00:00Z")
    );
    // 02:30 is at 00:30 and at 01:30 in UTC; it comes once.
    assert_eq!(
        wish(&early, "2026-10-25T00:00:00Z").1,
        some("2026-10-25T00:30:00Z")
    );
    assert_eq!(
        wish(&early, "2026-10-25T01:00:00Z"),
        (some("2026-10-25T00:30:00Z"), some("2026-10-25T11:00:00Z"))
    );
}

#[test]
fn days_are_those_of_crontab() {
    let next = |text: &str, now: &str| {
        let times = Times::read(text).unwrap();
        times.next(&TimeZone::UTC, time(now)).unwrap().to_string()
    };
    let now = "2026-11-20T18:00:00Z";
    // Either day, where both are limited.
    assert_eq!(next("0 1 24 * sun", now), "2026-11-22T01:00:00Z");
    assert_eq!(next("0 1 24 * *", now), "2026-11-24T01:00:00Z");
    assert_eq!(next("0 1 * * 7", now), "2026-11-22T01:00:00Z");
    assert_eq!(next("0 1 29 2 *", now), "2028-02-29T01:00:00Z");
    assert_eq!(
        next("0 1 29 2 *", "2096-03-01T00:00:00Z"),
        "2104-02-29T01:00:00Z"
    );
    assert_eq!(next("*/30 1,13 1 jan *", now), "2027-01-01T01:00:00Z");
}

#[test]
fn what_cannot_be_had_is_refused_and_said_how_to_mend() {
    for (sleep, wake, zone, field, words) in [
        (
            "0 20 * *",
            "0 7 * * *",
            None,
            "sleep",
            "has not five fields: write minute",
        ),
        ("", "0 7 * * *", None, "sleep", "has not five fields"),
        ("0 20 * * *", "0 24 * * *", None, "wake", "cannot be read"),
        ("0 20 * * *", "0 7 * * mo", None, "wake", "cannot be read"),
        ("0 20 0 * *", "0 7 * * *", None, "sleep", "cannot be read"),
        ("0 20 9-3 * *", "0 7 * * *", None, "sleep", "cannot be read"),
        ("0/0 20 * * *", "0 7 * * *", None, "sleep", "cannot be read"),
        (
            "* 20 * * *",
            "0 7 * * *",
            None,
            "sleep",
            "more than 4 times a day: name the minute",
        ),
        (
            "0 20 30 2 *",
            "0 7 * * *",
            None,
            "sleep",
            "never comes: no such month",
        ),
        ("0 20 * * *", "0 20 * 1-12 *", None, "wake", "choose others"),
        ("0 20 L * *", "0 7 * * *", None, "sleep", "does not have"),
        ("@daily", "0 7 * * *", None, "sleep", "has not five fields"),
        ("0 20 ? * 1#2", "0 7 * * *", None, "sleep", "does not have"),
        (
            "0 20 * * *",
            "0 7 * * *",
            Some("Mars/Olympus"),
            "timeZone",
            "as Europe/Berlin",
        ),
        (
            "0 20 * * *",
            "0 7 * * *",
            Some("../etc/passwd"),
            "timeZone",
            "remove the field for UTC",
        ),
    ] {
        let fault = Schedule::read(&schedule(sleep, wake, zone)).unwrap_err();
        assert_eq!(fault.field, field, "{fault:?}");
        assert!(fault.message.contains(words), "{fault:?}");
    }
}

fn texts() -> impl Strategy<Value = HibernationSchedule> {
    let times = || {
        (
            0..60_u8,
            0..24_u8,
            prop::sample::select(vec!["*", "1-5", "sat,sun", "3"]),
        )
            .prop_map(|(minute, hour, days)| format!("{minute} {hour} * * {days}"))
    };
    let zone = prop::sample::select(vec![
        None,
        Some("Europe/Berlin"),
        Some("America/New_York"),
        Some("Australia/Lord_Howe"),
        Some("Pacific/Apia"),
    ]);
    (times(), times(), zone).prop_map(|(sleep, wake, zone)| schedule(&sleep, &wake, zone))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What is said changes at the moments that are told before, and at no other.
    #[test]
    fn nothing_changes_before_the_next_moment(
        schedules in prop::collection::vec(texts(), 1..4),
        start in 1_600_000_000_i64..1_900_000_000,
        part in 0..100_i64,
    ) {
        let now = Timestamp::from_second(start).unwrap();
        let wish = of(&schedules, now);
        if let Some(since) = wish.asleep_since {
            prop_assert!(since <= now);
        }
        if let Some(next) = wish.next {
            prop_assert!(next > now);
            let between = start + (next.as_second() - 1 - start) * part / 100;
            let later = of(&schedules, Timestamp::from_second(between).unwrap());
            prop_assert_eq!(later, wish);
            let then = of(&schedules, next);
            prop_assert!(then.next.is_none_or(|again| again > next));
        }
    }

    #[test]
    fn any_text_is_read_without_panic(text in ".{0,40}", zone in prop::option::of(".{0,20}")) {
        let _ = Schedule::read(&schedule(&text, "0 7 * * *", zone.as_deref()));
    }

    #[test]
    fn any_numbers_are_read_without_panic(fields in prop::collection::vec("[-*/,0-9a-z]{1,6}", 5)) {
        let _ = Schedule::read(&schedule(&fields.join(" "), "0 7 * * *", None));
    }
}
