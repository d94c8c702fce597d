//! What is said of a Restore. No I/O, no clock, no chance.
//!
//! Laws: only what the process found says that it can be had, or that it cannot; whatever else happens it is asked again.
//! Erased conditions are said again.

use std::sync::Arc;

use api::restore::Moment;
use api::{
    ConditionStatus, ConditionType, Reason, Restore, RestoreStatus, TenantCluster, set_condition,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use crate::controllers::tenant_backup::report::{self, Choice};
use crate::status::one_line;

/// How soon it is asked again while the backup is read.
const SOON: SignedDuration = SignedDuration::from_secs(2);
/// How soon while nobody answers.
const LATER: SignedDuration = SignedDuration::from_secs(15);

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The TenantCluster of the name in its namespace.
    pub cluster: Option<Arc<TenantCluster>>,
    /// What the process found; none where it was not asked.
    pub choice: Option<Choice>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The status as it should be.
    pub status: RestoreStatus,
    /// When to look again, unless something happens.
    pub again: Option<SignedDuration>,
}

/// Whether it is known, so that nothing is to be done any more.
#[must_use]
pub fn is_over(restore: &Restore) -> bool {
    let mut conditions = restore.status.iter().flat_map(|status| &status.conditions);
    let known = [Reason::RestorePossible, Reason::RestoreImpossible];
    conditions.any(|condition| known.iter().any(|reason| condition.reason == *reason))
}

/// The etcd cluster of a TenantCluster, hexadecimal.
#[must_use]
pub fn cluster_id(cluster: &TenantCluster) -> Option<&str> {
    let etcd = cluster.status.as_ref()?.etcd.as_ref()?;
    etcd.cluster_id.as_deref()
}

/// The moment as the process is asked for it; none for a day that is none.
#[must_use]
pub fn moment(restore: &Restore) -> Option<String> {
    match &restore.spec.at {
        None => Some("latest".to_owned()),
        Some(Moment {
            revision: Some(revision),
            ..
        }) => Some(format!("revision-{revision}")),
        Some(Moment { time, .. }) => {
            let time: Timestamp = time.as_ref()?.parse().ok()?;
            // The whole second.
            Some(format!("time-{}", time.as_millisecond() + 999))
        }
    }
}

/// Decides.
#[must_use]
pub fn plan(restore: &Restore, observed: &Observed, now: Timestamp) -> Plan {
    use ConditionStatus::{False, True, Unknown};
    let mut status = restore.status.clone().unwrap_or_default();
    let generation = restore.metadata.generation;
    status.observed_generation = generation;
    let name = &restore.spec.cluster_name;
    let (value, reason, message, again) = match (&observed.cluster, &observed.choice) {
        (None, _) => {
            let message = format!("there is no TenantCluster {name} in this namespace");
            (Unknown, Reason::RestoreWithoutCluster, message, None)
        }
        (Some(cluster), _) if cluster.spec.backup.is_none() => {
            let message =
                format!("TenantCluster {name} has no spec.backup, so nothing reads its backup");
            (Unknown, Reason::RestoreWithoutBackup, message, None)
        }
        _ if moment(restore).is_none() => {
            let message = "spec.at.time is no day of the calendar".to_owned();
            (False, Reason::RestoreImpossible, message, None)
        }
        (Some(_), Some(Choice::Reads)) => {
            let message = "the backup is being read".to_owned();
            (Unknown, Reason::ReadingBackup, message, Some(SOON))
        }
        (Some(_), None | Some(Choice::Unknown(_))) => {
            // The words of a failure differ each time, and each would be a write.
            let message =
                "the process that backs the tenant cluster up cannot say it now".to_owned();
            (Unknown, Reason::RestoreUnanswered, message, Some(LATER))
        }
        (Some(cluster), Some(Choice::Is(found))) => {
            status.cluster_uid = cluster.uid();
            status.cluster_id = cluster_id(cluster).map(str::to_owned);
            status.revision = found.revision.and_then(|n| i64::try_from(n).ok());
            status.time = found
                .time_ms
                .and_then(report::to_the_second)
                .map(|at| at.to_string());
            status.full = found
                .full
                .as_deref()
                .filter(|_| found.possible)
                .map(|full| one_line(full, 80));
            match found.possible {
                true => (True, Reason::RestorePossible, String::new(), None),
                false => (
                    False,
                    Reason::RestoreImpossible,
                    impossible(found, &status),
                    None,
                ),
            }
        }
    };
    set_condition(
        &mut status.conditions,
        ConditionType::Possible,
        value,
        reason,
        &message,
        generation,
        Time(now),
    );
    Plan { status, again }
}

/// What is wrong, and the nearest moment that can be had.
fn impossible(found: &report::Moment, status: &RestoreStatus) -> String {
    let why = one_line(found.why.as_deref().unwrap_or("nobody says why"), 1000);
    match (status.revision, &status.time) {
        (Some(revision), Some(time)) => {
            format!(
                "{why}; the nearest moment before it that can be had is {time}, revision {revision}"
            )
        }
        _ => format!("{why}; nothing before it can be had"),
    }
}
