//! What a tenant cluster goes through: upgrades, sleep, locations that are out.
//!
//! Invariant: each row begins with a whole installation.

use insight::check::Check;
use insight::diagnosis::diagnose;
use insight::facts::Facts;
use insight::finding::Level;
use kit_objects::known::Known;
use serde_json::{Value, json};

use crate::installation::{cluster, machine, pool, read, said, whole, with_cluster};
use crate::table::Row;

fn with_status(facts: &mut Facts, field: &str, status: Value) {
    let mut of = cluster();
    of["status"][field] = status;
    facts.clusters = Known::Known(vec![read(of)]);
}

fn returned() -> Value {
    json!({"from": "1.35.4", "to": "1.36.3", "phase": "RolledBack", "since": "2026-11-27T10:00:00Z", "snapshot": "demo-1",
        "failure": {"reason": "CrashLooping", "phase": "Rolling", "message": "unknown flag: --x", "at": "2026-11-27T11:30:00Z"}})
}

fn sleeps(phase: &str) -> Value {
    json!({"phase": phase, "since": "2026-11-27T09:00:00Z", "drained": true, "quiet": true})
}

/// A pool of two locations, and a machine in the one that is out.
fn in_two_places(facts: &mut Facts, ready_elsewhere: i32) {
    let mut of = said(pool(), &[("Ready", "False", "NodesNotReady", "1 of 2")]);
    let spec = of["spec"].as_object_mut().unwrap();
    spec.remove("provider");
    of["spec"]["locations"] = json!([
        {"name": "north", "weight": 1, "provider": {"kubevirt": {}}},
        {"name": "south", "weight": 1, "provider": {"kubevirt": {}}},
    ]);
    of["status"]["locations"] = json!([
        {"name": "north", "desired": 1, "machines": 1, "ready": ready_elsewhere},
        {"name": "south", "desired": 1, "machines": 1, "ready": 0},
    ]);
    facts.pools = Known::Known(vec![read(of)]);
    let ill = [("Ready", "False", "NoneLeft", "sold out")];
    let mut south = said(machine("demo-workers-bbbbb"), &ill);
    south["spec"]["location"] = json!("south");
    facts.machines = Known::Known(vec![read(south)]);
}

pub(crate) const TABLE: &[Row] = &[
    (
        "upgrade was returned from",
        |f| with_status(f, "upgrade", returned()),
        "upgrade",
        Level::Warning,
        "spec.upgrade.retry",
    ),
    (
        "upgrade is kept from beginning",
        |f| {
            with_cluster(
                f,
                &[(
                    "Progressing",
                    "True",
                    "UpgradeBlocked",
                    "Kubelets: 2 nodes are too old",
                )],
            );
        },
        "upgrade",
        Level::Warning,
        "status.upgrade.blockers",
    ),
    (
        "does not fall asleep",
        |f| {
            with_cluster(
                f,
                &[("Progressing", "True", "FallingAsleep", "1 machine is left")],
            );
        },
        "sleep",
        Level::Warning,
        "spec.hibernation.enabled",
    ),
    (
        "sleeps",
        |f| with_status(f, "hibernation", sleeps("Asleep")),
        "sleep",
        Level::Info,
        "covey wake demo",
    ),
    (
        "a request woke it",
        |f| {
            let mut of = cluster();
            of["spec"]["hibernation"] = json!({"enabled": true});
            of["status"]["hibernation"] = sleeps("Awake");
            f.clusters = Known::Known(vec![read(of)]);
        },
        "sleep",
        Level::Info,
        "covey sleep demo",
    ),
    (
        "a location is out",
        |f| in_two_places(f, 1),
        "locations",
        Level::Warning,
        "describe machines",
    ),
];

#[test]
fn many_that_sleep_are_one_note() {
    let mut facts = whole();
    let sleeper = |name: &str| {
        let mut of = cluster();
        of["metadata"]["name"] = json!(name);
        of["status"]["hibernation"] = sleeps("Asleep");
        read(of)
    };
    facts.clusters = Known::Known(vec![sleeper("demo"), sleeper("shop")]);
    let findings = diagnose(&facts, |_| true);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let told = "2 tenant clusters sleep, as they are asked to: team-a/demo, team-a/shop";
    assert_eq!(findings[0].cause, told);
}

#[test]
fn a_backup_that_cannot_grow_older_is_not_late() {
    let mut facts = whole();
    let mut of = cluster();
    of["spec"]["backup"] = json!({"target": "main", "full": "6h"});
    of["status"]["backup"] = json!({"lastFull": "2026-11-20T20:00:00Z"});
    of["status"]["hibernation"] = sleeps("Asleep");
    facts.clusters = Known::Known(vec![read(of.clone())]);
    let is_late = |facts: &Facts| {
        let findings = diagnose(facts, |_| true);
        findings
            .iter()
            .any(|finding| finding.check == Check::Backup)
    };
    assert!(!is_late(&facts));
    of["status"]["hibernation"] = json!(null);
    facts.clusters = Known::Known(vec![read(of)]);
    assert!(is_late(&facts));
}

#[test]
fn an_upgrade_that_was_returned_from_is_told_once_and_says_why() {
    let mut facts = whole();
    let mut of = said(
        cluster(),
        &[("Progressing", "False", "RolledBack", "the upgrade failed")],
    );
    of["status"]["upgrade"] = returned();
    facts.clusters = Known::Known(vec![read(of)]);
    let findings = diagnose(&facts, |_| true);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let told = "the upgrade to 1.36.3 failed, and 1.35.4 runs again: unknown flag: --x";
    assert_eq!(findings[0].cause, told);
    let snapshot = "Snapshot demo-1 was taken before it";
    assert!(findings[0].evidence.iter().any(|line| line == snapshot));
}

#[test]
fn a_location_explains_its_machines_and_where_none_is_ready_it_is_no_location() {
    let mut facts = whole();
    in_two_places(&mut facts, 1);
    let findings = diagnose(&facts, |_| true);
    let machines = findings.iter().find(|f| f.check == Check::Machines);
    assert_eq!(
        machines.unwrap().because,
        Some("locations"),
        "{findings:#?}"
    );
    in_two_places(&mut facts, 0);
    let findings = diagnose(&facts, |_| true);
    assert!(!findings.iter().any(|f| f.check == Check::Locations));
}
