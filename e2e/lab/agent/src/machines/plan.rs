//! What happens next about one virtual machine.
//!
//! Invariant: pure; one step at a time, and none once everything is as it should be. A machine is ended before its
//! pod goes, that before its instance, and that before the virtual machine, so whoever is told that it is gone is told
//! the truth. An instance is moved forward alone: one that failed is replaced, never mended.

use api::foreign::kubevirt::{
    VirtualMachine, VirtualMachineInstance, VirtualMachineInstanceStatus,
    virtual_machine_instance::{
        VirtualMachineInstanceStatusConditions as Condition,
        VirtualMachineInstanceStatusInterfaces as Interface,
    },
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::objects::{self, OF_INSTANCE, OF_VM};

/// Whether the machine of an instance runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Life<'a> {
    /// It was not started, or was ended.
    #[default]
    Missing,
    /// It could not be started, and why.
    Refused(&'a str),
    /// It runs.
    Runs,
    /// It ended by itself, and what is left of it is still there.
    Ended,
}

/// All that is known of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen<'a> {
    pub(super) vm: Option<&'a VirtualMachine>,
    pub(super) instance: Option<&'a VirtualMachineInstance>,
    /// The pod around that instance.
    pub(super) pod: Option<&'a Pod>,
    /// The machine of that instance.
    pub(super) life: Life<'a>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// The virtual machine has these finalizers.
    VmFinalizers(Vec<String>),
    /// Its status, as a merge patch.
    VmStatus(Value),
    /// An instance is made.
    MakeInstance(Value),
    /// Status of the instance, as a merge patch.
    InstanceStatus(Value),
    /// The instance has these finalizers.
    InstanceFinalizers(Vec<String>),
    DeleteInstance,
    MakePod(Value),
    DeletePod,
    /// The machine is started in the network of its pod.
    Start,
    /// It is ended, and what is left of it removed.
    End,
}

/// The next step; none: nothing is to be done until something changes.
pub(super) fn next(seen: Seen<'_>) -> Option<Step> {
    if let Some(instance) = seen.instance
        && is_going(instance)
    {
        return bury(seen, instance);
    }
    let Some(vm) = seen.vm else {
        // An instance whose virtual machine is gone goes by its owner.
        return None;
    };
    if is_going(vm) {
        return match seen.instance {
            Some(_) => Some(Step::DeleteInstance),
            None => without(vm, OF_VM).map(Step::VmFinalizers),
        };
    }
    if !vm.finalizers().iter().any(|one| one == OF_VM) {
        let all = vm.finalizers().iter().cloned();
        return Some(Step::VmFinalizers(all.chain([OF_VM.to_owned()]).collect()));
    }
    let is_halted = vm.spec.run_strategy.as_deref() == Some("Halted");
    match seen.instance {
        None if is_halted => vm_status(vm, false, "Stopped"),
        None => Some(Step::MakeInstance(objects::instance(vm))),
        Some(_) if is_halted => Some(Step::DeleteInstance),
        Some(instance) => match phase(instance) {
            "Failed" | "Succeeded" => Some(Step::DeleteInstance),
            _ => of_instance(vm, instance, seen),
        },
    }
}

/// An instance that is to go: the machine first.
fn bury(seen: Seen<'_>, instance: &VirtualMachineInstance) -> Option<Step> {
    if matches!(seen.life, Life::Runs | Life::Ended) {
        return Some(Step::End);
    }
    match seen.pod {
        Some(pod) if is_going(pod) => None,
        Some(_) => Some(Step::DeletePod),
        None => without(instance, OF_INSTANCE).map(Step::InstanceFinalizers),
    }
}

