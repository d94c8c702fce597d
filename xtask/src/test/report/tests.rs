//! The texts at the end of a run.

use super::super::junit::{Case, Outcome};
use super::super::runs::{Kind, Unsteady};
use super::*;

fn stage(name: &str, minutes: f64) -> Stage {
    Stage {
        name: name.to_owned(),
        seconds: minutes * 60.0,
        passed: true,
        ..Stage::default()
    }
}

fn calibrated(seconds: f64) -> Run {
    Run {
        stages: vec![stage(T1, 7.6), stage(T0, 0.6), stage(BUILDS, 99.0)],
        calibration_seconds: Some(seconds),
        ..Run::default()
    }
}

#[test]
fn a_stage_over_its_budget_is_said_when_the_machine_was_as_quick_as_usual() {
    let found = over_budget(&calibrated(3.5), &[3.0, 3.2, 9.0]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains("7.6 min, and its budget is 6.0"),
        "{found:?}"
    );
    assert!(over_budget(&calibrated(4.5), &[3.0, 3.2, 9.0]).is_empty());
    assert!(over_budget(&calibrated(3.0), &[]).is_empty());
    let loaded = Run {
        kind: Kind {
            busy: 2,
            ..Kind::default()
        },
        ..calibrated(3.0)
    };
    assert!(over_budget(&loaded, &[3.0]).is_empty());
}

#[test]
fn a_tests_costs_are_those_of_all_its_tries() {
    let test = |name: &str| TestName {
        binary: "a::t1".to_owned(),
        name: name.to_owned(),
    };
    let case = |name: &str, seconds| Case {
        test: test(name),
        outcome: Outcome::Passed,
        seconds,
        failures: Vec::new(),
    };
    let attempt = |attempt, core_seconds| Attempt {
        binary: "a::t1".to_owned(),
        name: "long".to_owned(),
        attempt,
        seconds: 1.0,
        core_seconds,
        pressure: None,
    };
    let cases = [case("short", 1.0), case("long", 2.0)];
    let costs = costs(&cases, &[attempt(1, 0.5), attempt(2, 0.25)]);
    assert_eq!(costs[0], (test("long"), 2.0, Some(0.75)));
    assert_eq!(costs[1], (test("short"), 1.0, None));
    let text = longest(&costs);
    assert!(text.contains("2.0     0.8  a::t1 long"), "{text}");
}

#[test]
fn the_last_lines_name_what_was_flaky_and_why_a_run_is_red() {
    let run = Run {
        flaky: vec![Unsteady {
            binary: "a::t1".to_owned(),
            name: "slow".to_owned(),
            message: "too late".to_owned(),
            pressure: Some(42.4),
        }],
        quarantined: [("a::t1 known".to_owned(), "failed".to_owned())].into(),
        red: vec!["it was so before".to_owned()],
        ..Run::default()
    };
    assert_eq!(
        closing(&run),
        "in quarantine: a::t1 known failed\nflaky: 1\n  a::t1 slow: too late (CPU pressure 42 %)\n\
         red: it was so before\n"
    );
    assert_eq!(closing(&Run::default()), "flaky: 0\n");
}
