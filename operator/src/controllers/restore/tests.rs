//! What is said of a Restore, and when it is asked again.
//!
//! Invariant: every answer of the process, and its silence, is here. Long because one Restore is told all of them.

mod orphans;
mod reached;
mod volumes;

use std::sync::Arc;

use api::{Reason, Restore, TenantCluster};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::into::Into;
use super::plan::{Observed, Plan, has_to_be_chosen, is_over, plan};
use crate::controllers::tenant_backup::report::{Choice, Moment};
use crate::restoring::begin::{awaited, awaits, can_begin, facts as begin_facts, moment};

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
        lacks_kms: None,
        into: None,
        balancers: None,
        volumes: None,
        cluster: Some(cluster(&json!({ "target": "main" }))),
        choice,
        durable: Some(900),
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
            lacks_kms: None,
            into: None,
            balancers: None,
            volumes: None,
            cluster,
            choice: None,
            durable: None,
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

fn found() -> Option<Choice> {
    Some(Choice::Is(Box::new(Moment {
        possible: true,
        full: Some("f".to_owned()),
        revision: Some(40),
        time_ms: Some(5_999),
        why: None,
    })))
}

/// One that is to be carried out, that can be had.
fn real() -> Restore {
    let mut real = restore(&Value::Null);
    real.spec.dry_run = false;
    real.metadata.uid = Some("r".to_owned());
    let plan = planned(&real, found());
    real.status = Some(plan.status);
    real
}

fn holding(progress: &Value, ready: (&str, &str)) -> Arc<TenantCluster> {
    let cluster = cluster(&json!({ "target": "main" }));
    let mut value = serde_json::to_value(&*cluster).unwrap();
    value["status"]["restore"] = json!({ "name": "before", "uid": "r", "moment": "latest",
        "clusterID": "cdf818194e3a8c32", "revision": 40, "bump": 1, "since": "1970-01-01T00:00:00Z" });
    for (field, fact) in progress.as_object().unwrap() {
        value["status"]["restore"][field] = fact.clone();
    }
    value["status"]["conditions"] = json!([{ "type": "Ready", "status": ready.0, "reason": ready.1,
        "message": "m", "lastTransitionTime": "1970-01-01T00:00:00Z" }]);
    Arc::new(serde_json::from_value(value).unwrap())
}

fn restored(restore: &Restore, cluster: Arc<TenantCluster>) -> (String, String, String, bool) {
    let observed = Observed {
        lacks_kms: None,
        into: None,
        balancers: None,
        volumes: None,
        cluster: Some(cluster),
        choice: None,
        durable: None,
    };
    let plan = plan(restore, &observed, Timestamp::UNIX_EPOCH);
    let mut conditions = plan.status.conditions.iter();
    let said = conditions.find(|c| c.type_ == "Restored").unwrap();
    let (status, reason) = (said.status.clone(), said.reason.clone());
    (status, reason, said.message.clone(), plan.again.is_some())
}

#[test]
fn revisions_are_raised_above_all_that_were_ever_told_or_nothing_begins() {
    let real = real();
    let status = real.status.as_ref().unwrap();
    assert_eq!(status.bump, Some(1_000_000_860));
    let mut unknown = real.clone();
    unknown.status = None;
    let observed = Observed {
        lacks_kms: None,
        into: None,
        balancers: None,
        volumes: None,
        cluster: Some(cluster(&json!({ "target": "main" }))),
        choice: found(),
        durable: None,
    };
    let plan = plan(&unknown, &observed, Timestamp::UNIX_EPOCH);
    assert_eq!(said(&plan).1, Reason::RestoreUnanswered.as_str());
    assert!(plan.status.bump.is_none() && plan.again.is_some());
}

