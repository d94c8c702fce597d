//! What KubeVirt does next about one virtual machine.
//!
//! Invariant: pure; one write at a time, in the order of the real one, and none once everything is
//! as it is to be. An instance is only moved forward: whatever else became of it (it failed, it is
//! to be evacuated) was the test's doing, and stays.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::behaviour::{Behaviour, Instances};
use super::host::HOST;
use super::objects::{self, FINALIZER};
use super::volumes;

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// The virtual machine gets or loses the finalizer: these it has then.
    Finalizers(Vec<String>),
    /// Status of the virtual machine, as a merge patch.
    Status(Value),
    /// An instance is made.
    Make(Value),
    /// It is changed by a merge patch.
    Instance(Value),
    /// It is deleted.
    End,
}

/// The next write; `None`: nothing is to be done until something changes.
pub(super) fn next(
    vm: &DynamicObject,
    instance: Option<&DynamicObject>,
    behaviour: Behaviour,
) -> Option<Step> {
    if !behaviour.awake {
        return None;
    }
    let is_held = vm.finalizers().iter().any(|one| one == FINALIZER);
    let others = vm.finalizers().iter().filter(|one| *one != FINALIZER);
    let mut others: Vec<String> = others.cloned().collect();
    if vm.metadata.deletion_timestamp.is_some() {
        return match instance {
            Some(instance) if behaviour.lets_go => is_here(instance).then_some(Step::End),
            _ => is_held.then_some(Step::Finalizers(others)),
        };
    }
    if !is_held {
        others.push(FINALIZER.to_owned());
        return Some(Step::Finalizers(others));
    }
    match instance {
        Some(instance) if is_here(instance) => of_instance(vm, instance, behaviour),
        Some(_) => None,
        None if is_halted(vm) => status(vm, false, "Stopped", None),
        None if behaviour.instances == Instances::Refused => {
            status(vm, false, "Stopped", Some("exceeded quota"))
        }
        None => Some(Step::Make(objects::instance(vm))),
    }
}

fn of_instance(vm: &DynamicObject, instance: &DynamicObject, behaviour: Behaviour) -> Option<Step> {
    let phase = instance.data["status"]["phase"]
        .as_str()
        .unwrap_or_default();
    match (phase, behaviour.instances) {
        ("Running", _) => match volumes::next(vm, instance, behaviour) {
            Some(patch) => Some(Step::Instance(patch)),
            None => status(vm, true, "Running", None),
        },
        ("Scheduling", Instances::Full) => status(vm, true, "ErrorUnschedulable", None),
        ("" | "Pending" | "Scheduled", Instances::Full) => Some(Step::Instance(
            json!({ "status": objects::unschedulable() }),
        )),
        ("" | "Pending" | "Scheduling" | "Scheduled", _) => {
            let address = objects::address(&instance.name_any());
            let status = objects::running(HOST, &[address]);
            Some(Step::Instance(json!({ "status": status })))
        }
        _ => None,
    }
}

fn is_here(instance: &DynamicObject) -> bool {
    instance.metadata.deletion_timestamp.is_none()
}

fn is_halted(vm: &DynamicObject) -> bool {
    vm.data["spec"]["runStrategy"] == "Halted"
}

/// Status of a virtual machine, and why it has no instance, if it is refused one.
fn status(vm: &DynamicObject, created: bool, printable: &str, why: Option<&str>) -> Option<Step> {
    let is = &vm.data["status"];
    let failed = is["conditions"].as_array().into_iter().flatten();
    let failed = failed.filter(|condition| condition["type"] == "Failure");
    let same = is["created"] == created
        && is["printableStatus"] == printable
        && (failed.count() > 0) == why.is_some();
    let conditions = why.map(|message| {
        json!([{ "type": "Failure", "status": "True", "reason": "FailedCreate",
                 "message": message }])
    });
    let wanted = json!({
        "created": created, "printableStatus": printable, "conditions": conditions,
    });
    (!same).then(|| Step::Status(json!({ "status": wanted })))
}

#[cfg(test)]
mod tests;
