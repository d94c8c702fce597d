//! When a restore is tested beside a tenant cluster, and what came of it. No I/O, no clock, no chance.
//!
//! Invariant: the name of a test's Job follows from the end of the test before it, so planning again makes no second one;
//! what a Job says is in the status before another one comes. While a Restore is under way there is none: it would be
//! in that one's way.

use std::collections::BTreeMap;

use api::tenant_cluster::RestoreTest;
use api::{ConditionStatus, Reason, TenantCluster};
use jiff::{SignedDuration, Timestamp};
use kit_objects::object::{self, Key};
use serde_json::{Value, json};
use tenant_cp::backup::restore_test::{self as job, COMPARE, DIFFERS};

use super::report::Report;
use crate::status::one_line;

/// The first test comes so long after the tenant cluster was made, and up to [`SPREAD`] later.
const FIRST: SignedDuration = SignedDuration::from_hours(1);
/// Tenant clusters that are made together are not tested together.
const SPREAD: SignedDuration = SignedDuration::from_hours(24);
/// Until one that failed is tried again, unless there is a newer snapshot.
const AGAIN: SignedDuration = SignedDuration::from_hours(6);
/// Most bytes of what a Job says.
const MOST: usize = 500;

/// How a test stands.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    /// None is due, or it cannot be.
    Rests,
    /// One is due, and there is no Job for it.
    Due,
    /// Its Job runs.
    Runs,
    /// Its Job is over, and the status does not say so yet.
    Over(RestoreTest),
}

fn last(cluster: &TenantCluster) -> Option<&RestoreTest> {
    let backup = cluster.status.as_ref()?.backup.as_ref()?;
    backup.restore_test.as_ref()
}

/// When the last test ended: by that the next one's Job is named.
#[must_use]
pub fn after(cluster: &TenantCluster) -> Option<&str> {
    last(cluster).map(|last| last.at.as_str())
}

/// Whether a test is due, so that it is looked for its Job.
#[must_use]
pub fn is_due(cluster: &TenantCluster, report: &Report, now: Timestamp) -> bool {
    let is_restoring = cluster.status.as_ref().is_some_and(|s| s.restore.is_some());
    let (Some(every), Some(verified), false) = (every(cluster), &report.verified, is_restoring)
    else {
        return false;
    };
    let Some(last) = last(cluster) else {
        let created = cluster.metadata.creation_timestamp.as_ref();
        return created.is_some_and(|created| now >= created.0 + FIRST + spread(cluster));
    };
    // A time that nobody wrote is not one that never comes.
    let Ok(at) = last.at.parse::<Timestamp>() else {
        return true;
    };
    let since = now.duration_since(at);
    match last.problem {
        None => since >= every,
        Some(_) => {
            // Each by its own clock.
            let age = report.now_ms.saturating_sub(verified.taken_ms);
            let age = SignedDuration::from_millis(i64::try_from(age).unwrap_or(i64::MAX));
            since >= AGAIN.min(every) || age < since
        }
    }
}

fn every(cluster: &TenantCluster) -> Option<SignedDuration> {
    let every = cluster.spec.backup.as_ref()?.restore_test_every()?;
    SignedDuration::try_from(every).ok()
}

/// The same for one tenant cluster, whoever asks.
fn spread(cluster: &TenantCluster) -> SignedDuration {
    let hash = object::hash(&json!(["restore test", cluster.identity_uid()]));
    let hash = u64::from_str_radix(&hash, 16).unwrap_or_default();
    let share = hash % SPREAD.as_secs().unsigned_abs();
    SignedDuration::from_secs(share.cast_signed())
}

/// How it stands with a test, by live objects, its Job among them, and by pods of tests; no pods where it was not looked
/// for either.
#[must_use]
pub fn standing(
    cluster: &TenantCluster,
    report: &Report,
    (objects, pods): (&BTreeMap<Key, Value>, Option<&[Value]>),
    now: Timestamp,
) -> Standing {
    let (Some(pods), true) = (pods, is_due(cluster, report, now)) else {
        return Standing::Rests;
    };
    let name = job::name(after(cluster));
    let is_its = |key: &&Key| key.kind == "Job" && key.name == name;
    let Some(job) = objects.keys().find(is_its).and_then(|key| objects.get(key)) else {
        return Standing::Due;
    };
    let Some(end) = end(job) else {
        return Standing::Runs;
    };
    let of_job = |pod: &&Value| {
        let labels = &pod["metadata"]["labels"];
        labels["batch.kubernetes.io/job-name"] == job["metadata"]["name"]
    };
    let pods: Vec<_> = pods.iter().filter(of_job).collect();
    let before = last(cluster);
    let at = end.at;
    let failed = |problem: String, differs| RestoreTest {
        at: at.clone(),
        passed: before.and_then(|before| before.passed.clone()),
        revision: before.and_then(|before| before.revision),
        problem: Some(one_line(&problem, MOST)),
        differs,
    };
    Standing::Over(match (end.is_complete, reported(&pods)) {
        (true, Some(revision)) => RestoreTest {
            passed: Some(at.clone()),
            at,
            revision: Some(revision),
            ..RestoreTest::default()
        },
        (true, None) => {
            let why = "its pod is gone, so nobody knows what was compared";
            failed(why.to_owned(), false)
        }
        (false, _) => match said(&pods) {
            Some((said, differs)) => failed(said, differs),
            None => failed(end.message, false),
        },
    })
}