#[test]
fn earlier_etcd_cluster_is_said_beside_the_one_that_it_replaces_and_asked_for_again_once_that_is_another()
 {
    let mut earlier = restore(&Value::Null);
    earlier.spec.dry_run = false;
    earlier.spec.from = Some(api::restore::Source {
        cluster_uid: None,
        cluster_id: "abcd".to_owned(),
    });
    earlier.metadata.uid = Some("r".to_owned());
    let status = planned(&earlier, found()).status;
    let said = (status.cluster_id.as_deref(), status.replaces.as_deref());
    assert_eq!(said, (Some("abcd"), Some("cdf818194e3a8c32")));
    // Above what the one of now told, not the one that is read.
    assert_eq!(status.bump, Some(1_000_000_860));
    earlier.status = Some(status);
    let now = cluster(&json!({ "target": "main" }));
    assert!(!has_to_be_chosen(&earlier, &now));
    let mut another = Arc::unwrap_or_clone(now);
    let etcd = another.status.as_mut().unwrap().etcd.as_mut().unwrap();
    etcd.cluster_id = Some("ef01".to_owned());
    assert!(has_to_be_chosen(&earlier, &another));
}

#[test]
fn one_that_waits_names_the_one_that_goes_ahead() {
    let waits = real();
    let free = restored(&waits, cluster(&json!({ "target": "main" })));
    assert_eq!(
        (free.0.as_str(), free.1.as_str()),
        ("Unknown", "RestoreWaiting")
    );
    let held = holding(
        &json!({ "uid": "other", "name": "first" }),
        ("True", "Answering"),
    );
    let (status, reason, message, _) = restored(&waits, held);
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("Unknown", "RestoreWaiting")
    );
    assert!(
        message.contains("Restore first of the same TenantCluster"),
        "{message}"
    );
}

#[test]
fn it_is_restored_once_the_tenant_cluster_serves_and_stays_so() {
    let mut real = real();
    let says = |real: &Restore, progress: Value, ready| restored(real, holding(&progress, ready));
    let begun = says(&real, json!({}), ("False", "Restoring"));
    assert_eq!((begun.1.as_str(), begun.2.as_str()), ("Restoring", "m"));
    // What answers before members run on what was built is the one of before.
    assert_eq!(says(&real, json!({}), ("True", "Answering")).1, "Restoring");
    let prepared = json!({ "quiet": true, "switched": true, "prepared": true });
    let starts = says(&real, prepared.clone(), ("False", "ApiUnreachable"));
    assert_eq!((starts.1.as_str(), starts.3), ("Restoring", true));
    let observed = Observed {
        lacks_kms: None,
        into: None,
        balancers: None,
        volumes: None,
        cluster: Some(holding(&prepared, ("True", "Answering"))),
        choice: None,
        durable: None,
    };
    let done = plan(&real, &observed, Timestamp::UNIX_EPOCH);
    real.status = Some(done.status);
    let outage = says(&real, prepared, ("False", "ApiUnreachable"));
    assert_eq!((outage.0.as_str(), outage.1.as_str()), ("True", "Restored"));
    assert!(
        outage.2.contains("spec.confirmed") && !outage.3,
        "{outage:?}"
    );
    let free = restored(&real, cluster(&json!({ "target": "main" })));
    assert_eq!((free.1.as_str(), free.2.as_str()), ("Restored", ""));
}

#[test]
fn why_it_was_given_up_stays_said() {
    let mut real = real();
    let given_up = holding(
        &json!({ "givenUp": "etcd-0: no room" }),
        ("True", "Answering"),
    );
    let observed = Observed {
        lacks_kms: None,
        into: None,
        balancers: None,
        volumes: None,
        cluster: Some(given_up),
        choice: None,
        durable: None,
    };
    let plan = plan(&real, &observed, Timestamp::UNIX_EPOCH);
    real.status = Some(plan.status);
    let (status, reason, message, again) = restored(&real, cluster(&json!({ "target": "main" })));
    assert_eq!(
        (status.as_str(), reason.as_str(), message.as_str(), again),
        ("False", "RestoreGivenUp", "etcd-0: no room", false)
    );
}

