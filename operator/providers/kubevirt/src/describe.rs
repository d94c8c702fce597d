//! What a VirtualMachine and its instance say about a machine.
//!
//! Invariant: total, and a function of the two objects alone; a machine is gone (none) only when
//! neither is there. What KubeVirt repairs by itself within moments is not called failing, so that
//! a machine's conditions do not flicker.

use std::collections::BTreeMap;

use api::foreign::kubevirt::virtual_machine::VirtualMachineStatusConditions;
use api::foreign::kubevirt::virtual_machine_instance::VirtualMachineInstanceStatusConditions;
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::names;
use api::{ConditionReason, Machine, Reason};
use kube::ResourceExt;
use kube::api::ObjectMeta;
use providers::{Description, Evacuation, Listed, State, Topology};

use crate::identity::{is_of, machine_uid};

/// Longest text of somebody else's that goes into a message.
const MOST: usize = 400;

/// Reasons of the instance's condition `Synchronized` that do not go away by themselves, and what
/// mends them. (KubeVirt `pkg/controller/controller.go` has all of them; the others are conflicts
/// and time-outs that it tries again.)
const HOPELESS: &[(&str, &str)] = &[
    (
        "ErrImagePull",
        "check spec.provider.kubevirt.image of the node pool, and that the management cluster can pull it",
    ),
    (
        "ImagePullBackOff",
        "check spec.provider.kubevirt.image of the node pool, and that the management cluster can pull it",
    ),
    (
        "FailedCreate",
        "the management cluster's administrator can see the Events in the tenant namespace",
    ),
    (
        "FailedCreateValidation",
        "the management cluster's administrator can see the Events in the tenant namespace",
    ),
];

/// Where the labels of an object say that it is.
pub(super) fn topology(metadata: &ObjectMeta) -> Topology {
    let labels = metadata.labels.as_ref();
    let label = |name: &str| labels.and_then(|labels| labels.get(name)).cloned();
    Topology {
        zone: label(names::LABEL_ZONE),
        region: label(names::LABEL_REGION),
    }
}

/// The node of the management cluster that an instance runs on.
pub(super) fn node(instance: &VirtualMachineInstance) -> Option<&str> {
    let node = instance.status.as_ref()?.node_name.as_deref();
    node.filter(|node| !node.is_empty())
}

/// What is there of a machine; none only when nothing is.
#[must_use]
pub fn describe(
    vm: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
    machine: &Machine,
) -> Option<Description> {
    let mut description = both(vm, instance)?;
    let strange = |metadata: &ObjectMeta| !is_of(metadata, machine);
    description.foreign = vm.is_some_and(|vm| strange(&vm.metadata))
        || instance.is_some_and(|instance| strange(&instance.metadata));
    Some(description)
}

/// Every machine among the objects, sorted by name.
#[must_use]
pub fn list(vms: &[VirtualMachine], instances: &[VirtualMachineInstance]) -> Vec<Listed> {
    type Pair<'a> = (
        Option<&'a VirtualMachine>,
        Option<&'a VirtualMachineInstance>,
    );
    let mut found: BTreeMap<String, Pair<'_>> = BTreeMap::new();
    for vm in vms {
        found.entry(vm.name_any()).or_default().0 = Some(vm);
    }
    for instance in instances {
        found.entry(instance.name_any()).or_default().1 = Some(instance);
    }
    let listed = found.into_iter().filter_map(|(name, (vm, instance))| {
        let metadata = vm
            .map(|vm| &vm.metadata)
            .or(instance.map(|i| &i.metadata))?;
        Some(Listed {
            name,
            machine_uid: machine_uid(metadata).to_owned(),
            description: both(vm, instance)?,
        })
    });
    listed.collect()
}