/// What the status says of a backup that is otherwise as it should be; none where its last test did not fail.
#[must_use]
pub fn told(
    cluster: &TenantCluster,
    newest: Option<&RestoreTest>,
) -> Option<(ConditionStatus, Reason, String)> {
    every(cluster)?;
    let test = newest.or(last(cluster))?;
    let problem = test.problem.as_ref()?;
    let (reason, what) = match test.differs {
        true => (
            Reason::BackupDiffers,
            "what was restored to test it is not what etcd has",
        ),
        false => (Reason::RestoreTestFailed, "a restore could not be tested"),
    };
    Some((ConditionStatus::False, reason, format!("{what}: {problem}")))
}

/// Jobs that are to go because a Restore is under way.
#[must_use]
pub fn in_the_way<'a>(cluster: &TenantCluster, keys: impl Iterator<Item = &'a Key>) -> Vec<Key> {
    let is_restoring = cluster.status.as_ref().is_some_and(|s| s.restore.is_some());
    jobs(keys).filter(|_| is_restoring).cloned().collect()
}

/// Those that test a restore.
pub fn jobs<'a>(keys: impl Iterator<Item = &'a Key>) -> impl Iterator<Item = &'a Key> {
    keys.filter(|key| key.kind == "Job")
}

struct End {
    is_complete: bool,
    at: String,
    message: String,
}

/// Of a Job that is over.
fn end(job: &Value) -> Option<End> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions.iter().find_map(|condition| {
        let type_ = condition["type"].as_str()?;
        let is_end = ["Complete", "Failed"].contains(&type_) && condition["status"] == "True";
        is_end.then(|| End {
            is_complete: type_ == "Complete",
            at: condition["lastTransitionTime"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            message: condition["message"]
                .as_str()
                .unwrap_or("it failed")
                .to_owned(),
        })
    })
}

/// Containers that ended, with how.
fn ended(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let of = |field: &str| pod["status"][field].as_array().into_iter().flatten();
    let all = of("initContainerStatuses").chain(of("containerStatuses"));
    all.filter_map(|container| {
        let ended = container.pointer("/state/terminated")?;
        Some((container["name"].as_str()?, ended))
    })
}

/// The revision that was compared.
fn reported(pods: &[&Value]) -> Option<i64> {
    pods.iter()
        .flat_map(|pod| ended(pod))
        .find_map(|(name, ended)| {
            let is_it = name == COMPARE && ended["exitCode"] == 0;
            let message = ended["message"].as_str().filter(|_| is_it)?;
            let report: Value = serde_json::from_str(message.trim()).ok()?;
            report["revision"].as_i64()
        })
}

/// The end of what the newest pod said that failed, and whether it says that both differ.
fn said(pods: &[&Value]) -> Option<(String, bool)> {
    let created = |pod: &Value| {
        pod["metadata"]["creationTimestamp"]
            .as_str()
            .map(str::to_owned)
    };
    let newest = pods.iter().max_by_key(|pod| created(pod))?;
    let failed = ended(newest).find(|(_, ended)| ended["exitCode"] != 0);
    let Some((name, ended)) = failed else {
        // Evicted, perhaps: no container of it ended by itself.
        let message = newest["status"]["message"].as_str()?;
        return Some((message.to_owned(), false));
    };
    let differs = name == COMPARE && ended["exitCode"] == DIFFERS;
    let message = ended["message"].as_str().unwrap_or_default();
    let last = message.lines().rfind(|line| !line.trim().is_empty());
    let reason = ended["reason"].as_str().unwrap_or("Error");
    let said = last.unwrap_or(reason).trim();
    Some(match differs {
        true => (said.to_owned(), true),
        false => (format!("{name}: {said}"), false),
    })
}
