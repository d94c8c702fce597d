//! Which Restore of a tenant cluster goes ahead, and whether its backup is to be left alone for it. No I/O, no clock, no
//! chance.
//!
//! Invariant: one at a time; the oldest that can be had of the etcd cluster that there is now, and none before it is known
//! that it can, and how much revisions have to be raised.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::names::ANNOTATION_LOST_ETCD;
use api::tenant_cluster::{Bootstrap, RestoreProgress};
use api::{ConditionStatus, ConditionType, Reason, Restore, TenantCluster};
use jiff::Timestamp;
use kube::ResourceExt;

use super::into::Way;

/// Name and UID of the one that goes ahead, among all that were seen.
#[must_use]
pub fn first(all: &[Arc<Restore>], cluster: &TenantCluster) -> Option<(String, String)> {
    let can = all.iter().filter(|restore| can_begin(restore, cluster));
    let age = |restore: &Restore| {
        let created = restore.metadata.creation_timestamp.clone();
        (created.map(|created| created.0), restore.uid())
    };
    let first = can.min_by_key(|restore| age(restore))?;
    Some((first.name_any(), first.uid()?))
}

/// Whether it may go ahead, as far as it and its tenant cluster say.
#[must_use]
pub fn can_begin(restore: &Restore, cluster: &TenantCluster) -> bool {
    let Some(status) = &restore.status else {
        return false;
    };
    let fits = match other(restore, cluster) {
        // What is built takes the place of nothing, and of nothing else.
        Some(of) => awaits(cluster) && status.replaces.is_none() && is_meant(cluster, of),
        None => status.replaces.is_some() && status.replaces.as_deref() == cluster_id(cluster),
    };
    let of_it = is_of(restore, cluster)
        && status.cluster_uid.is_some()
        && status.cluster_uid.as_deref() == Some(cluster.identity_uid())
        && status.cluster_id.as_deref() == source(restore, cluster)
        && fits;
    // What was made for a loss is for that etcd cluster, and for none that took its place meanwhile.
    let made_for = restore.annotations().get(ANNOTATION_LOST_ETCD);
    let of_it = of_it && made_for.is_none_or(|lost| Some(lost.as_str()) == cluster_id(cluster));
    let is_known = status.revision.is_some() && status.bump.is_some();
    let possible = says(restore, ConditionType::Possible, Reason::RestorePossible);
    let begins = cluster.spec.backup.is_some() && !restore.spec.dry_run;
    begins && of_it && is_known && possible && !is_over(restore)
}

/// Whether nothing comes of it any more: it ended, is deleted, or cannot be had.
fn is_over(restore: &Restore) -> bool {
    restore.metadata.deletion_timestamp.is_some()
        || says(restore, ConditionType::Possible, Reason::RestoreImpossible)
        || ended(restore).is_some()
}

/// Names of those of this tenant cluster that somebody asked for and that are not over, whether or not it is known that
/// they can be had.
#[must_use]
pub fn asked(all: &[Arc<Restore>], cluster: &TenantCluster) -> BTreeSet<String> {
    let asked = all
        .iter()
        .filter(|restore| is_of(restore, cluster) && !restore.spec.dry_run && !is_over(restore));
    asked.map(|restore| restore.name_any()).collect()
}

/// What is written when it goes ahead.
#[must_use]
pub fn facts(restore: &Restore, now: Timestamp) -> Option<RestoreProgress> {
    let status = restore.status.as_ref()?;
    let from = restore
        .spec
        .from
        .as_ref()
        .and_then(|from| from.cluster_uid.as_ref());
    let of_another = from.filter(|from| status.cluster_uid.as_ref() != Some(*from));
    Some(RestoreProgress {
        name: restore.name_any(),
        uid: restore.uid()?,
        // The other one may live, so "the newest moment" is another one for each member that is built.
        moment: match of_another {
            Some(_) => format!("revision-{}", status.revision?),
            None => moment(restore)?,
        },
        cluster_id: status.cluster_id.clone()?,
        survivor: restore.spec.survivor.clone(),
        source_uid: of_another.cloned(),
        revision: status.revision?,
        bump: status.bump?,
        since: now.to_string(),
        ..RestoreProgress::default()
    })
}

