//! What the Jobs that check a BackupTarget say, and their pods.
//!
//! Invariant: decides nothing. A pod counts only for the very Job that made it; what it says is bounded in bytes and
//! is text for people.

use api::{BackupTarget, names};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::Value;
use tenant_cp::backup::check_job;

use super::plan::{Check, Progress, Report};
use crate::pod_failures;
use crate::status::one_line;

/// Most Jobs and pods of one target that are looked at. There are a few for a moment.
const MOST: u32 = 50;
/// Label of a Job's pods: its UID (kubernetes.io/docs, "Well-Known Labels").
const LABEL_JOB_UID: &str = "batch.kubernetes.io/controller-uid";
/// Bytes of what a check says that are passed on.
const LONGEST: usize = 600;

/// What the program reports (docs/backup-format.md, "Checking a store").
#[derive(Debug, Deserialize)]
struct Reported {
    #[serde(default)]
    call: Option<String>,
    why: String,
    #[serde(default)]
    detail: String,
}

/// All checks of a target that there are.
///
/// # Errors
/// When the API does not answer or refuses.
pub async fn checks(
    client: &Client,
    namespace: &str,
    target: &BackupTarget,
) -> Result<Vec<Check>, kube::Error> {
    let uid = target.uid().unwrap_or_default();
    let of_it = ListParams::default()
        .labels(&format!("{}={uid}", names::LABEL_BACKUP_TARGET))
        .limit(MOST);
    let jobs = Api::<Job>::namespaced(client.clone(), namespace);
    let jobs = jobs.list(&of_it).await?.items;
    let pods = match jobs.is_empty() {
        true => Vec::new(),
        false => {
            let pods = Api::<Pod>::namespaced(client.clone(), namespace);
            pods.list(&of_it).await?.items
        }
    };
    Ok(jobs.iter().map(|job| check(job, &pods)).collect())
}

/// One Job, with what its pods say.
#[must_use]
pub fn check(job: &Job, pods: &[Pod]) -> Check {
    let uid = job.uid().unwrap_or_default();
    let own: Vec<_> = pods
        .iter()
        .filter(|pod| pod.labels().get(LABEL_JOB_UID) == Some(&uid))
        .filter_map(|pod| serde_json::to_value(pod).ok())
        .collect();
    Check {
        name: job.name_any(),
        resource_version: job.resource_version().unwrap_or_default(),
        is_going: job.metadata.deletion_timestamp.is_some(),
        progress: progress(job),
        report: own.iter().find_map(report),
        waits_for: own
            .iter()
            .find_map(pod_failures::of_object)
            .map(|f| f.message),
        uid,
    }
}

fn progress(job: &Job) -> Progress {
    let time = |at: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        at.as_ref().map(|time| time.0)
    };
    let begun = time(&job.metadata.creation_timestamp).unwrap_or(Timestamp::MAX);
    let status = job.status.as_ref();
    let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
    let ended = conditions.find_map(|condition| {
        let at = time(&condition.last_transition_time).unwrap_or(begun);
        match (condition.type_.as_str(), condition.status.as_str()) {
            ("Complete", "True") => Some(Progress::Succeeded(at)),
            ("Failed", "True") => Some(Progress::Failed(at)),
            _ => None,
        }
    });
    ended.unwrap_or(Progress::Runs(begun))
}

/// The last word of a pod's container that failed.
fn report(pod: &Value) -> Option<Report> {
    let containers = pod["status"]["containerStatuses"].as_array()?;
    let check = containers
        .iter()
        .find(|c| c["name"] == check_job::CONTAINER)?;
    let ended = &check["state"]["terminated"];
    if ended["exitCode"].as_i64()? == 0 {
        return None;
    }
    let said = ended["message"].as_str().unwrap_or_default();
    let reported = serde_json::from_str(said).unwrap_or_else(|_| Reported {
        call: None,
        why: match said.trim() {
            "" => format!(
                "it ended with {}",
                ended["reason"].as_str().unwrap_or("an error")
            ),
            said => said.to_owned(),
        },
        detail: String::new(),
    });
    let why = match reported.call {
        Some(call) => format!("{call}: {}", reported.why),
        None => reported.why,
    };
    Some(Report {
        why: one_line(&why, LONGEST),
        detail: one_line(&reported.detail, LONGEST),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(status: Value) -> Job {
        serde_json::from_value(json!({
            "metadata": {
                "name": "backup-check-a", "uid": "j1", "resourceVersion": "7",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "status": status,
        }))
        .unwrap()
    }

    fn pod(of: &str, state: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "backup-check-a-x", "labels": { LABEL_JOB_UID: of } },
            "status": { "containerStatuses": [{
                "name": "check", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
            }] },
        }))
        .unwrap()
    }

    fn failed() -> Job {
        job(json!({ "conditions": [{
            "type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z",
        }] }))
    }

    fn ended(message: &str) -> Value {
        json!({ "terminated": { "exitCode": 1, "message": message, "reason": "Error" } })
    }

    #[test]
    fn report_of_the_jobs_own_pod_is_read_and_no_other_pods() {
        let said = r#"{"call":"create","why":"it is busy","detail":"503"}"#;
        let own = pod("j1", ended(said));
        let other = pod("j0", ended(r#"{"why":"another"}"#));
        let seen = check(&failed(), &[other.clone(), own]);
        let report = seen.report.unwrap();
        assert_eq!(
            (report.why.as_str(), report.detail.as_str()),
            ("create: it is busy", "503")
        );
        assert_eq!(check(&failed(), &[other]).report, None);
        assert!(matches!(seen.progress, Progress::Failed(at) if at.as_second() % 60 == 9));
    }

    #[test]
    fn what_is_no_report_is_passed_on_as_one_short_line() {
        let of = |message: &str| {
            check(&failed(), &[pod("j1", ended(message))])
                .report
                .unwrap()
                .why
        };
        assert_eq!(of("exec: no such file\n"), "exec: no such file");
        assert_eq!(of(""), "it ended with Error");
        assert_eq!(of(&"ü\n".repeat(4000)).len(), LONGEST);
    }

    #[test]
    fn job_that_ended_well_reports_nothing_and_one_that_waits_says_for_what() {
        let complete = job(json!({ "conditions": [{ "type": "Complete", "status": "True" }] }));
        let fine = pod("j1", json!({ "terminated": { "exitCode": 0 } }));
        let seen = check(&complete, &[fine]);
        assert!(matches!(seen.progress, Progress::Succeeded(_)) && seen.report.is_none());
        let waits =
            json!({ "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } });
        let seen = check(&job(json!({})), &[pod("j1", waits)]);
        assert!(matches!(seen.progress, Progress::Runs(_)));
        assert!(seen.waits_for.unwrap().contains("backup-check-a-x"));
    }
}
