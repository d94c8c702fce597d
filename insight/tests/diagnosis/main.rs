//! From facts to findings: a table of what can be wrong, and the laws that hold for all of it.
//!
//! Invariant: each row begins with a whole installation and breaks one thing.
#![allow(clippy::panic, clippy::unwrap_used)] // tests

mod clouds;
mod inside;
mod installation;
mod life;
mod table;

use std::collections::BTreeSet;

use api::reason::class::Class;
use api::{ConditionType, Reason};
use insight::check::Check;
use insight::diagnosis::{diagnose, worst};
use insight::facts::{Facts, NOT_ALLOWED};
use insight::finding::{Finding, Level};
use jiff::Timestamp;
use kit_objects::known::Known;
use serde_json::json;

use crate::installation::{broken, pool, read, said, tenant, whole, with_cluster};
use crate::table::{Row, TABLE};

/// All rows, of each table.
fn rows() -> impl Iterator<Item = &'static Row> {
    let more = inside::TABLE.iter().chain(life::TABLE);
    TABLE.iter().chain(clouds::TABLE).chain(more)
}

#[test]
fn a_whole_installation_has_no_findings() {
    assert_eq!(diagnose(&whole(), |_| true), []);
}

#[test]
fn the_first_finding_is_the_cause_and_says_what_mends_it() {
    for (what, breaks, id, level, mend) in rows() {
        let mut facts = whole();
        breaks(&mut facts);
        let findings = diagnose(&facts, |_| true);
        let first = findings
            .first()
            .unwrap_or_else(|| panic!("{what}: nothing found"));
        let told = format!("{what}: {findings:#?}");
        assert_eq!((first.check.id(), first.level), (*id, *level), "{told}");
        assert!(first.mend.contains(mend), "{told}");
        assert_eq!(worst(&findings), Some(*level), "{told}");
    }
}

