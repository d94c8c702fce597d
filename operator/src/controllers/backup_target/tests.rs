//! Laws of a BackupTarget's plan, over worlds in which Jobs come, end, stand still and are lost.
//!
//! Invariant: the world here does what an API server and a Job's controller do, and nothing else.

use api::{BackupTarget, ConditionType, Reason};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

use super::plan::{Check, Observed, Plan, Progress, Report, plan};

const WANTED: &str = "backup-check-a-2";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn target(generation: i64) -> BackupTarget {
    serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
        "metadata": { "name": "main", "uid": "t", "generation": generation },
        "spec": {
            "s3": { "bucket": "backups", "credentialsSecret": "s" }, "encryption": { "keySecret": "k" },
        },
    }))
    .unwrap()
}

fn check(name: &str, progress: Progress) -> Check {
    Check {
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        resource_version: "1".to_owned(),
        is_going: false,
        progress,
        report: None,
        waits_for: None,
    }
}

fn failed(second: i64, why: &str, detail: &str) -> Check {
    Check {
        report: Some(Report {
            why: why.to_owned(),
            detail: detail.to_owned(),
        }),
        ..check(WANTED, Progress::Failed(at(second)))
    }
}

fn look(target: &BackupTarget, checks: &[Check], second: i64) -> Plan {
    let observed = Observed {
        checks: checks.to_vec(),
        wanted: WANTED.to_owned(),
    };
    plan(target, &observed, at(second))
}

/// Looks, and keeps the status as the API would.
fn keep(target: &mut BackupTarget, checks: &[Check], second: i64) -> Plan {
    let plan = look(target, checks, second);
    target.status = Some(plan.status.clone());
    plan
}

fn said(target: &BackupTarget) -> (String, String, String) {
    let conditions = &target.status.as_ref().unwrap().conditions;
    let usable = conditions
        .iter()
        .find(|c| c.type_ == ConditionType::Usable.as_str());
    let usable = usable.unwrap().clone();
    (usable.status, usable.reason, usable.message)
}

#[test]
fn new_target_is_checked_at_once_and_nobody_knows_yet() {
    let mut target = target(1);
    let plan = keep(&mut target, &[], 0);
    assert!(plan.make && plan.delete.is_empty());
    let (value, reason, _) = said(&target);
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("Unknown", Reason::CheckingTarget.as_str())
    );
    // While it runs nothing more is written.
    let runs = [check(WANTED, Progress::Runs(at(0)))];
    let plan = keep(&mut target.clone(), &runs, 3);
    assert!(!plan.make && plan.delete.is_empty());
    assert_eq!(Some(plan.status), target.status);
}

#[test]
fn call_that_failed_is_named_with_its_cause_and_asked_again_after_five_minutes() {
    let mut target = target(1);
    let seen = [failed(10, "create: it knows no conditional put", "501")];
    let plan = keep(&mut target, &seen, 11);
    assert_eq!(
        said(&target),
        (
            "False".to_owned(),
            Reason::TargetUnusable.as_str().to_owned(),
            "create: it knows no conditional put (501)".to_owned()
        )
    );
    assert_eq!(plan.again, Some(SignedDuration::from_secs(299)));
    assert!(plan.delete.is_empty() && !plan.make);
    let plan = keep(&mut target, &seen, 310);
    assert_eq!(plan.delete.len(), 1);
    assert!(!plan.make, "its namesake is not gone yet");
    assert!(keep(&mut target, &[], 311).make);
}

#[test]
fn store_that_says_something_else_each_time_costs_no_write() {
    let mut target = target(1);
    keep(&mut target, &[failed(0, "list: busy", "request 1")], 1);
    let before = target.status.clone();
    keep(&mut target, &[failed(400, "list: busy", "request 2")], 401);
    assert_eq!(target.status, before);
    keep(
        &mut target,
        &[failed(800, "list: rights", "request 3")],
        801,
    );
    assert_eq!(said(&target).2, "list: rights (request 3)");
}

#[test]
fn usable_target_stays_so_while_it_is_checked_again_and_not_for_another_spec() {
    let mut old = target(1);
    keep(&mut old, &[check(WANTED, Progress::Succeeded(at(0)))], 1);
    assert_eq!(said(&old).0, "True");
    let over = 24 * 3600 + 1;
    let plan = keep(&mut old, &[check(WANTED, Progress::Succeeded(at(0)))], over);
    assert_eq!(plan.delete.len(), 1);
    assert!(keep(&mut old, &[], over + 1).make);
    keep(
        &mut old,
        &[check(WANTED, Progress::Runs(at(over)))],
        over + 2,
    );
    assert_eq!(said(&old).0, "True");
    let mut new = target(2);
    new.status = old.status.clone();
    let plan = keep(
        &mut new,
        &[check("backup-check-a-1", Progress::Succeeded(at(0)))],
        over + 3,
    );
    assert!(
        plan.make && plan.delete.len() == 1,
        "that of the other spec goes"
    );
    assert_eq!(said(&new).1, Reason::CheckingTarget.as_str());
}

