//! The objects of KubeVirt, as it writes them.
//!
//! Invariant: pure; only fields that the definitions of `api::foreign::kubevirt` know.

use kube::ResourceExt as _;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::super::cache::kind;

/// Who applies what is not merged.
pub(super) const MANAGER: &str = "fake-kubevirt";
/// As KubeVirt calls it.
pub(super) const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";

/// Virtual machines, which have a status subresource.
pub(super) fn virtual_machines() -> ApiResource {
    kind("kubevirt.io", "v1", "VirtualMachine", "virtualmachines")
}

/// Their instances, which have none.
pub(super) fn instances() -> ApiResource {
    let plural = "virtualmachineinstances";
    kind("kubevirt.io", "v1", "VirtualMachineInstance", plural)
}

/// What is made of a virtual machine. Without an owner, so that its end is never the garbage
/// collector's work, whose pace is its own.
pub(super) fn instance(vm: &DynamicObject) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {
            "name": vm.name_any(), "namespace": vm.namespace(), "labels": vm.labels(),
        },
        "spec": {}, "status": { "phase": "Pending" },
    })
}

/// Status of an instance that runs.
pub(super) fn running<T: AsRef<str>>(node: &str, addresses: &[T]) -> Value {
    let addresses: Vec<&str> = addresses.iter().map(AsRef::as_ref).collect();
    let interface = json!({
        "name": "default", "ipAddress": addresses.first(), "ipAddresses": addresses,
    });
    json!({
        "phase": "Running", "nodeName": node, "interfaces": [interface],
        "conditions": [{ "type": "Ready", "status": "True" }],
    })
}

/// Status of an instance that there is no room for.
pub(super) fn unschedulable() -> Value {
    json!({
        "phase": "Scheduling", "interfaces": null,
        "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                         "message": "0/1 nodes are available" }],
    })
}

/// The address of a machine: its own, as far as a test needs it.
#[must_use]
pub fn address(name: &str) -> String {
    let sum = name.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    format!("10.64.{}.{}", sum / 200 % 200, sum % 200 + 1)
}
