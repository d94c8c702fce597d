//! Why pods of control planes do not run, as kubelet, scheduler and etcd's start gate say it.
//!
//! Invariant: what a pod's status says is text for people, cut to a length; what is decided by it are its
//! reasons and exit codes, and those that are not known here decide nothing.

use api::Reason;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;
use tenant_cp::names;

mod error_line;
pub mod golden_start;
mod last_words;

use error_line::first_error_line;
use last_words::last_words;

/// Bytes of a sentence that are passed on.
const LONGEST_MESSAGE: usize = 512;
/// Restarts after which a container that ends again and again does not mend itself: it is over two
/// minutes old then (kubelet waits 10, 20 and 40 seconds). An API server whose etcd is late needs fewer.
const MANY_RESTARTS: i64 = 4;
/// Exit codes of etcd's start gate and its words for them (docs/etcd.md).
const GATE: [(i64, Reason); 9] = [
    (10, Reason::VolumeLost),
    (11, Reason::ForeignData),
    (12, Reason::OtherMember),
    (13, Reason::OtherClaim),
    (14, Reason::Damaged),
    (15, Reason::IdentityUnusable),
    (16, Reason::VolumeUnreadable),
    (17, Reason::TimedOut),
    (18, Reason::OutdatedData),
];
/// Those of them that pass by themselves.
const PASSING: [i64; 3] = [15, 16, 17];

/// A pod, as far as it says why it does not run.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = core::Pod)]
pub struct Pod {
    /// Name and labels.
    pub metadata: ObjectMeta,
    /// How it is.
    #[serde(default)]
    pub status: PodStatus,
}

/// How a pod is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatus {
    /// Scheduled, ready and so on.
    #[serde(default)]
    conditions: Vec<PodCondition>,
    #[serde(default)]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(default)]
    container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodCondition {
    #[serde(rename = "type", default)]
    type_: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[serde(default)]
    name: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    restart_count: i64,
    #[serde(default)]
    state: State,
    #[serde(default)]
    last_state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct State {
    waiting: Option<Told>,
    terminated: Option<Told>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    exit_code: i64,
}

/// Why a pod does not run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodFailure {
    /// For conditions.
    pub reason: Reason,
    /// A sentence that names the pod.
    pub message: String,
    /// Whether it stays until somebody does something.
    pub lasts: bool,
}

/// Why this pod, as JSON, does not run; none where it does, is about to, or cannot be read.
#[must_use]
pub fn of_object(pod: &Value) -> Option<PodFailure> {
    of(&Pod::deserialize(pod).ok()?)
}

/// Why a pod does not run; none where it does or is about to.
#[must_use]
pub fn of(pod: &Pod) -> Option<PodFailure> {
    if pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = &pod.status;
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses);
    let (reason, message, lasts) = refused(&status.init_container_statuses)
        .or_else(|| containers.clone().find_map(not_made))
        .or_else(|| containers.clone().find_map(ends_again))
        .or_else(|| unschedulable(&status.conditions))?;
    Some(PodFailure {
        reason,
        message: format!("pod {name}: {}", cut(&message)),
        lasts,
    })
}

/// A container of this pod, as JSON, that was started again so often, and how it ended.
#[must_use]
pub fn ends_often(pod: &Value, times: i64) -> Option<String> {
    of_containers(pod, |container| {
        let is_it = container.restart_count >= times;
        is_it.then(|| how_it_ended(container))
    })
}

/// A container of this pod, as JSON, whose image is not there.
#[must_use]
pub fn lacks_image(pod: &Value) -> Option<String> {
    of_containers(pod, |container| {
        let (reason, message, _) = not_made(container)?;
        (reason == Reason::ImagePullFailed).then_some(message)
    })
}

/// The first container of which something is said, with the name of the pod.
fn of_containers(pod: &Value, said: impl Fn(&ContainerStatus) -> Option<String>) -> Option<String> {
    let pod = Pod::deserialize(pod).ok()?;
    let status = &pod.status;
    let mut containers = (status.init_container_statuses.iter()).chain(&status.container_statuses);
    let message = containers.find_map(said)?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    Some(format!("pod {name}: {}", cut(&message)))
}

