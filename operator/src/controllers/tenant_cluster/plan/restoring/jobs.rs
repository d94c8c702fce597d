//! How far the Jobs of a restore are, and what they say.
//!
//! Invariant: what was built is known from the pod's own word alone; a Job that is over and has nobody who says it failed.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use tenant_cp::backup::restore_jobs::{APPEND, SEAL};

use crate::restoring::{Built, Job, Salvage};

/// What the last container of a pod reports.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(rename = "claimUID")]
    claim_uid: String,
    revision: u64,
    data: Ids,
}

#[derive(Debug, Deserialize)]
struct Ids {
    #[serde(rename = "clusterID")]
    cluster: String,
    #[serde(rename = "memberID")]
    member: String,
}

/// What the last container reports of a pod that reads what is left of a member.
#[derive(Debug, Deserialize)]
struct Left {
    revision: Option<u64>,
    aside: Option<String>,
}

/// How long a pod may have no node: nothing serves meanwhile, and what it needs is on two nodes perhaps.
const HOMELESS: SignedDuration = SignedDuration::from_mins(5);

/// Of one that builds.
pub(super) fn built<'a>(
    job: &Value,
    pods: impl Iterator<Item = &'a Value>,
    now: Timestamp,
) -> Job<Built> {
    done(job, pods, now, report)
}

/// Of one that reads what is left of a member.
pub(super) fn salvaged<'a>(
    job: &Value,
    pods: impl Iterator<Item = &'a Value>,
    now: Timestamp,
) -> Job<Salvage> {
    done(job, pods, now, left)
}

fn done<'a, T>(
    job: &Value,
    pods: impl Iterator<Item = &'a Value>,
    now: Timestamp,
    read: impl Fn(&Value) -> Option<T>,
) -> Job<T> {
    let pods: Vec<_> = pods.collect();
    match condition(job) {
        Some(("Complete", _)) => {
            let mut reports = pods.iter().filter_map(|pod| read(pod));
            match reports.next() {
                Some(said) => Job::Done(said),
                None => Job::Failed("its pod is gone, so nobody knows what was built".to_owned()),
            }
        }
        Some((_, why)) => Job::Failed(failure(&pods).unwrap_or(why)),
        None => match pods.iter().find_map(|pod| homeless(pod, now)) {
            Some(why) => Job::Failed(why),
            None => Job::Runs,
        },
    }
}

/// Why a pod has had no node for so long.
fn homeless(pod: &Value, now: Timestamp) -> Option<String> {
    let mut conditions = pod["status"]["conditions"].as_array()?.iter();
    let condition = conditions.find(|c| c["type"] == "PodScheduled" && c["status"] == "False")?;
    let since: Timestamp = condition["lastTransitionTime"].as_str()?.parse().ok()?;
    let why = condition["message"].as_str().unwrap_or("no node has room");
    (now.duration_since(since) > HOMELESS).then(|| format!("its pod has no node: {why}"))
}

/// Of one that has nothing to say but that it is over.
pub(super) fn ended<'a>(job: &Value, pods: impl Iterator<Item = &'a Value>) -> Job<()> {
    match condition(job) {
        Some(("Complete", _)) => Job::Done(()),
        Some((_, why)) => Job::Failed(failure(&pods.collect::<Vec<_>>()).unwrap_or(why)),
        None => Job::Runs,
    }
}

/// Whether it is complete or failed, and why.
fn condition(job: &Value) -> Option<(&str, String)> {
    let conditions = job["status"]["conditions"].as_array()?;
    conditions.iter().find_map(|condition| {
        let type_ = condition["type"].as_str()?;
        let is_end = ["Complete", "Failed"].contains(&type_) && condition["status"] == "True";
        let message = condition["message"].as_str().unwrap_or("it failed");
        is_end.then(|| (type_, message.to_owned()))
    })
}

fn containers(pod: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let of = |field: &str| pod["status"][field].as_array().into_iter().flatten();
    let all = of("initContainerStatuses").chain(of("containerStatuses"));
    all.filter_map(|container| {
        let ended = container.pointer("/state/terminated")?;
        Some((container["name"].as_str()?, ended))
    })
}

/// What a container said that ended well.
fn said<'a>(pod: &'a Value, container: &str) -> Option<&'a str> {
    let (_, ended) = containers(pod).find(|(name, _)| *name == container)?;
    let message = ended["message"].as_str();
    message.filter(|_| ended["exitCode"] == 0).map(str::trim)
}

fn left(pod: &Value) -> Option<Salvage> {
    let left: Left = serde_json::from_str(said(pod, APPEND)?).ok()?;
    match (left.revision, left.aside) {
        (Some(revision), None) => Some(Salvage::Until(revision)),
        (None, Some(why)) => Some(Salvage::Aside(why)),
        _ => None,
    }
}

