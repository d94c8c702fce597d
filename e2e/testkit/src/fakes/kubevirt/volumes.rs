//! Volumes that are plugged into an instance that runs, and unplugged
//! (KubeVirt 1.6 `virt-controller/watch/vmi/storage.go`, `virt-handler/vm.go`).
//!
//! Invariant: pure; a volume enters and leaves the instance's specification first, and goes through
//! every phase of the real one, in its order, one with each write.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::behaviour::{Behaviour, Volumes};

/// Where the guest sees it; the real one counts letters.
const TARGET: &str = "sda";

/// Phases in which a pod on the node of the instance holds the claim.
const HELD: [&str; 3] = ["AttachedToNode", "MountedToPod", "Ready"];

/// The next change of an instance, as a merge patch; `None`: its volumes are as they are to be.
pub(super) fn next(
    vm: &DynamicObject,
    instance: &DynamicObject,
    behaviour: Behaviour,
) -> Option<Value> {
    let has = list(&instance.data["spec"]["volumes"]);
    let mut wanted = plugged(&vm.data["spec"]["template"]["spec"]["volumes"]);
    if !behaviour.lets_go {
        let kept = has.iter().filter(|volume| find(&wanted, volume).is_none());
        let kept: Vec<Value> = kept.cloned().collect();
        wanted.extend(kept);
    }
    if wanted != has {
        return Some(json!({ "spec": { "volumes": wanted } }));
    }
    let old = list(&instance.data["status"]["volumeStatus"]);
    let phase_of = |volume: &Value| find(&old, volume).map(phase).unwrap_or_default();
    // One pod holds the claims of all; for one more claim there is another pod, which those that
    // are on their way wait for.
    let held = |volume: &Value| HELD.contains(&phase_of(volume));
    let go_on = behaviour.volumes == Volumes::Ready && wanted.iter().all(held);
    let staying = wanted
        .iter()
        .map(|volume| status(volume, plugging(phase_of(volume), go_on)));
    let going = old.iter().filter(|status| find(&wanted, status).is_none());
    let going = going.filter_map(|old| Some(status(old, unplugging(phase(old))?)));
    let mut now: Vec<Value> = staying.chain(going).collect();
    now.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    (now != old).then(|| json!({ "status": { "volumeStatus": now } }))
}

/// Volumes of a template that can be plugged into what runs.
fn plugged(volumes: &Value) -> Vec<Value> {
    let volumes = volumes.as_array().into_iter().flatten();
    let plugged = volumes.filter(|volume| volume["persistentVolumeClaim"]["hotpluggable"] == true);
    let as_is = |volume: &Value| {
        let claim = &volume["persistentVolumeClaim"]["claimName"];
        let source = json!({ "claimName": claim, "hotpluggable": true });
        json!({ "name": volume["name"], "persistentVolumeClaim": source })
    };
    plugged.map(as_is).collect()
}

fn plugging(phase: &str, go_on: bool) -> &str {
    match phase {
        // A pod on the node of the instance holds the claim.
        "Pending" | "Bound" => "AttachedToNode",
        "AttachedToNode" if go_on => "MountedToPod",
        "AttachedToNode" => "AttachedToNode",
        "MountedToPod" | "Ready" => "Ready",
        // One that was on its way out is as good as new.
        _ => "Bound",
    }
}

/// `None`: it is out.
fn unplugging(phase: &str) -> Option<&str> {
    match phase {
        "AttachedToNode" | "MountedToPod" | "Ready" => Some("UnMountedFromPod"),
        "UnMountedFromPod" => Some("Detaching"),
        _ => None,
    }
}

fn status(volume: &Value, phase: &str) -> Value {
    let target = if phase == "Ready" { TARGET } else { "" };
    json!({ "name": volume["name"], "target": target, "phase": phase, "message": "as played" })
}

fn phase(status: &Value) -> &str {
    status["phase"].as_str().unwrap_or_default()
}

fn find<'a>(list: &'a [Value], like: &Value) -> Option<&'a Value> {
    list.iter().find(|one| one["name"] == like["name"])
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}