/// What etcd's start gate says against the volume of this pod, as JSON, that no other try changes.
#[must_use]
pub fn refusal_of_gate(pod: &Value) -> Option<Reason> {
    let pod = Pod::deserialize(pod).ok()?;
    let (reason, _, lasts) = refused(&pod.status.init_container_statuses)?;
    lasts.then_some(reason)
}

/// Whether etcd in this pod, as JSON, did not start because of its data: it is damaged, or others that run have other
/// data (etcd's `InitialCorruptCheck`). A tenant's words are no line of their own in etcd's log.
#[must_use]
pub fn is_disowned(pod: &Value) -> bool {
    let Ok(pod) = Pod::deserialize(pod) else {
        return false;
    };
    let mut containers = pod.status.container_statuses.iter();
    let etcd = containers.find(|container| container.name == names::ETCD);
    // What one that runs said before may be long ago.
    let ended = etcd.and_then(|etcd| match etcd.state.waiting {
        Some(_) => etcd.last_state.terminated.as_ref(),
        None => etcd.state.terminated.as_ref(),
    });
    let disowns = |ended: &Told| {
        let words = last_words(&ended.message);
        ended.exit_code != 0 && words.is_some_and(|words| words.is_of_data())
    };
    !has_condition(&pod, "Ready") && ended.is_some_and(disowns)
}

fn has_condition(pod: &Pod, type_: &str) -> bool {
    let mut conditions = pod.status.conditions.iter();
    conditions.any(|c| c.type_ == type_ && c.status == "True")
}

/// Whether a pod, as JSON, is ready to serve.
#[must_use]
pub fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Since when a pod, as JSON, is ready to serve; none where it is not, or does not say.
#[must_use]
pub fn ready_since(pod: &Value) -> Option<Timestamp> {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|c| c["type"] == "Ready" && c["status"] == "True")?;
    ready["lastTransitionTime"].as_str()?.parse().ok()
}

type Found = (Reason, String, bool);

/// etcd's start gate said no.
fn refused(init_containers: &[ContainerStatus]) -> Option<Found> {
    let gate = init_containers
        .iter()
        .find(|container| container.name == names::ETCD_GATE)?;
    let ended = gate.state.terminated.as_ref();
    // While it is asked again, the last answer stands.
    let ended = ended.or(gate.last_state.terminated.as_ref())?;
    let (code, reason) = GATE.iter().find(|(code, _)| *code == ended.exit_code)?;
    let message = ended.message.trim();
    let sentence = message.strip_prefix(reason.as_str()).unwrap_or(message);
    let sentence = sentence.trim_start_matches(':').trim();
    let sentence = match sentence {
        "" => "etcd is not started on its volume",
        sentence => sentence,
    };
    Some((*reason, sentence.to_owned(), !PASSING.contains(code)))
}

/// Its image or its configuration is not there.
fn not_made(container: &ContainerStatus) -> Option<Found> {
    let waiting = container.state.waiting.as_ref()?;
    let (name, image) = (&container.name, &container.image);
    let told = |what: String| match waiting.message.as_str() {
        "" => what,
        message => format!("{what}: {message}"),
    };
    match waiting.reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => Some((
            Reason::ImagePullFailed,
            told(format!("the image {image} of {name} cannot be pulled")),
            waiting.reason != "ErrImagePull",
        )),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => Some((
            Reason::ContainerNotCreated,
            told(format!("the container {name} cannot be made")),
            false,
        )),
        _ => None,
    }
}

/// It starts, and ends again.
fn ends_again(container: &ContainerStatus) -> Option<Found> {
    let waiting = container.state.waiting.as_ref()?;
    if waiting.reason != "CrashLoopBackOff" {
        return None;
    }
    Some((
        Reason::CrashLooping,
        how_it_ended(container),
        container.restart_count >= MANY_RESTARTS,
    ))
}

