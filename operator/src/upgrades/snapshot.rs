//! The Snapshot before an upgrade: whether there is to be one, and whether it is there.
//!
//! Invariant: pure. Its name says which upgrade it is for and which try, so that it is made once, whoever forgot it; and
//! one from before the upgrade was asked for is none.

use std::time::Duration;

use api::condition::is_true;
use api::tenant_cluster::UpgradeSnapshot;
use api::{ConditionType, Snapshot, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kit_objects::object::Object;
use kube::ResourceExt as _;
use serde_json::json;

use super::finding::{Check, Finding};
use super::versions::Wanted;

/// How long it is waited for (`operations.md` §2.4).
pub const PATIENCE: Duration = Duration::from_mins(10);
/// So much older than the wish for the upgrade it may be (C4): the backup has a clock of its own.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(5);
/// How long it stays in the backup at least: whoever finds out later that data is damaged still has it.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How it is about the Snapshot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// None is wanted.
    Unwanted,
    /// It is in the backup, and was whole when it was read again.
    There,
    /// It has to be made.
    Absent,
    /// It is waited for, no longer than so long.
    Awaited(Duration),
    /// None can be had.
    Unavailable(Finding),
}

/// Its name.
#[must_use]
pub fn name(wanted: &Wanted, cluster: &TenantCluster) -> String {
    let retry = cluster.spec.upgrade.retry;
    format!(
        "{}-{}-{}-{retry}",
        cluster.name_any(),
        wanted.from,
        wanted.to
    )
}

/// The Snapshot as it is made.
#[must_use]
pub fn object(wanted: &Wanted, cluster: &TenantCluster, now: Timestamp) -> Object {
    let until = now.checked_add(KEPT).unwrap_or(now);
    let name = cluster.name_any();
    Object::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "Snapshot",
        "metadata": {
            "name": self::name(wanted, cluster),
            "namespace": cluster.namespace(),
            "ownerReferences": [{
                "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "name": name,
                "uid": cluster.uid(),
            }],
        },
        "spec": {
            "clusterName": name, "kind": "Full",
            "keepUntil": until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        },
    }))
}

/// How it is; `since`: when the upgrade was first seen to be wanted.
#[must_use]
pub fn state(
    wanted: &Wanted,
    cluster: &TenantCluster,
    snapshot: Option<&Snapshot>,
    since: Timestamp,
    now: Timestamp,
) -> State {
    let policy = policy(wanted, cluster);
    if policy == UpgradeSnapshot::Never {
        return State::Unwanted;
    }
    let unavailable = |message: String| {
        State::Unavailable(match policy {
            UpgradeSnapshot::Required => Finding::block(Check::Snapshot, message),
            UpgradeSnapshot::Preferred | UpgradeSnapshot::Never => {
                Finding::warn(Check::Snapshot, message)
            }
        })
    };
    if cluster.spec.backup.is_none() {
        let message =
            "there is no backup, so what is written now could not be had again; set spec.backup";
        return unavailable(message.to_owned());
    }
    let Some(snapshot) = snapshot else {
        return State::Absent;
    };
    let name = snapshot.name_any();
    let other = "delete it, or set spec.upgrade.retry to another number";
    if snapshot.spec.cluster_name != cluster.name_any() {
        let of = &snapshot.spec.cluster_name;
        return unavailable(format!("Snapshot {name} is of TenantCluster {of}; {other}"));
    }
    let taken = snapshot
        .status
        .as_ref()
        .and_then(|status| status.taken.as_ref());
    let taken = taken.and_then(|taken| taken.parse::<Timestamp>().ok());
    let is_old = |taken: &Timestamp| since.duration_since(*taken) > TOLERANCE;
    if let Some(taken) = taken.filter(is_old) {
        let message =
            format!("Snapshot {name} is of {taken}, before this upgrade was asked for; {other}");
        return unavailable(message);
    }
    let says = |type_| {
        let status = snapshot.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, type_))
    };
    if says(ConditionType::Ready) && says(ConditionType::Verified) {
        return State::There;
    }
    let made = snapshot.metadata.creation_timestamp.as_ref();
    let waited = made.map_or(SignedDuration::ZERO, |made| now.duration_since(made.0));
    let left = PATIENCE.saturating_sub(Duration::try_from(waited).unwrap_or_default());
    match left.is_zero() {
        false => State::Awaited(left),
        true => {
            let message = match says(ConditionType::Ready) {
                true => "is in the backup and was not read again yet",
                false => "is not in the backup after ten minutes",
            };
            unavailable(format!(
                "Snapshot {name} {message}; see its conditions, or {other}"
            ))
        }
    }
}

/// A patch changes nothing that is stored, so none has to be had before it (§2.4).
fn policy(wanted: &Wanted, cluster: &TenantCluster) -> UpgradeSnapshot {
    let is_minor = wanted.to.minor != wanted.from.minor;
    let by_itself = match is_minor && cluster.spec.backup.is_some() {
        true => UpgradeSnapshot::Required,
        false => UpgradeSnapshot::Preferred,
    };
    cluster.spec.upgrade.snapshot.unwrap_or(by_itself)
}

