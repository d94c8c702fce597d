//! Template of a node of a pool that no operator has told of: one of before `status.locations` looked at it last,
//! as after an upgrade, or whoever keeps the definitions has not upgraded these. It goes once nobody upgrades
//! from there.
//!
//! Invariant: the same as `provider_kubevirt::template` says, so that the group keeps its name once the operator has
//! told; `spec.locations` is as old as what is told, so nothing is known of it here.

use std::collections::{BTreeMap, BTreeSet};

use api::node_pool::{Architecture, KubeVirt, NodeTemplate, Provider};
use api::{NodePoolSpec, Quantity};

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Where a kubelet keeps what pods write.
const KUBELET_DIR: &str = "/var/lib/kubelet";
const LABEL_ARCHITECTURE: &str = "kubernetes.io/arch";
/// Whose graphics processors have one name, whatever the model.
const GPU_MAKERS: [&str; 2] = ["amd.com", "nvidia.com"];

/// The node, whose root file system has so many bytes; none where nobody knows how much memory it has.
pub(super) fn node(spec: &NodePoolSpec, provider: &Provider, root: i64) -> Option<NodeTemplate> {
    let machine = provider.kubevirt.as_ref()?;
    let memory = kit_objects::quantity::bytes(&machine.memory.0)?;
    let mut resources = gpus(machine);
    let mut disk = own_disk(machine).unwrap_or(root);
    let said = spec.autoscaling.as_ref();
    for (resource, amount) in said.into_iter().flat_map(|said| &said.capacity) {
        match (resource.as_str(), kit_objects::quantity::bytes(&amount.0)) {
            (EPHEMERAL_STORAGE, Some(bytes)) => disk = bytes,
            (_, Some(number)) => drop(resources.insert(resource.clone(), number)),
            (_, None) => {}
        }
    }
    resources.retain(|_, number| *number > 0);
    let selected = machine.node_selector.get(LABEL_ARCHITECTURE);
    let selected = selected.and_then(|text| Architecture::read(text));
    let devices = machine.gpus.iter().chain(&machine.host_devices);
    let devices = devices.map(|device| (device.device_name.clone(), device.count));
    let taints: BTreeSet<_> = spec.taints.iter().cloned().collect();
    Some(NodeTemplate {
        cpu: machine.cpu.max(0),
        memory: machine.memory.clone(),
        ephemeral_storage: Quantity(disk.to_string()),
        architecture: said
            .and_then(|said| said.architecture)
            .or(selected)
            .unwrap_or_default(),
        instance_type: Some(format!("kubevirt-{}cpu-{}Mi", machine.cpu, memory >> 20)),
        resources,
        devices: devices.collect(),
        labels: spec.labels.clone(),
        taints: taints.into_iter().collect(),
    })
}

fn gpus(machine: &KubeVirt) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for gpu in &machine.gpus {
        let maker = gpu.device_name.split('/').next().unwrap_or_default();
        if GPU_MAKERS.contains(&maker) {
            *found.entry(format!("{maker}/gpu")).or_default() += i64::from(gpu.count);
        }
    }
    found
}

/// The size of the disk that the kubelet's directory is on, without what ext4 keeps; none where it is the root disk.
fn own_disk(machine: &KubeVirt) -> Option<i64> {
    let holds = |path: &str| {
        let rest = KUBELET_DIR.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let disks = machine.disks.iter();
    let mounted = disks.filter_map(|disk| Some((disk.mount_path.as_deref()?, disk)));
    let nearest = mounted.filter(|(path, _)| holds(path));
    let (_, disk) = nearest.max_by_key(|(path, _)| path.len())?;
    let size = kit_objects::quantity::bytes(&disk.size.0)?;
    Some(size / 8 * 7)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_what_the_operator_tells_of_the_same_pool() {
        for (kubevirt, autoscaling) in [
            (json!({}), json!({})),
            (json!({ "cpu": 4, "memory": "8Gi" }), json!({})),
            (json!({ "memory": "1000M" }), json!({})),
            (json!({ "memory": "much" }), json!({})),
            (
                json!({ "nodeSelector": { "kubernetes.io/arch": "arm64" } }),
                json!({}),
            ),
            (
                json!({ "gpus": [{ "name": "a", "deviceName": "nvidia.com/A", "count": 2 }],
                    "disks": [{ "name": "data", "size": "20Gi", "mountPath": "/var/lib" }] }),
                json!({ "architecture": "arm64",
                    "capacity": { "example.com/fpga": 2, "ephemeral-storage": "9Gi" } }),
            ),
            (
                json!({ "disks": [{ "name": "data", "size": "20Gi", "mountPath": "/var/lib" }] }),
                json!({}),
            ),
        ] {
            let mut said = json!({ "min": 0, "max": 5 });
            for (key, value) in autoscaling.as_object().unwrap() {
                said[key] = value.clone();
            }
            let spec: NodePoolSpec = serde_json::from_value(json!({
                "clusterName": "demo", "replicas": 1, "autoscaling": said,
                "labels": { "disk": "fast" },
                "taints": [{ "key": "b", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" }],
                "provider": { "kubevirt": kubevirt },
            }))
            .unwrap();
            let provider = spec.provider.as_ref().unwrap();
            let told = provider_kubevirt::template::node(&spec, provider);
            assert_eq!(node(&spec, provider, 7 << 30), told, "{kubevirt}");
        }
    }
}
