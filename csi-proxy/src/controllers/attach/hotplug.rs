//! Hot-plugging: how a change reaches KubeVirt, by the template, in one request, or by subresources, in
//! one request per disk.
//!
//! Invariant: a change is carried out on the state that it was decided on, or refused; only its own
//! volumes are touched.

use api::foreign::kubevirt::VirtualMachine;
use http::Request;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::plan::{Change, DesiredDisk};
use crate::cache::objects::Machine;
use crate::cache::{Cache, Object};
use crate::error::Error;
use crate::names::FIELD_MANAGER;
use crate::settings::Hotplug;

/// Disks are hot-plugged as SCSI: virtio has a port per disk, and a machine few of them.
const BUS: &str = "scsi";
const KIND: &str = "VirtualMachine";

/// What came of one request.
#[derive(Debug)]
pub struct Answer {
    /// The volumes that it was about.
    pub disks: Vec<String>,
    /// A conflict when the virtual machine changed since it was read.
    pub result: Result<(), Error>,
}

/// Carries out a change in the way that this KubeVirt knows; an answer for each request.
pub async fn carry_out(
    hotplug: Hotplug,
    client: &Client,
    namespace: &str,
    cache: &Cache,
    machine: &Machine,
    change: &Change,
) -> Vec<Answer> {
    match hotplug {
        Hotplug::Declarative => {
            let result = patch(client, namespace, cache, machine, change).await;
            let disks = change.disks().map(str::to_owned).collect();
            vec![Answer { disks, result }]
        }
        Hotplug::Subresources => {
            let mut answers = Vec::new();
            // One disk that is refused is no reason to keep the others waiting.
            for (verb, body) in requests(change) {
                let disk = body["name"].as_str().unwrap_or_default().to_owned();
                answers.push(Answer {
                    disks: vec![disk],
                    result: put(client, namespace, machine, verb, &body).await,
                });
            }
            answers
        }
    }
}

async fn patch(
    client: &Client,
    namespace: &str,
    cache: &Cache,
    machine: &Machine,
    change: &Change,
) -> Result<(), Error> {
    let failed = |source| Error::new("write", KIND, &machine.name, source);
    let vms: Api<VirtualMachine> = Api::namespaced(client.clone(), namespace);
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = serde_json::from_value(template_patch(machine, change));
    let patch = patch.map_err(|source| failed(kube::Error::SerdeError(source)))?;
    let patch = Patch::<()>::Json(patch);
    let vm = vms.patch(&machine.name, &params, &patch).await;
    let vm = vm.map_err(failed)?;
    cache.observe_answer(&Object::Vm(Box::new(vm)));
    Ok(())
}

async fn put(
    client: &Client,
    namespace: &str,
    machine: &Machine,
    verb: &'static str,
    body: &Value,
) -> Result<(), Error> {
    let path = format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachines/{}/{verb}",
        machine.name
    );
    let failed = |source| Error::new(verb, KIND, &machine.name, source);
    let request = Request::put(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes());
    let request = request.map_err(|source| failed(kube::Error::HttpError(source)))?;
    client.request_text(request).await.map(drop).map_err(failed)
}

/// Operations of RFC 6902. They go by position, which is safe because the version that the positions
/// are of is written too: the API server refuses it when it is not the latest.
fn template_patch(machine: &Machine, change: &Change) -> Value {
    const SLOTS: &str = "/spec/template/spec/volumes";
    const DISKS: &str = "/spec/template/spec/domain/devices/disks";
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": machine.version.uid }),
        json!({
            "op": "replace", "path": "/metadata/resourceVersion", "value": machine.version.text,
        }),
    ];
    let goes = |name: &str| change.unplug.iter().any(|gone| gone == name);
    let slots = machine
        .slots
        .iter()
        .flatten()
        .map(|slot| slot.name.as_str())
        .enumerate();
    let disks = machine
        .disks
        .iter()
        .flatten()
        .map(|disk| disk.name.as_str())
        .enumerate();
    let mut remove = |list: &str, all: Vec<(usize, &str)>| {
        // From the end, so that positions before it stay what they are.
        for (position, _) in all.into_iter().rev().filter(|(_, name)| goes(name)) {
            operations.push(json!({ "op": "remove", "path": format!("{list}/{position}") }));
        }
    };
    remove(SLOTS, slots.collect());
    remove(DISKS, disks.collect());
    let missing = [
        (SLOTS, machine.slots.is_none()),
        (DISKS, machine.disks.is_none()),
    ];
    for (list, _) in missing
        .into_iter()
        .filter(|(_, missing)| *missing && !change.plug.is_empty())
    {
        operations.push(json!({ "op": "add", "path": list, "value": [] }));
    }
    for desired in &change.plug {
        let slot = json!({ "name": desired.volume, "persistentVolumeClaim": source(desired) });
        operations.push(json!({ "op": "add", "path": format!("{SLOTS}/-"), "value": slot }));
        let mut disk = disk(desired);
        disk["name"] = desired.volume.as_str().into();
        operations.push(json!({ "op": "add", "path": format!("{DISKS}/-"), "value": disk }));
    }
    operations.into()
}

/// Subresource and body of each request.
fn requests(change: &Change) -> Vec<(&'static str, Value)> {
    let unplug = change
        .unplug
        .iter()
        .map(|name| ("removevolume", json!({ "name": name })));
    let plug = change.plug.iter().map(|desired| {
        let body = json!({
            "name": desired.volume,
            "disk": disk(desired),
            "volumeSource": { "persistentVolumeClaim": source(desired) },
        });
        ("addvolume", body)
    });
    unplug.chain(plug).collect()
}

fn source(desired: &DesiredDisk) -> Value {
    json!({ "claimName": desired.volume, "hotpluggable": true })
}

fn disk(desired: &DesiredDisk) -> Value {
    let mut disk = json!({ "disk": { "bus": BUS }, "serial": desired.serial });
    if desired.read_only {
        disk["disk"]["readonly"] = true.into();
    }
    // Otherwise the first machine locks it, and a second one on the same node is refused.
    if desired.shared {
        disk["shareable"] = true.into();
    }
    disk
}

#[cfg(test)]
mod tests;