#[cfg(test)]
mod tests {
    use semver::Version;
    use serde_json::Value;

    use super::super::finding::Verdict;
    use super::*;

    fn wanted(minor: u64) -> Wanted {
        Wanted {
            from: Version::new(1, 35, 4),
            to: Version::new(1, minor, 5),
        }
    }

    fn cluster(spec: Value) -> TenantCluster {
        let mut spec = spec;
        spec["version"] = json!("1.35.4");
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster", "spec": spec,
            "metadata": { "name": "demo", "namespace": "team-a", "uid": "u" },
        }))
        .unwrap()
    }

    fn backed_up() -> TenantCluster {
        cluster(json!({ "backup": { "target": "main" } }))
    }

    fn at(minutes: i64) -> Timestamp {
        let start: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        start
            .checked_add(SignedDuration::from_mins(minutes))
            .unwrap()
    }

    fn snapshot(of: &str, taken: Option<i64>, conditions: &[&str]) -> Snapshot {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|type_| {
                json!({ "type": type_, "status": "True", "reason": "X", "message": "",
                        "lastTransitionTime": at(0).to_string() })
            })
            .collect();
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
            "metadata": { "name": "s", "creationTimestamp": at(1).to_string() },
            "spec": { "clusterName": of },
            "status": { "taken": taken.map(|minutes| at(minutes).to_string()), "conditions": conditions },
        }))
        .unwrap()
    }

    fn of(snapshot: &Snapshot, minutes: i64) -> State {
        state(
            &wanted(36),
            &backed_up(),
            Some(snapshot),
            at(0),
            at(minutes),
        )
    }

    fn verdict(state: &State) -> Option<Verdict> {
        match state {
            State::Unavailable(finding) => Some(finding.verdict),
            _ => None,
        }
    }

    #[test]
    fn without_a_backup_it_is_told_and_blocks_only_where_somebody_wants_one() {
        for (spec, verdicts) in [
            (json!({}), [Some(Verdict::Warn); 2]),
            (
                json!({ "upgrade": { "snapshot": "Required" } }),
                [Some(Verdict::Block); 2],
            ),
            (json!({ "upgrade": { "snapshot": "Never" } }), [None; 2]),
        ] {
            let found = [35, 36].map(|minor| {
                verdict(&state(
                    &wanted(minor),
                    &cluster(spec.clone()),
                    None,
                    at(0),
                    at(0),
                ))
            });
            assert_eq!(found, verdicts, "{spec}");
        }
        let unwanted =
            cluster(json!({ "backup": { "target": "main" }, "upgrade": { "snapshot": "Never" } }));
        assert_eq!(
            state(&wanted(36), &unwanted, None, at(0), at(0)),
            State::Unwanted
        );
    }

    #[test]
    fn it_is_made_waited_for_and_there_once_it_was_read_again() {
        assert_eq!(
            state(&wanted(36), &backed_up(), None, at(0), at(0)),
            State::Absent
        );
        let left = |minutes| State::Awaited(Duration::from_mins(minutes));
        assert_eq!(of(&snapshot("demo", None, &[]), 3), left(8));
        let taken = snapshot("demo", Some(2), &["Ready"]);
        assert_eq!(of(&taken, 4), left(7), "it was not read again");
        assert_eq!(verdict(&of(&taken, 11)), Some(Verdict::Block));
        let patch = state(&wanted(35), &backed_up(), Some(&taken), at(0), at(11));
        assert_eq!(verdict(&patch), Some(Verdict::Warn));
        assert_eq!(
            of(&snapshot("demo", Some(2), &["Ready", "Verified"]), 1000),
            State::There
        );
    }

    #[test]
    fn one_of_another_tenant_cluster_or_of_before_is_none() {
        let whole = ["Ready", "Verified"];
        for (of_cluster, taken, words) in [
            ("other", 2, "is of TenantCluster other"),
            ("demo", -6, "before this upgrade was asked for"),
        ] {
            let State::Unavailable(finding) = of(&snapshot(of_cluster, Some(taken), &whole), 3)
            else {
                panic!("{words}");
            };
            assert!(finding.message.contains(words), "{finding:?}");
        }
        assert_eq!(
            of(&snapshot("demo", Some(-5), &whole), 3),
            State::There,
            "clocks differ"
        );
    }

    #[test]
    fn its_name_is_the_same_for_the_same_try() {
        let mut cluster = backed_up();
        let made = object(&wanted(36), &cluster, at(0));
        assert_eq!(made.name, "demo-1.35.4-1.36.5-0");
        assert_eq!(made.value["spec"]["keepUntil"], "2026-11-28T12:00:00Z");
        cluster.spec.upgrade.retry = 2;
        assert_eq!(name(&wanted(36), &cluster), "demo-1.35.4-1.36.5-2");
    }
}
