//! Transitions, relapses, and restarts in every phase.
//!
//! Invariant: what is stored and read again goes on as what was not.

use proptest::prelude::*;

use super::*;
use crate::verdict::Unknown;

const LOCATION: Finding = Finding::Outage(Outage::Location);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn seen(finding: Finding) -> Evidence {
    let is_well = matches!(finding, Finding::Fine | Finding::Loss { .. });
    Evidence {
        finding,
        is_api_closed: is_well,
        old_fresh_for: is_well.then_some(FRESH_FOR),
        is_canary_ready: false,
        exclusion: None,
    }
}

/// What becomes of a healthy place, step by step.
fn play(steps: &[(i64, Finding)]) -> Record {
    let steps = steps.iter();
    steps.fold(Record::new(at(0)), |record, (now, finding)| {
        step(&record, &seen(*finding), &Failover::default(), at(*now))
    })
}

#[test]
fn out_recovering_healthy() {
    let record = play(&[(5, LOCATION), (30, LOCATION)]);
    assert_eq!((record.state, record.since), (State::Out, at(5)));
    assert_eq!(record.reason, Some(Reason::LocationOutage));
    let record = play(&[(5, LOCATION), (100, Finding::Fine), (699, Finding::Fine)]);
    assert_eq!((record.state, record.since), (State::Recovering, at(100)));
    assert_eq!(record.due(&Failover::default()), Some(at(700)));
    let record = play(&[(5, LOCATION), (100, Finding::Fine), (700, Finding::Fine)]);
    assert_eq!((record.state, record.reason), (State::Healthy, None));
}

#[test]
fn it_is_not_back_before_a_node_is_fresh_for_a_minute() {
    let record = play(&[(0, LOCATION)]);
    let mut evidence = seen(Finding::Loss { silent: 2 });
    let failover = Failover::default();
    for fresh_for in [None, Some(Duration::from_secs(59))] {
        evidence.old_fresh_for = fresh_for;
        assert_eq!(step(&record, &evidence, &failover, at(600)), record);
    }
    evidence.is_canary_ready = true;
    let back = step(&record, &evidence, &failover, at(600));
    assert_eq!(back.state, State::Recovering);
    evidence.is_api_closed = false;
    assert_eq!(step(&record, &evidence, &failover, at(600)), record);
}

#[test]
fn who_knows_nothing_changes_nothing() {
    for why in [Unknown::AllSilent, Unknown::NotListening] {
        let unknown = Finding::Unknown(why);
        assert_eq!(
            play(&[(1, LOCATION), (9999, unknown)]),
            play(&[(1, LOCATION)])
        );
        let back = [(1, LOCATION), (100, Finding::Fine)];
        let record = play(&[back[0], back[1], (9999, unknown)]);
        assert_eq!(record, play(&back));
        let record = play(&[(1, Finding::ApiOutage), (9, unknown)]);
        assert_eq!(record.state, State::Suspect);
    }
}

#[test]
fn relapses_double_what_it_has_to_be_well_for() {
    let failover = Failover::default();
    let (mut record, mut now) = (Record::new(at(0)), 0);
    for minutes in [10, 20, 40, 80, 120, 120] {
        record = step(&record, &seen(LOCATION), &failover, at(now));
        record = step(&record, &seen(Finding::Fine), &failover, at(now + 60));
        assert_eq!(
            record.return_after(&failover),
            Duration::from_secs(minutes * 60)
        );
        now += 60 + i64::try_from(minutes).unwrap() * 60;
        let early = step(&record, &seen(Finding::Fine), &failover, at(now - 1));
        assert_eq!(early.state, State::Recovering);
        record = step(&record, &seen(Finding::Fine), &failover, at(now));
        assert_eq!(record.state, State::Healthy);
        now += 1;
    }
    // Two quiet hours, and it is forgotten.
    record = step(&record, &seen(LOCATION), &failover, at(now + 7200));
    assert_eq!(record.return_after(&failover), failover.return_after);
}

#[test]
fn without_failover_nothing_is_out() {
    let failover = Failover {
        mode: Mode::Never,
        ..Failover::default()
    };
    let record = step(&Record::new(at(0)), &seen(LOCATION), &failover, at(1));
    assert_eq!(
        (record.state, record.reason),
        (State::Suspect, Some(Reason::FailoverOff))
    );
}

#[test]
fn that_the_first_signal_fails_too_is_said_once_and_begins_nothing_anew() {
    let failover = Failover::default();
    let out = play(&[(5, LOCATION)]);
    let site = step(
        &out,
        &seen(Finding::Outage(Outage::Site)),
        &failover,
        at(40),
    );
    assert_eq!(site.reason, Some(Reason::SiteOutage));
    assert_eq!((site.state, site.since), (State::Out, out.since));
    assert_eq!(site.return_after_seconds, out.return_after_seconds);
    // It answers for once, and nobody writes that.
    assert_eq!(step(&site, &seen(LOCATION), &failover, at(70)), site);
}

