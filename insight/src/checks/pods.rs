//! What is wrong with a pod, by its status: images, crashes, memory, places.
//!
//! Invariant: a pod that is ready is well, whatever happened to it before.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;

/// What is wrong with a pod.
pub(crate) struct Trouble {
    /// One sentence.
    pub(crate) what: String,
    /// Its name.
    pub(crate) pod: String,
    /// An image cannot be pulled.
    pub(crate) is_image: bool,
    /// A container was killed for its memory.
    pub(crate) is_memory: bool,
    /// No node has a place for it.
    pub(crate) is_place: bool,
}

/// The first thing that is wrong with a pod; none where it is ready, or nothing is known to be wrong.
pub(crate) fn trouble(pod: &Pod) -> Option<Trouble> {
    let status = pod.status.as_ref()?;
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is = |type_: &str, value: &str| {
        let mut all = conditions.iter();
        all.find(|c| c.type_ == type_ && c.status == value)
    };
    if is("Ready", "True").is_some() {
        return None;
    }
    let name = pod.name_any();
    let trouble = |what: String| Trouble {
        what,
        pod: name.clone(),
        is_image: false,
        is_memory: false,
        is_place: false,
    };
    if let Some(condition) = is("PodScheduled", "False") {
        let why = condition
            .message
            .as_deref()
            .unwrap_or("no node has a place for it");
        let what = format!("pod {name} has no node: {why}");
        return Some(Trouble {
            is_place: true,
            ..trouble(what)
        });
    }
    let containers = [&status.init_container_statuses, &status.container_statuses];
    let mut containers = containers.into_iter().flatten().flatten();
    containers.find_map(|container| of_container(container, &trouble))
}

fn of_container(
    container: &ContainerStatus,
    trouble: &dyn Fn(String) -> Trouble,
) -> Option<Trouble> {
    let name = &container.name;
    let now = container.state.as_ref();
    let ended = now.and_then(|state| state.terminated.as_ref());
    let before = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let last = ended.or(before);
    let waiting = now.and_then(|state| state.waiting.as_ref());
    let why = waiting
        .and_then(|waiting| waiting.reason.as_deref())
        .unwrap_or_default();
    let said = waiting
        .and_then(|waiting| waiting.message.as_deref())
        .unwrap_or_default();
    let killed = last.is_some_and(|last| last.reason.as_deref() == Some("OOMKilled"));
    if killed && !container.ready {
        let times = container.restart_count;
        let what = format!(
            "container {name} was killed for its memory (restarts: {times}): its limit is too low"
        );
        return Some(Trouble {
            is_memory: true,
            ..trouble(what)
        });
    }
    match why {
        "ImagePullBackOff" | "ErrImagePull" | "InvalidImageName" | "ErrImageNeverPull" => {
            let what = format!(
                "the image {} of container {name} cannot be pulled: {said}",
                container.image
            );
            Some(Trouble {
                is_image: true,
                ..trouble(what)
            })
        }
        "CrashLoopBackOff" => {
            let code = last.map_or(String::new(), |last| {
                format!(", exit code {}", last.exit_code)
            });
            let times = container.restart_count;
            Some(trouble(format!(
                "container {name} ends whenever it is started (restarts: {times}{code})"
            )))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            Some(trouble(format!("container {name} cannot be made: {said}")))
        }
        _ => None,
    }
}