fn both(
    vm: Option<&VirtualMachine>,
    instance: Option<&VirtualMachineInstance>,
) -> Option<Description> {
    let going = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let state = match (vm, instance) {
        (None, None) => return None,
        (Some(vm), None) => without_instance(vm),
        (Some(_), Some(instance)) => of_instance(instance),
        (None, Some(_)) => failing(
            Reason::VirtualMachineMissing,
            "its VirtualMachine was deleted and the instance of that is left over",
        ),
    };
    let status = instance.and_then(|instance| instance.status.as_ref());
    Some(Description {
        state,
        instance: instance.and_then(|instance| instance.metadata.uid.clone()),
        provider_id: None,
        addresses: Vec::new(),
        located: None,
        topology: None,
        // Its VirtualMachine has it as a label, and who reads that reads it there.
        instance_type: None,
        labelled: vm.map(|vm| topology(&vm.metadata)).unwrap_or_default(),
        // Whoever drains the node asks again until it is empty; KubeVirt knows of no end.
        evacuation: status
            .and_then(|status| status.evacuation_node_name.as_deref())
            .filter(|node| !node.is_empty())
            .map(|_| Evacuation { deadline: None }),
        deleting: match (vm, instance) {
            (Some(vm), _) => going(&vm.metadata),
            (None, Some(instance)) => going(&instance.metadata),
            (None, None) => false,
        },
        foreign: false,
    })
}

/// The VirtualMachine alone: it was just made, was shut down, or KubeVirt cannot make an instance.
fn without_instance(vm: &VirtualMachine) -> State {
    let status = vm.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let failure = |c: &&VirtualMachineStatusConditions| c.r#type == "Failure" && c.status == "True";
    if let Some(failure) = conditions.unwrap_or_default().iter().find(failure) {
        let reason = failure
            .reason
            .as_deref()
            .filter(|reason| !reason.is_empty());
        let reason = match reason {
            Some(reason) => ConditionReason::passed_on(reason),
            None => Reason::VirtualMachineFailed.into(),
        };
        let message = failure.message.as_deref().unwrap_or_default();
        return failing(reason, &short(message));
    }
    match status.and_then(|status| status.printable_status.as_deref()) {
        Some("Stopped") => State::Stopped,
        Some(status @ "CrashLoopBackOff") => failing(
            ConditionReason::passed_on(status),
            "it failed several times in a row; KubeVirt waits before it starts it again",
        ),
        _ => State::Creating,
    }
}

fn of_instance(instance: &VirtualMachineInstance) -> State {
    let status = instance.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let condition =
        |type_: &str, status_: &str| -> Option<&VirtualMachineInstanceStatusConditions> {
            let conditions = status.and_then(|status| status.conditions.as_deref());
            let mut conditions = conditions.unwrap_or_default().iter();
            conditions.find(|c| c.r#type == type_ && c.status == status_)
        };
    match phase.unwrap_or_default() {
        "Running" if condition("Paused", "True").is_some() => failing(
            Reason::VirtualMachinePaused,
            "somebody paused the virtual machine: `virtctl unpause vm` lets it go on",
        ),
        "Running" => State::Running,
        "Succeeded" => State::Stopped,
        "Failed" => failing(
            Reason::VirtualMachineFailed,
            &short(
                status
                    .and_then(|status| status.reason.as_deref())
                    .unwrap_or("the virtual machine ended with an error"),
            ),
        ),
        "Unknown" => failing(
            Reason::VirtualMachineUnknown,
            "the node of the management cluster that it runs on does not report",
        ),
        _ => {
            if let Some(unschedulable) = condition("PodScheduled", "False")
                && unschedulable.reason.as_deref() == Some("Unschedulable")
            {
                let message = unschedulable.message.as_deref().unwrap_or_default();
                return failing(
                    Reason::Unschedulable,
                    &format!(
                        "{}: add nodes to the management cluster, or ask for less CPU and memory",
                        short(message)
                    ),
                );
            }
            let trouble = condition("Synchronized", "False").and_then(|condition| {
                let reason = condition.reason.as_deref()?;
                let (reason, mending) = HOPELESS.iter().find(|(known, _)| *known == reason)?;
                let message = short(condition.message.as_deref().unwrap_or_default());
                let reason = ConditionReason::passed_on(*reason);
                Some(failing(reason, &format!("{message}: {mending}")))
            });
            trouble.unwrap_or(State::Creating)
        }
    }
}

fn failing(reason: impl Into<ConditionReason>, message: &str) -> State {
    State::Failing {
        reason: reason.into(),
        message: message.to_owned(),
    }
}

/// At most [`MOST`] characters of a text that is not ours.
fn short(text: &str) -> String {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