#[test]
fn every_check_is_made_by_a_row() {
    let rows: BTreeSet<_> = rows().map(|row| row.2).collect();
    // It is found by what is not known.
    let apart = ["rights"];
    let missing = Check::ALL.iter().map(|check| check.id());
    let missing: Vec<_> = missing
        .filter(|id| !rows.contains(id) && !apart.contains(id))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn a_finding_says_what_mends_it_and_one_that_is_explained_says_by_what() {
    for (what, breaks, ..) in rows() {
        let mut facts = whole();
        breaks(&mut facts);
        let findings = diagnose(&facts, |_| true);
        for finding in &findings {
            let is_told = finding.level > Level::Skipped;
            assert!(!is_told || !finding.mend.is_empty(), "{what}: {finding:?}");
            assert!(!is_told || finding.because.is_none(), "{what}: {finding:?}");
            assert!(!finding.cause.is_empty(), "{what}: {finding:?}");
            if let Some(because) = finding.because {
                let cause = findings.iter().find(|f| f.check.id() == because).unwrap();
                assert!(cause.check < finding.check, "{what}: {finding:?}");
            }
        }
        let once: BTreeSet<_> = findings
            .iter()
            .map(|f| (f.check, f.subject.clone(), f.level))
            .collect();
        assert_eq!(once.len(), findings.len(), "{what}");
    }
}

/// What was not read, one thing after the other.
const FORGETS: &[fn(&mut Facts)] = &[
    |f| f.management.clock_ahead = unknown(),
    |f| f.management.definitions = unknown(),
    |f| f.management.operator = unknown(),
    |f| f.management.operator_pods = unknown(),
    |f| f.management.lease = unknown(),
    |f| f.management.webhook = unknown(),
    |f| f.management.policy_bindings = unknown(),
    |f| f.management.storage_classes = unknown(),
    |f| f.management.quotas = unknown(),
    |f| f.management.backup_targets = unknown(),
    |f| f.management.fleet_policies = unknown(),
    |f| f.clusters = unknown(),
    |f| f.pools = unknown(),
    |f| f.machines = unknown(),
    |f| f.hosts = unknown(),
    |f| f.snapshots = unknown(),
    |f| f.restores = unknown(),
    |f| f.grants = unknown(),
    |f| f.provider_configs = unknown(),
    |f| f.here.leads = unknown(),
    |f| f.here.endpoints.clear(),
    |f| f.inside = unknown(),
    |f| {
        if let Some(before) = &mut f.before {
            before.kubevirt = unknown();
            before.nodes = unknown();
            before.has_service_ranges = unknown();
            before.may_all = unknown();
        }
    },
    |f| {
        if let Known::Known(inside) = &mut f.inside {
            inside.nodes = unknown();
            inside.services = unknown();
            inside.slices = unknown();
            inside.claims = unknown();
            inside.classes = unknown();
            inside.attachments = unknown();
            inside.validating = unknown();
            inside.mutating = unknown();
            inside.removed = unknown();
        }
    },
    |f| tenant(f).object = unknown(),
    |f| tenant(f).pods = unknown(),
    |f| tenant(f).claims = unknown(),
];

/// A row that breaks nothing.
const WHOLE: &[Row] = &[("whole", |_| {}, "", Level::Info, "")];

fn unknown<T>() -> Known<T> {
    Known::Unknown { why: NOT_ALLOWED }
}

/// What findings claim, explained or not.
fn claims(findings: &[Finding]) -> BTreeSet<(Check, String)> {
    let claimed = findings
        .iter()
        .filter(|f| f.level > Level::Skipped || f.because.is_some());
    claimed.map(|f| (f.check, f.subject.to_string())).collect()
}

#[test]
fn what_is_not_known_is_never_told_as_absent() {
    for (what, breaks, ..) in WHOLE.iter().chain(rows()) {
        let mut facts = whole();
        breaks(&mut facts);
        let all = claims(&diagnose(&facts, |_| true));
        let mut nothing = facts.clone();
        for (number, forget) in FORGETS.iter().enumerate() {
            let mut less = facts.clone();
            forget(&mut less);
            let told = claims(&diagnose(&less, |_| true));
            let new: Vec<_> = told.difference(&all).collect();
            assert!(new.is_empty(), "{what}, {number} not read: {new:?}");
        }
        FORGETS.iter().for_each(|forget| forget(&mut nothing));
        let told = claims(&diagnose(&nothing, |_| true));
        assert!(told.is_subset(&all), "{what}: {told:?}");
    }
}

#[test]
fn missing_rights_skip_and_never_fail() {
    let mut facts = whole();
    FORGETS.iter().for_each(|forget| forget(&mut facts));
    facts.not_allowed = vec!["list pods in covey-demo-0a1b2c3d11".to_owned()];
    let findings = diagnose(&facts, |_| true);
    assert_eq!(worst(&findings), None, "{findings:#?}");
    assert!(
        findings
            .iter()
            .any(|f| f.check == Check::Rights && f.cause.contains("list pods in covey-demo"))
    );
}

#[test]
fn what_is_skipped_by_wish_explains_nothing() {
    let mut facts = whole();
    with_cluster(
        &mut facts,
        &[
            ("EtcdReady", "False", "QuorumLost", ""),
            ("Ready", "False", "ApiUnreachable", ""),
        ],
    );
    let first = |findings: Vec<Finding>| findings[0].check;
    assert_eq!(first(diagnose(&facts, |_| true)), Check::Etcd);
    assert_eq!(
        first(diagnose(&facts, |check| check != Check::Etcd)),
        Check::ApiReady
    );
}

#[test]
fn no_secret_is_told() {
    let canaries = ["sesame-canary", "0123456789abcdef", "MHcCAQEECANARY"];
    let message = "Authorization: Bearer sesame-canary token abcdef.0123456789abcdef -----BEGIN EC PRIVATE KEY----- MHcCAQEECANARY";
    let mut facts = whole();
    with_cluster(
        &mut facts,
        &[
            ("Degraded", "True", "InvalidInput", message),
            ("EtcdReady", "False", message, message),
        ],
    );
    tenant(&mut facts).pods = Known::Known(vec![read(broken(
        "control-plane-1",
        "control-plane",
        json!({"containerStatuses": [
        {"name": "x", "image": "https://jane:sesame-canary@r.example.com/x", "imageID": "", "ready": false, "restartCount": 0,
         "state": {"waiting": {"reason": "ErrImagePull", "message": message}}}]}),
    ))]);
    facts.pools = Known::Known(vec![read(said(
        pool(),
        &[("Ready", "False", "Strange", message)],
    ))]);
    let told = serde_json::to_string(&diagnose(&facts, |_| true)).unwrap();
    for canary in canaries {
        assert!(!told.contains(canary), "{told}");
    }
    assert!(told.contains("[redacted]"));
}

#[test]
fn every_reason_of_the_catalogue_is_told_in_its_own_words() {
    for reason in Reason::ALL {
        let mut facts = whole();
        with_cluster(
            &mut facts,
            &[(ConditionType::Ready.as_str(), "False", reason.as_str(), "")],
        );
        let findings = diagnose(&facts, |_| true);
        let is_told = reason.class() != Class::Fine
            && ![
                Reason::NoNodes,
                Reason::NotReadAgain,
                Reason::WaitingForWindow,
            ]
            .contains(reason);
        assert_eq!(
            findings.len(),
            usize::from(is_told),
            "{reason}: {findings:?}"
        );
        for finding in findings {
            assert_eq!(finding.reason.as_deref(), Some(reason.as_str()));
            assert_eq!(finding.runbook, Some(reason.runbook()));
            let whole = |said: &str| insight::text::shown(said);
            assert_eq!(
                (finding.cause, finding.mend),
                (whole(reason.meaning()), whole(reason.mend()))
            );
        }
    }
}

#[test]
fn what_goes_on_by_itself_is_a_warning_only_after_a_while() {
    let mut facts = whole();
    with_cluster(&mut facts, &[("EtcdReady", "False", "MembersNotReady", "")]);
    let level = |facts: &Facts| diagnose(facts, |_| true)[0].level;
    assert_eq!(level(&facts), Level::Warning);
    facts.now = "2026-11-27T11:01:00Z".parse::<Timestamp>().unwrap();
    facts.management.lease = Known::Known(read(json!({"metadata": {"name": "covey-operator"},
        "spec": {"holderIdentity": "a", "renewTime": "2026-11-27T11:00:58.000000Z"}})));
    assert_eq!(level(&facts), Level::Info);
}

#[test]
fn volumes_that_are_bound_need_no_class_any_more() {
    let mut facts = whole();
    facts.management.storage_classes = Known::Known(vec![]);
    with_cluster(&mut facts, &[("EtcdReady", "False", "QuorumLost", "")]);
    assert_eq!(diagnose(&facts, |_| true)[0].check, Check::Etcd);
    tenant(&mut facts).claims = Known::Known(vec![]);
    assert_eq!(diagnose(&facts, |_| true)[0].check, Check::StorageClass);
}