/// One that is to become another TenantCluster, or is none of that.
fn becoming(bootstrap: &str, etcd: bool) -> Arc<TenantCluster> {
    let mut cluster = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": "team-a", "uid": "u" },
        "spec": { "version": "1.35.4", "etcd": { "bootstrap": bootstrap }, "backup": { "target": "main" } },
        "status": { "namespace": "covey-demo-u" },
    });
    if etcd {
        cluster["status"]["etcd"] = json!({ "clusterID": "8e9e", "members": [] });
    }
    Arc::new(serde_json::from_value(cluster).unwrap())
}

fn of_another(uid: Option<&str>) -> Restore {
    let mut of = restore(&Value::Null);
    of.spec.dry_run = false;
    of.spec.from = Some(api::restore::Source {
        cluster_uid: uid.map(str::to_owned),
        cluster_id: "cdf8".to_owned(),
    });
    of
}

fn planned_into(restore: &Restore, cluster: Arc<TenantCluster>, into: Option<Into>) -> Plan {
    let observed = Observed {
        lacks_kms: None,
        cluster: Some(cluster),
        choice: into.is_some().then(found).flatten(),
        durable: Some(900),
        into,
        balancers: None,
        volumes: None,
    };
    plan(restore, &observed, Timestamp::UNIX_EPOCH)
}

#[test]
fn what_has_data_does_not_become_another_one_and_what_waits_for_it_is_told_whose() {
    let never = |restore: &Restore, cluster: Arc<TenantCluster>| {
        let plan = planned_into(restore, cluster, None);
        let (status, reason, message) = said(&plan);
        assert_eq!((status, reason), ("False", "RestoreImpossible"));
        assert!(plan.again.is_none());
        message.to_owned()
    };
    let other = of_another(Some("then"));
    for cluster in [
        becoming("New", true),
        becoming("New", false),
        becoming("Restore", true),
    ] {
        let message = never(&other, cluster);
        assert!(message.contains("make another TenantCluster"), "{message}");
    }
    for own in [of_another(None), of_another(Some("u"))] {
        let message = never(&own, becoming("Restore", false));
        assert!(message.contains("from.clusterUID"), "{message}");
    }
}

#[test]
fn copy_of_one_tenant_cluster_is_never_made_of_the_backup_of_another() {
    let copy = |of: &str| {
        let mut copy = Arc::unwrap_or_clone(becoming("Restore", false));
        copy.spec.etcd.copy_of = Some(of.to_owned());
        Arc::new(copy)
    };
    let mut other = of_another(Some("then"));
    other.metadata.uid = Some("r".to_owned());
    let plan = planned_into(&other, copy("x"), None);
    let (status, reason, message) = said(&plan);
    assert_eq!((status, reason), ("False", "RestoreImpossible"));
    assert!(
        message.contains("is a copy of x (spec.etcd.copyOf)"),
        "{message}"
    );
    let all = [Arc::new(other.clone())];
    assert_eq!(awaited(&all, &copy("x")), None, "its backup is read");
    assert!(awaited(&all, &copy("then")).is_some());

    let plan = planned_into(&other, copy("then"), Some(Into::Ready));
    other.status = Some(plan.status);
    assert!(can_begin(&other, &copy("then")) && !can_begin(&other, &copy("x")));
    // The one of then goes on: every member is built of what was found, whatever is the newest by then.
    let facts = begin_facts(&other, Timestamp::UNIX_EPOCH).unwrap();
    let revision = other.status.unwrap().revision.unwrap();
    assert_eq!(facts.moment, format!("revision-{revision}"));
}