fn of_instance(
    vm: &VirtualMachine,
    instance: &VirtualMachineInstance,
    seen: Seen<'_>,
) -> Option<Step> {
    let has_begun = matches!(seen.life, Life::Runs | Life::Ended);
    let pod = match seen.pod {
        None if phase(instance) == "Running" || has_begun => {
            return fail(seen, instance, "its pod is gone");
        }
        None => return Some(Step::MakePod(objects::pod(vm, instance))),
        Some(pod) => pod,
    };
    let status = pod.status.as_ref();
    let pod_phase = status.and_then(|status| status.phase.as_deref());
    if is_going(pod) {
        return fail(seen, instance, "its pod was deleted");
    }
    if matches!(pod_phase, Some("Failed" | "Succeeded")) {
        return fail(seen, instance, "its pod ended");
    }
    let address = status.and_then(|status| status.pod_ip.as_deref());
    let address = address.filter(|address| !address.is_empty() && pod_phase == Some("Running"));
    let Some(address) = address else {
        let is_waiting = waiting(pod);
        let printable = match is_waiting.is_empty() {
            true => "Starting",
            false => "ErrorUnschedulable",
        };
        return instance_status(instance, |status| {
            status.phase = Some("Scheduling".to_owned());
            status.conditions = Some(is_waiting.clone());
        })
        .or_else(|| vm_status(vm, true, printable));
    };
    match seen.life {
        // It ran, and what was left of it is removed by now.
        Life::Missing if phase(instance) == "Running" => fail(seen, instance, "the machine ended"),
        Life::Missing => Some(Step::Start),
        Life::Refused(why) => instance_status(instance, |status| {
            let condition = Condition {
                message: Some(why.to_owned()),
                ..condition("Synchronized", "False", Some("FailedCreate"))
            };
            status.conditions = Some(vec![condition]);
        })
        .or(Some(Step::Start)),
        Life::Ended => fail(seen, instance, "the machine ended"),
        Life::Runs => instance_status(instance, |status| {
            let spec = pod.spec.as_ref();
            status.phase = Some("Running".to_owned());
            status.node_name = spec.and_then(|spec| spec.node_name.clone());
            status.conditions = Some(vec![condition("Ready", "True", None)]);
            status.interfaces = Some(vec![Interface {
                name: Some("default".to_owned()),
                ip_address: Some(address.to_owned()),
                ip_addresses: Some(vec![address.to_owned()]),
            }]);
        })
        .or_else(|| vm_status(vm, true, "Running")),
    }
}

/// Nobody is told that a machine failed while it runs.
fn fail(seen: Seen<'_>, instance: &VirtualMachineInstance, why: &str) -> Option<Step> {
    if matches!(seen.life, Life::Runs | Life::Ended) {
        return Some(Step::End);
    }
    instance_status(instance, |status| {
        status.phase = Some("Failed".to_owned());
        status.reason = Some(why.to_owned());
        status.conditions = Some(Vec::new());
    })
}

/// What the scheduler says of a pod that it finds no room for, as KubeVirt passes it on.
fn waiting(pod: &Pod) -> Vec<Condition> {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref());
    let mut found = conditions.unwrap_or_default().iter();
    let found = found.find(|c| c.type_ == "PodScheduled" && c.status == "False");
    let passed_on = found.map(|found| Condition {
        message: found.message.clone(),
        ..condition("PodScheduled", "False", found.reason.as_deref())
    });
    passed_on.into_iter().collect()
}

fn condition(type_: &str, status: &str, reason: Option<&str>) -> Condition {
    Condition {
        r#type: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.map(str::to_owned),
        ..Condition::default()
    }
}

fn phase(instance: &VirtualMachineInstance) -> &str {
    let status = instance.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase.unwrap_or_default()
}

/// Its status after `change`, where that is another one.
fn instance_status(
    instance: &VirtualMachineInstance,
    change: impl FnOnce(&mut VirtualMachineInstanceStatus),
) -> Option<Step> {
    let is = instance.status.clone().unwrap_or_default();
    let mut wanted = is.clone();
    change(&mut wanted);
    // No conditions, and none said, are the same.
    let said = |status: &VirtualMachineInstanceStatus| {
        let mut status = status.clone();
        status.conditions.get_or_insert_default();
        status
    };
    (said(&is) != said(&wanted)).then(|| Step::InstanceStatus(json!({ "status": wanted })))
}

fn vm_status(vm: &VirtualMachine, created: bool, printable: &str) -> Option<Step> {
    let is = vm.status.clone().unwrap_or_default();
    let same = is.created == Some(created) && is.printable_status.as_deref() == Some(printable);
    let wanted = json!({ "created": created, "printableStatus": printable });
    (!same).then(|| Step::VmStatus(json!({ "status": wanted })))
}

fn is_going<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// Its finalizers without this one; none where it has not this one.
fn without<K: Resource>(object: &K, finalizer: &str) -> Option<Vec<String>> {
    let all = object.finalizers();
    let others = all.iter().filter(|one| *one != finalizer);
    let has = all.iter().any(|one| one == finalizer);
    has.then(|| others.cloned().collect())
}

#[cfg(test)]
mod tests;
