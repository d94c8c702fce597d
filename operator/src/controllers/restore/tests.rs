//! What is said of a Restore, and when it is asked again.
//!
//! Invariant: every answer of the process, and its silence, is here.

use std::sync::Arc;

use api::{Reason, Restore, TenantCluster};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::plan::{Observed, Plan, is_over, moment, plan};
use crate::controllers::tenant_backup::report::{Choice, Moment};

fn cluster(backup: &Value) -> Arc<TenantCluster> {
    let mut cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "u" },
        "spec": { "version": "1.35.4" },
        "status": { "etcd": { "clusterID": "cdf818194e3a8c32", "members": [] } },
    });
    if !backup.is_null() {
        cluster["spec"]["backup"] = backup.clone();
    }
    Arc::new(serde_json::from_value(cluster).unwrap())
}

fn restore(at: &Value) -> Restore {
    let mut restore = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": "before", "namespace": "team-a", "generation": 1 },
        "spec": { "clusterName": "demo", "dryRun": true },
    });
    if !at.is_null() {
        restore["spec"]["at"] = at.clone();
    }
    serde_json::from_value(restore).unwrap()
}

fn planned(restore: &Restore, choice: Option<Choice>) -> Plan {
    let observed = Observed {
        cluster: Some(cluster(&json!({ "target": "main" }))),
        choice,
    };
    plan(restore, &observed, Timestamp::UNIX_EPOCH)
}

fn said(plan: &Plan) -> (&str, &str, &str) {
    let [condition] = &plan.status.conditions[..] else {
        panic!("{plan:?}");
    };
    (&condition.status, &condition.reason, &condition.message)
}

#[test]
fn moment_is_asked_for_as_it_was_written() {
    let asked = |at: Value| moment(&restore(&at));
    assert_eq!(asked(Value::Null).as_deref(), Some("latest"));
    assert_eq!(
        asked(json!({ "revision": 7 })).as_deref(),
        Some("revision-7")
    );
    let whole = asked(json!({ "time": "1970-01-01T00:00:05Z" }));
    assert_eq!(whole.as_deref(), Some("time-5999"));
    assert_eq!(asked(json!({ "time": "2027-02-31T00:00:00Z" })), None);
}

#[test]
fn only_what_was_found_ends_it() {
    let mut asked = restore(&json!({ "revision": 40 }));
    let silent = planned(&asked, None);
    assert_eq!(said(&silent).1, Reason::RestoreUnanswered.as_str());
    let failed = planned(&asked, Some(Choice::Unknown("503: busy".to_owned())));
    assert_eq!(failed, silent, "the words of a failure are no news");
    let reads = planned(&asked, Some(Choice::Reads));
    assert_eq!(said(&reads).1, Reason::ReadingBackup.as_str());
    for plan in [silent, reads] {
        assert!(plan.again.is_some(), "{plan:?}");
        asked.status = Some(plan.status);
        assert!(!is_over(&asked));
    }

    let found = Moment {
        possible: true,
        full: Some("f".to_owned()),
        revision: Some(40),
        time_ms: Some(5_999),
        why: None,
    };
    let plan = planned(&asked, Some(Choice::Is(Box::new(found))));
    assert_eq!(said(&plan), ("True", "RestorePossible", ""));
    assert_eq!(plan.status.time.as_deref(), Some("1970-01-01T00:00:05Z"));
    assert_eq!((plan.status.revision, plan.again), (Some(40), None));
    asked.status = Some(plan.status);
    assert!(is_over(&asked));
    // Erased, it is asked again.
    asked.status.as_mut().unwrap().conditions.clear();
    assert!(!is_over(&asked));
}

#[test]
fn hole_names_the_nearest_moment_and_what_has_none_says_so() {
    let hole = |revision: Option<u64>| {
        let found = Moment {
            possible: false,
            full: Some("f".to_owned()),
            revision,
            time_ms: revision.map(|_| 5_000),
            why: Some("deltas 7 to 9\nare missing".to_owned()),
        };
        planned(&restore(&Value::Null), Some(Choice::Is(Box::new(found))))
    };
    let plan = hole(Some(12));
    assert_eq!(
        said(&plan),
        (
            "False",
            "RestoreImpossible",
            "deltas 7 to 9 are missing; the nearest moment before it that can be had is \
             1970-01-01T00:00:05Z, revision 12"
        )
    );
    assert_eq!(plan.status.full, None);
    let plan = hole(None);
    assert!(
        said(&plan).2.ends_with("nothing before it can be had"),
        "{plan:?}"
    );
}

#[test]
fn what_is_missing_is_said_with_a_sentence() {
    let asked = restore(&Value::Null);
    let without = |cluster| {
        let observed = Observed {
            cluster,
            choice: None,
        };
        plan(&asked, &observed, Timestamp::UNIX_EPOCH)
    };
    let plan = without(None);
    assert_eq!(said(&plan).1, Reason::RestoreWithoutCluster.as_str());
    let plan = without(Some(cluster(&Value::Null)));
    assert_eq!(said(&plan).1, Reason::RestoreWithoutBackup.as_str());
    let never = restore(&json!({ "time": "2027-02-31T00:00:00Z" }));
    let plan = planned(&never, None);
    assert_eq!(said(&plan).1, Reason::RestoreImpossible.as_str());
}