fn report(pod: &Value) -> Option<Built> {
    let Report {
        claim_uid,
        revision,
        data,
    } = serde_json::from_str(said(pod, SEAL)?).ok()?;
    Some(Built {
        claim_uid,
        revision,
        cluster_id: data.cluster,
        member_id: data.member,
    })
}

/// The end of what the first container said that failed, of the newest pod.
fn failure(pods: &[&Value]) -> Option<String> {
    let newest = pods
        .iter()
        .max_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str());
    let (name, ended) = containers(newest?).find(|(_, ended)| ended["exitCode"] != 0)?;
    let said = ended["message"].as_str().unwrap_or_default();
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let reason = ended["reason"].as_str().unwrap_or("Error");
    let pod = newest?["metadata"]["name"].as_str()?;
    Some(match last {
        Some(last) => format!("{name} of {pod}: {}", last.trim()),
        None => format!("{name} of {pod}: {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(type_: &str) -> Value {
        json!({ "status": { "conditions": [
            { "type": "SuccessCriteriaMet", "status": "True" },
            { "type": type_, "status": "True", "message": "Job has reached the backoff limit" },
        ] } })
    }

    fn pod(name: &str, container: &str, code: i64, message: &str) -> Value {
        json!({
            "metadata": { "name": name, "creationTimestamp": format!("2026-11-26T20:00:0{code}Z") },
            "status": {
                "initContainerStatuses": [{ "name": "etcd", "state": { "running": {} } }],
                "containerStatuses": [{ "name": container, "state": { "terminated": {
                    "exitCode": code, "message": message, "reason": "Error" } } }],
            },
        })
    }

    #[test]
    fn what_was_built_is_what_the_last_container_says() {
        let said = r#"{"claimUID":"c0","name":"etcd-0","revision":7,"data":{"clusterID":"cdf8","memberID":"8e9e"}}"#;
        let pods = [pod("a", "seal", 0, said)];
        let wanted = Built {
            claim_uid: "c0".to_owned(),
            revision: 7,
            cluster_id: "cdf8".to_owned(),
            member_id: "8e9e".to_owned(),
        };
        let now = Timestamp::UNIX_EPOCH;
        let built = |job: &Value, pods: &[Value]| built(job, pods.iter(), now);
        assert_eq!(built(&job("Complete"), &pods), Job::Done(wanted));
        assert_eq!(built(&json!({}), &pods), Job::Runs);
        for pods in [Vec::new(), vec![pod("a", "seal", 0, "{}")]] {
            assert!(matches!(built(&job("Complete"), &pods), Job::Failed(_)));
        }
    }

    #[test]
    fn what_is_left_is_what_the_last_container_says_and_silence_is_no_word_of_it() {
        let came = |said: &str| {
            let pods = [pod("a", "append", 0, said)];
            salvaged(&job("Complete"), pods.iter(), Timestamp::UNIX_EPOCH)
        };
        let until = came(r#"{"revision":1520,"deltas":3}"#);
        assert_eq!(until, Job::Done(Salvage::Until(1520)));
        let aside = came(r#"{"aside":"it cannot be copied"}"#);
        let why = "it cannot be copied".to_owned();
        assert_eq!(aside, Job::Done(Salvage::Aside(why)));
        for none in ["", "{}", r#"{"revision":7,"aside":"x"}"#] {
            assert!(matches!(came(none), Job::Failed(_)), "{none}");
        }
    }

    #[test]
    fn failure_is_said_in_the_last_words_of_the_newest_pod() {
        let pods = [
            pod("a", "fetch", 1, "something else"),
            pod(
                "b",
                "fetch",
                4,
                "{\"level\":\"INFO\"}\nthe chain is broken\n",
            ),
        ];
        let Job::Failed(why) = built(&job("Failed"), pods.iter(), Timestamp::UNIX_EPOCH) else {
            panic!("it failed");
        };
        assert_eq!(why, "fetch of b: the chain is broken");
        assert_eq!(
            ended(&job("Failed"), [].iter()),
            Job::Failed("Job has reached the backoff limit".to_owned())
        );
        assert_eq!(ended(&job("Complete"), [].iter()), Job::Done(()));
    }

    #[test]
    fn pod_that_has_no_node_is_waited_for_for_minutes_and_no_longer() {
        let pods = [
            json!({ "status": { "conditions": [{ "type": "PodScheduled", "status": "False",
            "lastTransitionTime": "1970-01-01T00:00:00Z",
            "message": "0/3 nodes are available: 2 had volume node affinity conflict" }] } }),
        ];
        let after = |minutes| {
            let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minutes);
            built(&json!({}), pods.iter(), now)
        };
        assert_eq!(after(4), Job::Runs);
        let Job::Failed(why) = after(6) else {
            panic!("it is waited for");
        };
        assert!(why.contains("volume node affinity"), "{why}");
    }
}
