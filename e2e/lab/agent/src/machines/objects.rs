//! KubeVirt's objects as it writes them, and the pod around a machine. Pure.
//!
//! Invariant: only fields that the definitions of `api::foreign::kubevirt` know.

use std::net::IpAddr;

use api::foreign::kubevirt::{
    VirtualMachine, VirtualMachineInstance,
    virtual_machine::{VirtualMachineTemplateSpec, VirtualMachineTemplateSpecVolumes},
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit_objects::quantity;
use kube::{Resource, ResourceExt as _};
use lab::{
    config::PAUSE_IMAGE,
    machines::plan::{self as machine, Guest, Size},
};
use serde_json::{Value, json};

/// Selects the pods around machines (KubeVirt `staging/src/kubevirt.io/api/core/v1/types.go`, `AppLabel`).
pub(super) const LAUNCHER: &str = "kubevirt.io=virt-launcher";
/// Label of such a pod with the UID of its instance (`CreatedByLabel`).
pub(super) const CREATED_BY: &str = "kubevirt.io/created-by";
/// Label of nodes that take machines (`NodeSchedulable`).
pub(super) const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// Finalizer of a virtual machine (`VirtualMachineControllerFinalizer`).
pub(super) const OF_VM: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// Finalizer of an instance (`VirtualMachineInstanceFinalizer`).
pub(super) const OF_INSTANCE: &str = "foregroundDeleteVirtualMachine";
/// Processors of machines per core that is asked for: KubeVirt's setting `cpuAllocationRatio`.
const CPU_MILLIS: u32 = 100;

/// What is made of a virtual machine.
pub(super) fn instance(vm: &VirtualMachine) -> Value {
    let metadata = vm.spec.template.metadata.as_ref();
    let labels = metadata.and_then(|metadata| metadata.get("labels"));
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        "metadata": {
            "name": vm.name_any(), "namespace": vm.namespace(), "labels": labels,
            "finalizers": [OF_INSTANCE], "ownerReferences": [owner(vm)],
        },
        "spec": {}, "status": { "phase": "Pending" },
    })
}

fn owner<K: Resource<DynamicType = ()>>(object: &K) -> Value {
    json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "name": object.name_any(),
        "uid": object.uid(), "controller": true, "blockOwnerDeletion": true,
    })
}

/// The pod around an instance. Nothing runs in it: its network is the machine's.
pub(super) fn pod(vm: &VirtualMachine, instance: &VirtualMachineInstance) -> Value {
    let uid = instance.uid().unwrap_or_default();
    let name = machine::id(&instance.name_any(), &uid);
    let mut labels = json!(instance.labels());
    labels["kubevirt.io"] = json!("virt-launcher");
    labels[CREATED_BY] = json!(uid);
    let none = VirtualMachineTemplateSpec::default();
    let spec = vm.spec.template.spec.as_ref().unwrap_or(&none);
    let mut selector = json!(spec.node_selector.clone().unwrap_or_default());
    selector[SCHEDULABLE] = json!("true");
    let size = size(spec);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("virt-launcher-{name}"), "namespace": instance.namespace(),
            "labels": labels, "ownerReferences": [owner(instance)],
        },
        "spec": {
            "affinity": spec.affinity, "nodeSelector": selector, "tolerations": spec.tolerations,
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 5,
            "automountServiceAccountToken": false, "enableServiceLinks": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 107, "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "compute", "image": PAUSE_IMAGE, "imagePullPolicy": "IfNotPresent",
                "resources": { "requests": {
                    "cpu": format!("{}m", size.cores * CPU_MILLIS), "memory": size.memory.to_string(),
                } },
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
                },
            }],
        },
    })
}

fn size(spec: &VirtualMachineTemplateSpec) -> Size {
    let cpu = spec.domain.cpu.as_ref();
    let cores = cpu.and_then(|cpu| cpu.cores).unwrap_or(1);
    let sockets = cpu.and_then(|cpu| cpu.sockets).unwrap_or(1);
    let memory = spec.domain.memory.as_ref();
    let bytes = match memory.and_then(|memory| memory.guest.as_ref()) {
        Some(IntOrString::Int(bytes)) => Some(i64::from(*bytes)),
        Some(IntOrString::String(text)) => quantity::bytes(text),
        None => None,
    };
    Size {
        cores: u32::try_from(cores.saturating_mul(sockets)).unwrap_or(1),
        memory: bytes
            .and_then(|bytes| u64::try_from(bytes).ok())
            .unwrap_or_default(),
    }
}

/// Name of the Secret with what the machine is told.
pub(super) fn user_data(vm: &VirtualMachine) -> Option<&str> {
    let told = volumes(vm).find_map(|volume| volume.cloud_init_no_cloud.as_ref())?;
    told.secret_ref.as_ref()?.name.as_deref()
}

fn volumes(vm: &VirtualMachine) -> impl Iterator<Item = &VirtualMachineTemplateSpecVolumes> {
    let spec = vm.spec.template.spec.as_ref();
    spec.into_iter()
        .flat_map(|spec| spec.volumes.iter().flatten())
}

