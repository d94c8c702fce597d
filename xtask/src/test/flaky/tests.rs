//! Each case in which a flaky test is red, and those in which it is not.

use super::super::junit::Failure;
use super::*;

fn test(name: &str) -> TestName {
    TestName {
        binary: "operator::t1".to_owned(),
        name: name.to_owned(),
    }
}

fn case(name: &str, outcome: Outcome) -> Case {
    let failures = match outcome {
        Outcome::Passed | Outcome::Skipped => Vec::new(),
        Outcome::Flaky | Outcome::Failed => vec![Failure {
            message: "too late".to_owned(),
            log: String::new(),
        }],
    };
    Case {
        test: test(name),
        outcome,
        seconds: 1.0,
        failures,
    }
}

fn flaky(names: &[&str]) -> Vec<Case> {
    names
        .iter()
        .map(|name| case(name, Outcome::Flaky))
        .collect()
}

#[test]
fn passed_at_the_second_try_is_green_and_said() {
    let verdict = judge(&flaky(&["faults::a", "faults::b"]), &Known::default());
    assert_eq!(verdict.red, Vec::<String>::new());
    assert_eq!(verdict.flaky.len(), 2);
    assert_eq!(verdict.flaky[0].message, "too late");
}

#[test]
fn what_failed_at_every_try_is_red() {
    let cases = [
        case("faults::a", Outcome::Failed),
        case("b", Outcome::Passed),
    ];
    let verdict = judge(&cases, &Known::default());
    assert_eq!(verdict.red, ["operator::t1 faults::a failed: too late"]);
    assert_eq!(verdict.failed.len(), 1);
}

#[test]
fn new_or_changed_and_flaky_is_red() {
    let known = Known {
        touched: [test("faults::a")].into(),
        ..Known::default()
    };
    let verdict = judge(&flaky(&["faults::a", "faults::b"]), &known);
    assert_eq!(verdict.red.len(), 1);
    assert!(verdict.red[0].contains("faults::a was flaky, and it is new or changed"));
}

#[test]
fn flaky_in_what_must_never_be_is_red() {
    let verdict = judge(&flaky(&["rights::a"]), &Known::default());
    assert!(verdict.red[0].contains("fencing, rights"), "{verdict:?}");
}

#[test]
fn flaky_twice_in_ten_runs_is_red_and_once_before_that_is_not() {
    let mut history = vec![Vec::new(); MEMORY - 1];
    history.push(vec![test("faults::a")]);
    let mut known = Known {
        history,
        ..Known::default()
    };
    let verdict = judge(&flaky(&["faults::a"]), &known);
    assert!(verdict.red[0].contains("last 10 runs"), "{verdict:?}");
    known.history.insert(0, Vec::new());
    assert!(judge(&flaky(&["faults::a"]), &known).red.is_empty());
}

#[test]
fn more_than_three_in_one_run_are_red() {
    let three = ["faults::a", "faults::b", "faults::c"];
    assert!(judge(&flaky(&three), &Known::default()).red.is_empty());
    let four = ["faults::a", "faults::b", "faults::c", "faults::d"];
    let red = judge(&flaky(&four), &Known::default()).red;
    assert_eq!(red, ["4 tests were flaky in one run: more than 3"]);
}

#[test]
fn quarantine_is_said_and_counts_for_nothing() {
    let known = Known {
        history: vec![vec![test("faults::a")]],
        quarantine: vec![test("faults::a"), test("faults::b")],
        touched: [test("faults::a")].into(),
    };
    let cases = [
        case("faults::a", Outcome::Flaky),
        case("faults::b", Outcome::Failed),
    ];
    let verdict = judge(&cases, &known);
    assert_eq!((verdict.red.len(), verdict.flaky.len()), (0, 0));
    let how: Vec<_> = verdict.quarantined.iter().map(|(_, how)| *how).collect();
    assert_eq!(how, ["passed at a later try", "failed"]);
    // Once its time is over it counts as any other.
    let over = Known {
        quarantine: Vec::new(),
        ..known
    };
    assert_eq!(judge(&cases, &over).red.len(), 2);
}