/// How a container that was started again ended the last time, for people.
fn how_it_ended(container: &ContainerStatus) -> String {
    let name = &container.name;
    let ended = container.state.terminated.as_ref();
    let last = ended.or(container.last_state.terminated.as_ref());
    let last = last.map_or_else(String::new, |last| {
        let how = format!(": {}, exit code {}", last.reason, last.exit_code);
        // It is the end of a log, which is another one each time.
        let words = match name == names::ETCD {
            true => last_words(&last.message).map(|words| words.text()),
            false => first_error_line(&last.message),
        };
        match words.filter(|words| !words.is_empty()) {
            Some(words) => format!("{how}: {words}"),
            None => how,
        }
    });
    // Without the number of restarts: each would be another status.
    format!("{name} ends whenever it is started{last}")
}

fn unschedulable(conditions: &[PodCondition]) -> Option<Found> {
    let scheduled = conditions.iter().find(|c| c.type_ == "PodScheduled")?;
    if scheduled.status != "False" || scheduled.reason != "Unschedulable" {
        return None;
    }
    let message = format!("no node has a place for it: {}", scheduled.message);
    Some((Reason::Unschedulable, message, false))
}

fn cut(message: &str) -> String {
    let mut end = message.len().min(LONGEST_MESSAGE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    match end < message.len() {
        true => format!("{}…", &message[..end]),
        false => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: &Value) -> Value {
        json!({ "metadata": { "name": "etcd-0" }, "status": status })
    }

    fn failure(status: &Value) -> Option<(Reason, String, bool)> {
        of_object(&pod(status)).map(|f| (f.reason, f.message, f.lasts))
    }

    #[test]
    fn gate_that_says_no_is_quoted_also_while_it_is_asked_again() {
        let told = |mut container: Value| {
            container["name"] = json!("gate");
            failure(&json!({ "initContainerStatuses": [container] }))
        };
        let ended = json!({ "terminated": { "exitCode": 10, "reason": "Error",
            "message": "VolumeLost: the volume of etcd-0 has no data\n" } });
        let lost = Some((
            Reason::VolumeLost,
            "pod etcd-0: the volume of etcd-0 has no data".to_owned(),
            true,
        ));
        assert_eq!(told(json!({ "state": ended })), lost);
        let again = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        assert_eq!(told(json!({ "state": again, "lastState": ended })), lost);
        let running = json!({ "running": {} });
        assert_eq!(told(json!({ "state": running, "lastState": ended })), lost);
        let mut gate = json!({ "name": "gate", "state": ended });
        let refusal =
            |gate: &Value| refusal_of_gate(&pod(&json!({ "initContainerStatuses": [gate] })));
        assert_eq!(refusal(&gate), Some(Reason::VolumeLost));
        let (damaged, old) = (Some(Reason::Damaged), Some(Reason::OutdatedData));
        for (code, reason) in [(0, None), (14, damaged), (16, None), (18, old)] {
            gate["state"]["terminated"]["exitCode"] = json!(code);
            assert_eq!(refusal(&gate), reason, "{code}");
        }
        let passed = json!({ "terminated": { "exitCode": 0 } });
        assert_eq!(told(json!({ "state": passed, "lastState": ended })), None);
        let slow = json!({ "terminated": { "exitCode": 17, "message": "" } });
        let found = told(json!({ "state": slow })).unwrap();
        assert_eq!((found.0, found.2), (Reason::TimedOut, false));
        let killed = json!({ "terminated": { "exitCode": 137, "message": "VolumeLost: no" } });
        assert_eq!(told(json!({ "state": killed })), None);
    }

    #[test]
    fn etcd_that_does_not_take_its_data_for_right_is_told_from_one_that_ends_otherwise() {
        let of = |state: &Value, exit_code: i64, message: &str| {
            is_disowned(&pod(&json!({
                "conditions": [{ "type": "Ready", "status": "False" }],
                "containerStatuses": [{ "name": "etcd", "state": state,
                    "lastState": { "terminated": { "exitCode": exit_code, "message": message } } }],
            })))
        };
        let told = |exit_code, message: &str| {
            of(
                &json!({ "waiting": { "reason": "CrashLoopBackOff" } }),
                exit_code,
                message,
            )
        };
        let line = |level: &str, error: &str| {
            let entry = json!({ "level": level, "msg": "discovery failed", "error": error });
            format!("ut off\"}}\n{entry}\n")
        };
        let other = "8e9e05c52164694d found data inconsistency with peers";
        assert!(told(1, &line("fatal", other)));
        let damaged = "walpb: crc mismatch: in file 'x'";
        assert!(told(1, &line("fatal", damaged)));
        assert!(!told(1, &line("warn", other)));
        assert!(!told(1, &line("fatal", "listen tcp: address in use")));
        assert!(!told(0, &line("fatal", other)));
        assert!(!told(1, other), "it is no line of etcd's log");
        let runs = json!({ "running": {} });
        assert!(!of(&runs, 1, &line("fatal", other)), "that may be long ago");
    }

    #[test]
    fn image_that_is_not_there_lasts_once_kubelet_gave_up_for_a_while() {
        let told = |reason: &str| {
            failure(
                &json!({ "containerStatuses": [{ "name": "apiserver", "image": "x/apiserver:v9",
                "state": { "waiting": { "reason": reason, "message": "not found" } } }] }),
            )
        };
        let sentence =
            "pod etcd-0: the image x/apiserver:v9 of apiserver cannot be pulled: not found";
        let image = |lasts| Some((Reason::ImagePullFailed, sentence.to_owned(), lasts));
        assert_eq!(told("ErrImagePull"), image(false));
        assert_eq!(told("ImagePullBackOff"), image(true));
        assert_eq!(told("ContainerCreating"), None);
    }

    #[test]
    fn container_that_ends_again_and_again_lasts_after_some_restarts() {
        let told = |restarts: i64| {
            failure(
                &json!({ "containerStatuses": [{ "name": "scheduler", "restartCount": restarts,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } } }] }),
            )
        };
        let (reason, message, lasts) = told(2).unwrap();
        assert_eq!((reason, lasts), (Reason::CrashLooping, false));
        assert!(
            message.ends_with("it is started: OOMKilled, exit code 137"),
            "{message}"
        );
        assert!(told(MANY_RESTARTS).unwrap().2);
    }

    #[test]
    fn end_of_the_log_of_etcd_is_told_without_what_changes_each_time() {
        let told = |log: &str| {
            let (_, message, _) = failure(
                &json!({ "containerStatuses": [{ "name": "etcd", "restartCount": 1,
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "message": log } } }] }),
            )
            .unwrap();
            message
        };
        let log = |time: u32| {
            format!(
                "{}\n{}\n",
                json!({ "level": "info", "ts": time, "msg": "closed etcd server" }),
                json!({ "level": "fatal", "ts": time, "msg": "discovery failed", "error": "no" }),
            )
        };
        let sentence = "pod etcd-0: etcd ends whenever it is started: Error, exit code 1";
        assert_eq!(told(&log(1)), format!("{sentence}: discovery failed: no"));
        assert_eq!(told(&log(1)), told(&log(2)));
        assert_eq!(told("panic: 0xc000123\ngoroutine 1 [running]:"), sentence);
    }

    #[test]
    fn pod_without_a_place_is_told_and_one_that_goes_is_not() {
        let status = json!({ "conditions": [{ "type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available" }] });
        assert_eq!(failure(&status).unwrap().0, "Unschedulable");
        let mut going = pod(&status);
        going["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        assert_eq!(of_object(&going), None);
        assert_eq!(of_object(&json!({ "metadata": 7 })), None);
    }

    #[test]
    fn sentences_are_cut_between_characters() {
        let long = "ä".repeat(LONGEST_MESSAGE);
        let cut = cut(&long);
        assert!(cut.len() <= LONGEST_MESSAGE + '…'.len_utf8() && cut.ends_with('…'));
    }
}