/// The etcd cluster of a TenantCluster, hexadecimal.
#[must_use]
pub fn cluster_id(cluster: &TenantCluster) -> Option<&str> {
    let etcd = cluster.status.as_ref()?.etcd.as_ref()?;
    etcd.cluster_id.as_deref()
}

/// The etcd cluster whose backup is read, hexadecimal: an earlier one only where somebody names it.
#[must_use]
pub fn source<'a>(restore: &'a Restore, cluster: &'a TenantCluster) -> Option<&'a str> {
    let from = restore.spec.from.as_ref();
    from.map(|from| short(&from.cluster_id))
        .or_else(|| cluster_id(cluster))
}

fn is_of(restore: &Restore, cluster: &TenantCluster) -> bool {
    restore.namespace() == cluster.namespace() && restore.spec.cluster_name == cluster.name_any()
}

/// UID of the TenantCluster whose backup is read, where it is not the one that it is restored into.
#[must_use]
pub fn other<'a>(restore: &'a Restore, cluster: &TenantCluster) -> Option<&'a str> {
    let from = restore.spec.from.as_ref()?.cluster_uid.as_deref()?;
    (from != cluster.identity_uid()).then_some(from)
}

/// What it becomes of another TenantCluster that is brought into it: it says so itself, from when it is made.
#[must_use]
pub fn way(cluster: &TenantCluster) -> Way {
    match cluster.spec.etcd.copy_of {
        Some(_) => Way::Copy,
        None => Way::Move,
    }
}

/// Whether nothing of a tenant cluster may start before a Restore has brought its data. It is so by the TenantCluster
/// alone, from when it is made, so that no Restore can come too late; and until what its members have is written down.
#[must_use]
pub fn awaits(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let has_data = status.is_some_and(|s| s.etcd.is_some() || s.bootstrap_hash.is_some());
    cluster.spec.etcd.bootstrap == Bootstrap::Restore && !has_data
}

/// UID and etcd cluster of the TenantCluster whose backup is to be read for one that awaits it: of the Restore that is
/// under way, or of the oldest that may still be had.
#[must_use]
pub fn awaited(all: &[Arc<Restore>], cluster: &TenantCluster) -> Option<(String, String)> {
    if !awaits(cluster) {
        return None;
    }
    let status = cluster.status.as_ref();
    if let Some(progress) = status.and_then(|status| status.restore.as_ref()) {
        return Some((progress.source_uid.clone()?, progress.cluster_id.clone()));
    }
    let these = all.iter().filter(|restore| {
        let of = other(restore, cluster).filter(|of| is_meant(cluster, of));
        is_of(restore, cluster) && of.is_some() && !is_over(restore)
    });
    // One that is refused, or has been answered, is in nobody's way.
    let place = |restore: &Restore| {
        let refused = says(restore, ConditionType::Possible, Reason::RestoreRefused);
        let possible = says(restore, ConditionType::Possible, Reason::RestorePossible);
        let created = restore.metadata.creation_timestamp.clone();
        let is_answered = restore.spec.dry_run && possible;
        (
            refused,
            is_answered,
            created.map(|created| created.0),
            restore.uid(),
        )
    };
    let first = these.min_by_key(|restore| place(restore))?;
    let id = source(first, cluster)?.to_owned();
    Some((other(first, cluster)?.to_owned(), id))
}

/// Whether a TenantCluster may become that one: a copy is one of a single other one.
#[must_use]
pub fn is_meant(cluster: &TenantCluster, other: &str) -> bool {
    let copied = cluster.spec.etcd.copy_of.as_deref();
    copied.is_none_or(|copied| copied == other)
}

/// Without zeros in front: a target has folders of 16 digits, a status has none that says nothing.
#[must_use]
pub fn short(id: &str) -> &str {
    id.trim_start_matches('0')
}