#[test]
fn check_that_stands_still_is_told_with_what_its_pod_waits_for_and_begun_anew() {
    let mut target = target(1);
    let stuck = Check {
        waits_for: Some("pod a: no such image".to_owned()),
        ..check(WANTED, Progress::Runs(at(0)))
    };
    let plan = keep(&mut target, std::slice::from_ref(&stuck), 299);
    assert_eq!(plan.again, Some(SignedDuration::from_secs(1)));
    let plan = keep(&mut target, &[stuck], 300);
    assert_eq!(plan.delete.len(), 1);
    let (value, reason, message) = said(&target);
    assert_eq!(
        (value.as_str(), reason.as_str()),
        ("Unknown", Reason::CheckNotRun.as_str())
    );
    assert_eq!(message, "pod a: no such image");
}

#[test]
fn target_that_goes_is_left_alone() {
    let mut target = target(1);
    target.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    let plan = look(
        &target,
        &[check("backup-check-a-1", Progress::Runs(at(0)))],
        5,
    );
    assert!(!plan.make && plan.delete.is_empty() && plan.again.is_none());
}

fn checks() -> impl Strategy<Value = Vec<Check>> {
    let one = (
        any::<bool>(),
        0..3_u8,
        -90_000_i64..90_000,
        any::<bool>(),
        any::<bool>(),
    );
    let one = one.prop_map(|(wanted, kind, second, is_going, reports)| {
        let progress = match kind {
            0 => Progress::Runs(at(second)),
            1 => Progress::Succeeded(at(second)),
            _ => Progress::Failed(at(second)),
        };
        let report = || Report {
            why: "list: it is busy".to_owned(),
            detail: second.to_string(),
        };
        Check {
            is_going,
            report: (kind == 2 && reports).then(report),
            ..check(if wanted { WANTED } else { "backup-check-a-1" }, progress)
        }
    });
    // Names are unique in a namespace.
    proptest::collection::vec(one, 0..3).prop_map(|mut all| {
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all.dedup_by(|a, b| a.name == b.name);
        all
    })
}

proptest! {
    #[test]
    fn plan_is_empty_once_it_is_carried_out_and_erased_status_comes_back(
        checks in checks(), second in 0_i64..100_000, generation in 1..3_i64,
    ) {
        let mut target = target(generation);
        let first = keep(&mut target, &checks, second);
        // What is applied: Jobs go, and one comes.
        let mut after: Vec<_> = checks.iter().filter(|c| {
            !first.delete.iter().any(|d| d.uid == c.uid)
        }).cloned().collect();
        if first.make {
            after.push(check(WANTED, Progress::Runs(at(second))));
        }
        let second_look = keep(&mut target, &after, second);
        prop_assert!(second_look.delete.is_empty(), "{second_look:?}");
        // One whose time was over is made again in the next step, and then nothing is left.
        if second_look.make {
            prop_assert!(!first.make);
            after.push(check(WANTED, Progress::Runs(at(second))));
            let third = keep(&mut target, &after, second);
            prop_assert!(!third.make && third.delete.is_empty());
        }
        let rest = target.status.clone();
        keep(&mut target, &after, second);
        prop_assert_eq!(&target.status, &rest, "a write at rest");
        // What is there to be read again is read again, but for its time.
        let erased = { let mut t = target.clone(); t.status = None; keep(&mut t, &after, second); t };
        if after.iter().any(|c| c.name == WANTED && !c.is_going && !matches!(c.progress, Progress::Runs(_))) {
            let gist = |(value, reason, message): (String, String, String)| {
                (value, reason, message.split(" (").next().unwrap_or_default().to_owned())
            };
            prop_assert_eq!(gist(said(&erased)), gist(said(&target)));
        }
    }

    #[test]
    fn nothing_is_made_beside_one_of_the_same_name_and_what_goes_is_named_once(
        checks in checks(), second in 0_i64..100_000,
    ) {
        let plan = look(&target(1), &checks, second);
        prop_assert!(!(plan.make && checks.iter().any(|c| c.name == WANTED)));
        let mut doomed: Vec<_> = plan.delete.iter().map(|d| d.uid.clone()).collect();
        doomed.sort();
        let all = doomed.len();
        doomed.dedup();
        prop_assert_eq!(all, doomed.len());
        // Order tells nothing.
        let mut turned = checks;
        turned.reverse();
        let other = look(&target(1), &turned, second);
        prop_assert_eq!(plan.status, other.status);
        prop_assert_eq!(plan.make, other.make);
    }
}