#[test]
fn what_the_user_has_to_mend_excludes_but_ends_no_outage() {
    let failover = Failover::default();
    let excluded = |finding| Evidence {
        exclusion: Some(Exclusion::CredentialsRefused),
        ..seen(finding)
    };
    let record = step(
        &Record::new(at(0)),
        &excluded(Finding::Fine),
        &failover,
        at(1),
    );
    assert_eq!(record.state, State::Excluded);
    let mended = step(&record, &seen(Finding::Fine), &failover, at(2));
    assert_eq!(mended.state, State::Healthy);
    let out = step(&record, &excluded(LOCATION), &failover, at(3));
    assert_eq!(out.state, State::Out);
    assert_eq!(step(&out, &excluded(LOCATION), &failover, at(4)), out);
}

#[test]
fn a_machine_that_went_with_its_place_is_waited_for() {
    let failover = Failover::default();
    let judge =
        |record: &Record, is_absent, now| fate(record, at(0), is_absent, &failover, at(now));
    let out = play(&[(5, LOCATION)]);
    let until = at(24 * 3600);
    assert_eq!(judge(&out, false, 3600), Fate::Kept { until });
    assert_eq!(judge(&out, false, 24 * 3600), Fate::GivenUp);
    assert_eq!(judge(&out, true, 10), Fate::GivenUp);
    // Back, but this machine is not.
    let healthy = play(&[(5, LOCATION), (100, Finding::Fine), (700, Finding::Fine)]);
    assert_eq!(judge(&healthy, false, 3600), Fate::Kept { until });
    assert_eq!(
        fate(&healthy, at(800), false, &failover, at(9999)),
        Fate::Ordinary
    );
    assert_eq!(judge(&Record::new(at(0)), false, 3600), Fate::Ordinary);
}

#[test]
fn a_place_without_old_nodes_is_asked_by_a_canary() {
    let failover = Failover::default();
    let out = play(&[(0, LOCATION)]);
    let mut evidence = Evidence {
        old_fresh_for: None,
        ..seen(Finding::Fine)
    };
    let due =
        |evidence: &Evidence, has, now| is_canary_due(&out, evidence, has, &failover, at(now));
    assert!(!due(&evidence, false, 599));
    assert!(due(&evidence, false, 600));
    assert!(!due(&evidence, true, 600));
    assert!(!due(&seen(LOCATION), false, 600));
    evidence.is_api_closed = false;
    assert!(!due(&evidence, false, 600));
}

fn finding() -> impl Strategy<Value = Finding> {
    prop_oneof![
        4 => Just(Finding::Fine),
        1 => Just(Finding::Loss { silent: 1 }),
        1 => Just(Finding::ApiOutage),
        1 => Just(Finding::Suspected(Suspicion::SecondLook)),
        1 => Just(Finding::Suspected(Suspicion::EndpointUnreachable)),
        3 => Just(LOCATION),
        1 => Just(Finding::Outage(Outage::Site)),
        1 => Just(Finding::Unknown(Unknown::NotListening)),
    ]
}

proptest! {
    /// A restart is a stretch of not listening, and the record read from where it was stored.
    #[test]
    fn a_restart_in_any_phase_changes_no_state(
        steps in prop::collection::vec((finding(), 1..900_i64), 0..40),
        deaf in 1..40_i64,
    ) {
        let failover = Failover::default();
        let (mut record, mut now) = (Record::new(at(0)), 0);
        for (finding, pause) in steps {
            now += pause;
            record = step(&record, &seen(finding), &failover, at(now));
            let stored = serde_json::to_string(&record).unwrap();
            let read: Record = serde_json::from_str(&stored).unwrap();
            prop_assert_eq!(&read, &record);
            let unknown = seen(Finding::Unknown(Unknown::NotListening));
            let after = step(&read, &unknown, &failover, at(now + deaf));
            prop_assert_eq!(&after, &record);
        }
    }

    #[test]
    fn the_same_seen_again_writes_nothing(
        steps in prop::collection::vec((finding(), 1..900_i64), 1..40),
    ) {
        let failover = Failover::default();
        let (mut record, mut now) = (Record::new(at(0)), 0);
        for (finding, pause) in steps {
            now += pause;
            record = step(&record, &seen(finding), &failover, at(now));
            prop_assert_eq!(&step(&record, &seen(finding), &failover, at(now)), &record);
        }
    }

    /// Only a witnessed outage leads to Out, and out of it leads nothing but a node that is back.
    #[test]
    fn out_is_entered_and_left_for_a_reason(
        steps in prop::collection::vec((finding(), 1..900_i64), 0..40),
    ) {
        let failover = Failover::default();
        let (mut record, mut now) = (Record::new(at(0)), 0);
        for (finding, pause) in steps {
            now += pause;
            let next = step(&record, &seen(finding), &failover, at(now));
            let outage = matches!(finding, Finding::Outage(_));
            if next.state == State::Out && record.state != State::Out {
                prop_assert!(outage);
            }
            if record.state == State::Out {
                prop_assert!(matches!(next.state, State::Out | State::Recovering));
            }
            if record.state.is_outage() && next.state == State::Healthy {
                prop_assert!(elapsed(record.since, at(now)) >= failover.return_after);
            }
            record = next;
        }
    }
}
