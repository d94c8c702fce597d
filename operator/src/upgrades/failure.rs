//! Whether an upgrade that is under way has failed, by its new pods.
//!
//! Source: what triggers a return, `operations.md` §2.6.
//! Invariant: pure, and only what is seen of new pods counts: what is not known is no failure.

use std::time::Duration;

use api::tenant_cluster::UpgradeFailureReason;
use jiff::Timestamp;
use serde_json::Value;

use crate::pod_failures;
use crate::status::one_line;

/// A container that was started again so often does not mend itself (§2.6).
pub const MOST_RESTARTS: i64 = 3;
/// The kubelet has tried to pull an image five times by then (its pauses: 10, 20, 40, 80 and 160 s).
pub const IMAGE_PATIENCE: Duration = Duration::from_mins(5);

/// Most characters of why.
const MOST: usize = 1000;

/// New pods of one Deployment of a control plane.
#[derive(Clone, Debug)]
pub struct NewPods<'a> {
    /// Name of the Deployment.
    pub component: &'a str,
    /// Pods of its newest template that are not about to end.
    pub pods: Vec<&'a Value>,
    /// How many there are to be.
    pub wanted: usize,
    /// Since when they are waited for.
    pub since: Timestamp,
    /// How long without one more that is ready.
    pub deadline: Duration,
    /// Whether etcd answers: a kube-apiserver without it ends whatever version it has.
    pub etcd_answers: bool,
}

/// That an upgrade failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Failed {
    /// What was wrong.
    pub reason: UpgradeFailureReason,
    /// For people.
    pub message: String,
}

impl NewPods<'_> {
    /// Why the upgrade has failed by them; none where it has not.
    #[must_use]
    pub fn failed(&self, now: Timestamp) -> Option<Failed> {
        let crash = || {
            let mut pods = self.pods.iter().filter(|_| self.etcd_answers);
            pods.find_map(|pod| pod_failures::ends_often(pod, MOST_RESTARTS))
        };
        let image = || {
            let mut old = (self.pods.iter())
                .filter(|pod| image_deadline(pod).is_some_and(|deadline| deadline <= now));
            old.find_map(|pod| pod_failures::lacks_image(pod))
        };
        let late = || {
            let is_late = self.deadline_at().is_some_and(|deadline| deadline <= now);
            is_late.then(|| self.why_late())
        };
        let found = |reason| {
            move |message: String| Failed {
                reason,
                message: one_line(&message, MOST),
            }
        };
        crash()
            .map(found(UpgradeFailureReason::CrashLooping))
            .or_else(|| image().map(found(UpgradeFailureReason::ImagePullFailed)))
            .or_else(|| late().map(found(UpgradeFailureReason::DeadlineExceeded)))
    }

    /// When the first of them was made; where there are none, since when they are waited for.
    #[must_use]
    pub fn begun(&self) -> Timestamp {
        let made = self.pods.iter().filter_map(|pod| created(pod));
        made.chain([self.since]).min().unwrap_or(self.since)
    }

    /// When to look at them again, though nothing happens; none where they are all ready.
    #[must_use]
    pub fn again(&self, now: Timestamp) -> Option<Duration> {
        let images = self.pods.iter().filter_map(|pod| {
            pod_failures::lacks_image(pod)?;
            image_deadline(pod)
        });
        let next = images
            .chain(self.deadline_at())
            .filter(|at| *at > now)
            .min()?;
        let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
        Some(left + Duration::from_secs(1))
    }

    fn ready(&self) -> usize {
        let ready = self.pods.iter().filter(|pod| pod_failures::is_ready(pod));
        ready.count()
    }

    /// By when one more has to be ready; none where all are.
    fn deadline_at(&self) -> Option<Timestamp> {
        if self.ready() >= self.wanted {
            return None;
        }
        let ready_since = self
            .pods
            .iter()
            .filter_map(|pod| pod_failures::ready_since(pod));
        let since = ready_since.chain([self.since]).max()?;
        since.checked_add(self.deadline).ok()
    }

    fn why_late(&self) -> String {
        let mut pods = self.pods.iter();
        let failure = pods.find_map(|pod| pod_failures::of_object(pod));
        let why = failure.map_or_else(String::new, |failure| format!(": {}", failure.message));
        format!(
            "{} of {} new pods of the Deployment {} are ready, and for {} minutes no other became so{why}",
            self.ready(),
            self.wanted,
            self.component,
            self.deadline.as_secs() / 60
        )
    }
}

/// From when on a pod's image that is not there counts.
fn image_deadline(pod: &Value) -> Option<Timestamp> {
    created(pod)?.checked_add(IMAGE_PATIENCE).ok()
}