#[test]
fn one_that_may_not_become_it_is_told_why_and_looked_at_again_and_nothing_can_begin() {
    let other = of_another(Some("then"));
    for (into, reason) in [
        (Into::Refused("no key".to_owned()), "RestoreRefused"),
        (Into::Waits("no pod".to_owned()), "RestoreUnanswered"),
    ] {
        let plan = planned_into(&other, becoming("Restore", false), Some(into));
        assert_eq!(said(&plan).1, reason);
        assert!(plan.again.is_some() && plan.status.bump.is_none());
        let mut told = other.clone();
        told.status = Some(plan.status);
        assert!(!is_over(&told) && !can_begin(&told, &becoming("Restore", false)));
    }
}

#[test]
fn one_that_may_become_it_begins_in_the_place_of_nothing_and_only_while_it_waits() {
    let mut other = of_another(Some("then"));
    other.metadata.uid = Some("r".to_owned());
    let waiting = becoming("Restore", false);
    let plan = planned_into(&other, Arc::clone(&waiting), Some(Into::Ready));
    let status = plan.status.clone();
    assert_eq!(status.cluster_id.as_deref(), Some("cdf8"));
    assert_eq!((status.replaces, status.bump), (None, Some(1_000_000_860)));
    other.status = Some(plan.status);
    assert!(can_begin(&other, &waiting));
    let facts = begin_facts(&other, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(facts.source_uid.as_deref(), Some("then"));
    for not in [becoming("New", false), becoming("Restore", true)] {
        assert!(!can_begin(&other, &not));
        assert!(!awaits(&not));
    }
    // Who names its own UID means itself.
    let mut own = other.clone();
    own.spec.from.as_mut().unwrap().cluster_uid = Some("u".to_owned());
    let own = begin_facts(&own, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(own.source_uid, None);
    // In place of what there is it is never carried out, whatever its status says.
    other.status.as_mut().unwrap().replaces = Some("8e9e".to_owned());
    assert!(!can_begin(&other, &becoming("Restore", true)));
    assert!(!can_begin(&other, &waiting));
}

#[test]
fn backup_that_is_read_is_that_of_the_oldest_restore_that_may_still_be_had_or_is_under_way() {
    let of = |name: &str, uid: &str, second: i64, never: bool| {
        let mut of = of_another(Some(uid));
        of.metadata.name = Some(name.to_owned());
        of.metadata.uid = Some(name.to_owned());
        let created = Timestamp::from_second(second).unwrap();
        of.metadata.creation_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created),
        );
        if never {
            let into = planned_into(&of, becoming("New", false), None);
            of.status = Some(into.status);
        }
        Arc::new(of)
    };
    let all = [
        of("a", "x", 3, false),
        of("b", "y", 2, false),
        of("c", "z", 1, true),
    ];
    let refused = |of: &Arc<Restore>| {
        let into = Some(Into::Refused("no identity".to_owned()));
        let plan = planned_into(of, becoming("Restore", false), into);
        let mut of = Restore::clone(of);
        of.status = Some(plan.status);
        Arc::new(of)
    };
    let waiting = becoming("Restore", false);
    let behind = [refused(&all[0]), refused(&all[1])];
    let first =
        |all: &[Arc<Restore>]| awaited(all, &becoming("Restore", false)).map(|(uid, _)| uid);
    assert_eq!(
        first(&[Arc::clone(&all[0]), Arc::clone(&behind[1])]).as_deref(),
        Some("x")
    );
    assert_eq!(first(&behind).as_deref(), Some("y"));
    let uid = |cluster: &TenantCluster| awaited(&all, cluster).map(|(uid, _)| uid);
    assert_eq!(uid(&waiting).as_deref(), Some("y"));
    assert_eq!(uid(&becoming("Restore", true)), None);
    assert_eq!(uid(&becoming("New", false)), None);
    let mut begun = Arc::unwrap_or_clone(waiting);
    begun.status.as_mut().unwrap().restore = Some(api::tenant_cluster::RestoreProgress {
        source_uid: Some("x".to_owned()),
        cluster_id: "cdf8".to_owned(),
        ..api::tenant_cluster::RestoreProgress::default()
    });
    assert_eq!(uid(&begun).as_deref(), Some("x"));
}