/// The moment as the process is asked for it; none for a day that is none.
#[must_use]
pub fn moment(restore: &Restore) -> Option<String> {
    let Some(at) = &restore.spec.at else {
        return Some("latest".to_owned());
    };
    if let Some(revision) = at.revision {
        return Some(format!("revision-{revision}"));
    }
    let time: Timestamp = at.time.as_ref()?.parse().ok()?;
    // The whole second.
    Some(format!("time-{}", time.as_millisecond() + 999))
}

/// How it ended, where it says so: whether the tenant cluster is restored.
#[must_use]
pub fn ended(restore: &Restore) -> Option<bool> {
    match restore.status.as_ref() {
        Some(_) if says(restore, ConditionType::Restored, Reason::Restored) => Some(true),
        Some(_) if says(restore, ConditionType::Restored, Reason::RestoreGivenUp) => Some(false),
        _ => None,
    }
}

fn says(restore: &Restore, type_: ConditionType, reason: Reason) -> bool {
    let mut conditions = restore.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| {
        let is_known = condition.status != ConditionStatus::Unknown.as_str();
        condition.type_ == type_.as_str() && condition.reason == reason && is_known
    })
}

/// Whether the process that backs a tenant cluster up has no pod now: nothing is written to etcd any more, and what is to
/// be written is not known to be what stays.
#[must_use]
pub fn holds_backup(cluster: &TenantCluster) -> bool {
    let status = cluster.status.as_ref();
    let restore = status.and_then(|status| status.restore.as_ref());
    restore.is_some_and(|restore| restore.quiet && !restore.prepared && restore.given_up.is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster() -> TenantCluster {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "TenantCluster",
            "metadata": { "name": "demo", "namespace": "team-a", "uid": "u" },
            "spec": { "version": "1.35.4", "backup": { "target": "main" } },
            "status": { "etcd": { "clusterID": "cdf8", "members": [] } },
        }))
        .unwrap()
    }

    fn restore(name: &str, change: &Value) -> Arc<Restore> {
        let mut restore = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
            "metadata": { "name": name, "namespace": "team-a", "uid": format!("uid-{name}"),
                "creationTimestamp": "2026-11-26T20:00:00Z" },
            "spec": { "clusterName": "demo" },
            "status": { "clusterUID": "u", "clusterID": "cdf8", "replaces": "cdf8", "revision": 7, "bump": 9,
                "conditions": [{ "type": "Possible", "status": "True", "reason": "RestorePossible",
                    "message": "", "lastTransitionTime": "2026-11-26T20:00:00Z" }] },
        });
        merge(&mut restore, change);
        Arc::new(serde_json::from_value(restore).unwrap())
    }

    fn merge(to: &mut Value, from: &Value) {
        match (to, from) {
            (Value::Object(to), Value::Object(from)) => {
                for (key, value) in from {
                    merge(to.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (to, from) => *to = from.clone(),
        }
    }

    #[test]
    fn oldest_that_can_be_had_goes_ahead() {
        let early = json!({ "metadata": { "creationTimestamp": "2026-11-26T19:00:00Z" } });
        let all = [
            restore("a", &json!({})),
            restore("c", &early),
            restore("b", &early),
        ];
        let first = |all: &[Arc<Restore>]| first(all, &cluster()).map(|(name, _)| name);
        assert_eq!(first(&all).as_deref(), Some("b"));
        assert_eq!(first(&all[..1]).as_deref(), Some("a"));
        assert_eq!(first(&[]), None);
    }

    #[test]
    fn what_is_not_known_to_be_had_or_is_over_does_not_begin() {
        assert!(can_begin(&restore("a", &json!({})), &cluster()));
        let says = |type_: &str, status: &str, reason: &str| {
            json!({ "status": { "conditions": [{ "type": type_, "status": status, "reason": reason,
                "message": "", "lastTransitionTime": "2026-11-26T20:00:00Z" }] } })
        };
        for change in [
            json!({ "spec": { "dryRun": true } }),
            json!({ "spec": { "clusterName": "other" } }),
            json!({ "metadata": { "namespace": "team-b" } }),
            json!({ "metadata": { "deletionTimestamp": "2026-11-26T20:00:00Z" } }),
            json!({ "status": { "clusterUID": "before" } }),
            json!({ "status": { "clusterID": "abcd" } }),
            json!({ "status": { "replaces": "abcd" } }),
            json!({ "status": { "replaces": null } }),
            json!({ "spec": { "from": { "clusterID": "abcd" } } }),
            json!({ "status": { "revision": null } }),
            json!({ "status": { "bump": null } }),
            json!({ "metadata": { "annotations": { ANNOTATION_LOST_ETCD: "abcd" } } }),
            says("Possible", "Unknown", "ReadingBackup"),
            says("Possible", "False", "RestoreImpossible"),
            says("Restored", "True", "Restored"),
        ] {
            assert!(!can_begin(&restore("a", &change), &cluster()), "{change}");
        }
        let over = restore("a", &json!({}));
        let mut over = Arc::unwrap_or_clone(over);
        let ended = restore("a", &says("Restored", "False", "RestoreGivenUp"));
        let conditions = ended.status.clone().unwrap().conditions;
        over.status.as_mut().unwrap().conditions.extend(conditions);
        assert!(!can_begin(&over, &cluster()));
    }

    #[test]
    fn one_that_is_not_over_is_asked_for_whether_or_not_it_can_be_had() {
        let says = |type_: &str, reason: &str| {
            json!({ "status": { "conditions": [{ "type": type_, "status": "False", "reason": reason,
                "message": "", "lastTransitionTime": "2026-11-26T20:00:00Z" }] } })
        };
        let is_asked = |change: &Value| asked(&[restore("a", change)], &cluster()).contains("a");
        assert!(is_asked(&json!({})) && is_asked(&json!({ "status": null })));
        assert!(!is_asked(&json!({ "spec": { "clusterName": "other" } })));
        assert!(!is_asked(&json!({ "spec": { "dryRun": true } })));
        let going = json!({ "metadata": { "deletionTimestamp": "2026-11-26T20:00:00Z" } });
        assert!(!is_asked(&going));
        assert!(!is_asked(&says("Possible", "RestoreImpossible")));
        assert!(!is_asked(&says("Restored", "RestoreGivenUp")));
        assert!(asked(&[], &cluster()).is_empty());
        let own = json!({ "metadata": { "annotations": { ANNOTATION_LOST_ETCD: "cdf8" } } });
        assert!(can_begin(&restore("a", &own), &cluster()));
    }

    #[test]
    fn earlier_etcd_cluster_is_read_where_it_is_named_and_only_in_place_of_the_one_there_is() {
        let named = json!({ "spec": { "from": { "clusterID": "abcd" } },
            "status": { "clusterID": "abcd" } });
        let restore = restore("a", &named);
        assert_eq!(source(&restore, &cluster()), Some("abcd"));
        // As its folder in the target is called.
        let mut folder = Arc::unwrap_or_clone(Arc::clone(&restore));
        folder.spec.from.as_mut().unwrap().cluster_id = "000000000000abcd".to_owned();
        assert!(can_begin(&folder, &cluster()));
        assert!(can_begin(&restore, &cluster()));
        let facts = facts(&restore, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(facts.cluster_id, "abcd");
        let mut another = cluster();
        let etcd = another.status.as_mut().unwrap().etcd.as_mut().unwrap();
        etcd.cluster_id = Some("ef01".to_owned());
        assert!(
            !can_begin(&restore, &another),
            "its raise is of another one"
        );
    }

    #[test]
    fn backup_is_left_alone_from_when_nobody_writes_until_the_store_is_prepared() {
        let mut cluster = cluster();
        assert!(!holds_backup(&cluster));
        let mut held = |quiet, prepared, given_up: Option<&str>| {
            cluster.status.as_mut().unwrap().restore = Some(RestoreProgress {
                quiet,
                prepared,
                given_up: given_up.map(str::to_owned),
                ..RestoreProgress::default()
            });
            holds_backup(&cluster)
        };
        assert!(!held(false, false, None) && held(true, false, None));
        assert!(!held(true, true, None) && !held(true, false, Some("no room")));
    }
}