fn created(pod: &Value) -> Option<Timestamp> {
    pod["metadata"]["creationTimestamp"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(minutes: i64) -> Timestamp {
        let start: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let by = jiff::SignedDuration::from_mins(minutes);
        start.checked_add(by).unwrap()
    }

    fn pod(containers: &Value) -> Value {
        json!({
            "metadata": { "name": "control-plane-b", "creationTimestamp": "2026-11-21T12:01:00Z" },
            "status": { "containerStatuses": containers },
        })
    }

    fn ready(minutes: i64) -> Value {
        json!({ "metadata": { "name": "control-plane-a" }, "status": { "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": at(minutes).to_string(),
        }] } })
    }

    fn new_pods(pods: &[Value]) -> NewPods<'_> {
        NewPods {
            component: "control-plane",
            pods: pods.iter().collect(),
            wanted: 2,
            since: at(0),
            deadline: Duration::from_mins(15),
            etcd_answers: true,
        }
    }

    fn reason(pods: &[Value], minutes: i64) -> Option<UpgradeFailureReason> {
        new_pods(pods)
            .failed(at(minutes))
            .map(|failed| failed.reason)
    }

    #[test]
    fn container_that_ended_three_times_fails_the_upgrade_and_is_quoted() {
        let crashes = |restarts: i64| {
            pod(
                &json!([{ "name": "kube-apiserver", "restartCount": restarts,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "exitCode": 1, "reason": "Error",
                    "message": "Usage:\nError: unknown flag: --x\n" } } }]),
            )
        };
        assert_eq!(reason(&[crashes(2)], 2), None);
        let pods = [crashes(3)];
        let failed = new_pods(&pods).failed(at(2)).unwrap();
        assert_eq!(failed.reason, UpgradeFailureReason::CrashLooping);
        assert_eq!(
            failed.message,
            "pod control-plane-b: kube-apiserver ends whenever it is started: Error, exit code 1: unknown flag: --x"
        );
        let without_etcd = NewPods {
            etcd_answers: false,
            ..new_pods(&pods)
        };
        assert_eq!(without_etcd.failed(at(2)), None, "it is not the version's");
        assert!(without_etcd.failed(at(15)).is_some(), "every wait ends");
    }

    #[test]
    fn image_that_is_not_there_fails_it_once_the_kubelet_has_tried_often() {
        for told in ["ErrImagePull", "ImagePullBackOff"] {
            let lacks = pod(
                &json!([{ "name": "kube-apiserver", "image": "x/kube-apiserver:v1.36.9",
                "state": { "waiting": { "reason": told } } }]),
            );
            assert_eq!(reason(std::slice::from_ref(&lacks), 5), None);
            let pods = [lacks];
            let again = new_pods(&pods).again(at(2)).unwrap();
            assert_eq!(again.as_secs(), 4 * 60 + 1);
            assert_eq!(
                reason(&pods, 6),
                Some(UpgradeFailureReason::ImagePullFailed)
            );
        }
    }

    #[test]
    fn deadline_counts_from_the_newest_pod_that_became_ready() {
        let late = Some(UpgradeFailureReason::DeadlineExceeded);
        assert_eq!((reason(&[], 14), reason(&[], 15)), (None, late));
        let one = [ready(10)];
        assert_eq!((reason(&one, 24), reason(&one, 25)), (None, late));
        assert_eq!(new_pods(&one).again(at(24)).unwrap().as_secs(), 61);
        let both = [ready(10), ready(11)];
        assert_eq!(reason(&both, 1000), None);
        assert_eq!(new_pods(&both).again(at(24)), None);
        let failed = new_pods(&[]).failed(at(15)).unwrap();
        assert_eq!(
            failed.message,
            "0 of 2 new pods of the Deployment control-plane are ready, and for 15 minutes no other became so"
        );
    }

    #[test]
    fn it_began_when_the_first_new_pod_was_made() {
        assert_eq!(new_pods(&[]).begun(), at(0));
        let pods = [pod(&json!([]))];
        let found = new_pods(&pods);
        assert_eq!(found.begun(), at(0));
        let later = NewPods {
            since: at(9),
            ..found
        };
        assert_eq!(later.begun(), at(1), "the phase before was it, too");
    }

    #[test]
    fn late_pod_says_why_where_it_is_known() {
        let full = json!({ "metadata": { "name": "control-plane-b" }, "status": { "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes",
        }] } });
        let pods = [full];
        let failed = new_pods(&pods).failed(at(15)).unwrap();
        assert!(
            failed
                .message
                .contains("no node has a place for it: 0/3 nodes"),
            "{failed:?}"
        );
    }
}