/// The machine of an instance whose pod runs; an error says what cannot be played.
pub(super) fn guest(
    vm: &VirtualMachine,
    instance: &VirtualMachineInstance,
    user_data: Option<String>,
) -> Result<Guest, String> {
    let mut disks = volumes(vm).filter_map(|volume| volume.container_disk.as_ref());
    let image = disks.next().map_or("", |disk| disk.image.as_str());
    let version = machine::version_of(image).ok_or_else(|| {
        format!(
            "{image:?} is no image of workers, and no other is played: ask for one, or bring the lab up with KubeVirt"
        )
    })?;
    let none = VirtualMachineTemplateSpec::default();
    let spec = vm.spec.template.spec.as_ref().unwrap_or(&none);
    let name = vm.name_any();
    let dns = spec.dns_config.as_ref();
    let servers = dns.and_then(|dns| dns.nameservers.as_deref());
    let servers = servers.unwrap_or_default().iter();
    Ok(Guest {
        id: machine::id(&name, &instance.uid().unwrap_or_default()),
        name: spec.hostname.clone().unwrap_or(name),
        namespace: vm.namespace().unwrap_or_default(),
        version: version.to_owned(),
        user_data,
        name_servers: servers
            .filter_map(|server| server.parse::<IpAddr>().ok())
            .collect(),
        size: size(spec),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A virtual machine as the operator makes it, as far as it matters here.
    pub(in super::super) fn vm() -> VirtualMachine {
        let vm = json!({
            "metadata": {
                "name": "workers-a", "namespace": "covey-demo-1", "uid": "vm-uid",
                "finalizers": [OF_VM], "generation": 1,
            },
            "spec": { "runStrategy": "RerunOnFailure", "template": {
                "metadata": { "labels": { "app.kubernetes.io/component": "worker" } },
                "spec": {
                    "domain": {
                        "cpu": { "cores": 2, "sockets": 1, "maxSockets": 1 },
                        "devices": {},
                        "memory": { "guest": "1536Mi", "maxGuest": "1536Mi" },
                    },
                    "hostname": "workers-a",
                    "nodeSelector": { "example.com/pool": "a" },
                    "tolerations": [{ "key": "example.com/x", "operator": "Exists" }],
                    "volumes": [
                        { "name": "root", "containerDisk": { "image": "ghcr.io/covey-dev/worker:v1.35.4" } },
                        { "name": "user-data", "cloudInitNoCloud": { "secretRef": { "name": "told" } } },
                    ],
                },
            } },
        });
        serde_json::from_value(vm).unwrap()
    }

    /// Its instance, as it was just made.
    pub(in super::super) fn fresh(vm: &VirtualMachine) -> VirtualMachineInstance {
        let mut made = instance(vm);
        made["metadata"]["uid"] = json!("0a1b2c3d-1111");
        serde_json::from_value(made).unwrap()
    }

    #[test]
    fn the_pod_is_what_covey_looks_for_and_what_policies_select() {
        let vm = vm();
        let pod = pod(&vm, &fresh(&vm));
        let labels = &pod["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/component"], "worker");
        assert_eq!(labels["kubevirt.io"], "virt-launcher");
        assert_eq!(labels["kubevirt.io/created-by"], "0a1b2c3d-1111");
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(owner["kind"], "VirtualMachineInstance");
        assert_eq!(
            (&owner["uid"], &owner["controller"]),
            (&json!("0a1b2c3d-1111"), &json!(true))
        );
        let spec = &pod["spec"];
        assert_eq!(spec["nodeSelector"]["example.com/pool"], "a");
        assert_eq!(spec["nodeSelector"]["kubevirt.io/schedulable"], "true");
        assert_eq!(spec["tolerations"][0]["key"], "example.com/x");
        let asked = &spec["containers"][0]["resources"]["requests"];
        assert_eq!(
            (&asked["cpu"], &asked["memory"]),
            (&json!("200m"), &json!("1610612736"))
        );
        // A pod can be read from it.
        serde_json::from_value::<k8s_openapi::api::core::v1::Pod>(pod).unwrap();
    }

    #[test]
    fn a_machine_has_the_version_of_its_image_and_the_size_that_was_asked_for() {
        let vm = vm();
        let guest = guest(&vm, &fresh(&vm), Some("x".to_owned())).unwrap();
        assert_eq!(
            (&*guest.version, &*guest.id),
            ("1.35.4", "workers-a-0a1b2c3d")
        );
        assert_eq!((guest.size.cores, guest.size.memory), (2, 1536 << 20));
        assert_eq!(user_data(&vm), Some("told"));
    }

    #[test]
    fn another_image_is_refused_in_words() {
        let mut vm = vm();
        let spec = vm.spec.template.spec.as_mut().unwrap();
        let volume = &mut spec.volumes.as_mut().unwrap()[0];
        volume.container_disk.as_mut().unwrap().image = "example.com/x:1".to_owned();
        let refused = guest(&vm, &fresh(&vm), None).unwrap_err();
        assert!(
            refused.starts_with("\"example.com/x:1\" is no image of workers"),
            "{refused}"
        );
    }
}
