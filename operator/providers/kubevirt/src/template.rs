//! The node that a virtual machine of a pool would become, for growing a pool that is empty.
//!
//! Invariant: pure; what the pool says of its nodes (`spec.autoscaling.capacity`) is believed before what follows
//! from its machines, and what is left out is rather too little than too much.

use std::collections::{BTreeMap, BTreeSet};

use api::node_pool::{Architecture, KubeVirt, NodeTemplate, Provider};
use api::{NodePoolSpec, Quantity};

use crate::virtual_machine::instance_type;

/// Size of the root file system: that of the worker image has 8 GiB, without what ext4 keeps.
const DISK: i64 = 7 << 30;
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Where a kubelet keeps what pods write.
const KUBELET_DIR: &str = "/var/lib/kubelet";
const LABEL_ARCHITECTURE: &str = "kubernetes.io/arch";
const GPU_MAKERS: [&str; 2] = ["amd.com", "nvidia.com"];

/// The node; none of another provider, and where nobody knows how much memory it has.
#[must_use]
pub fn node(spec: &NodePoolSpec, provider: &Provider) -> Option<NodeTemplate> {
    let wanted = provider.kubevirt.as_ref()?;
    kit_objects::quantity::bytes(&wanted.memory.0)?;
    let said = spec.autoscaling.as_ref();
    let mut resources = gpus(wanted);
    let mut disk = own_disk(wanted).unwrap_or(DISK);
    for (resource, amount) in said.into_iter().flat_map(|said| &said.capacity) {
        match (resource.as_str(), kit_objects::quantity::bytes(&amount.0)) {
            (EPHEMERAL_STORAGE, Some(bytes)) => disk = bytes,
            (_, Some(number)) => drop(resources.insert(resource.clone(), number)),
            (_, None) => {}
        }
    }
    resources.retain(|_, number| *number > 0);
    let selected = wanted.node_selector.get(LABEL_ARCHITECTURE);
    let selected = selected.and_then(|text| Architecture::read(text));
    let devices = wanted.gpus.iter().chain(&wanted.host_devices);
    let taints: BTreeSet<_> = spec.taints.iter().cloned().collect();
    Some(NodeTemplate {
        cpu: wanted.cpu.max(0),
        memory: wanted.memory.clone(),
        ephemeral_storage: Quantity(disk.to_string()),
        architecture: said
            .and_then(|said| said.architecture)
            .or(selected)
            .unwrap_or_default(),
        instance_type: instance_type(wanted),
        resources,
        devices: devices
            .map(|device| (device.device_name.clone(), device.count))
            .collect(),
        labels: spec.labels.clone(),
        taints: taints.into_iter().collect(),
    })
}

/// What device plugins of the two makers call their graphics processors; others have a name for each model.
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

/// The size of the disk that the kubelet's directory is on, without what ext4 keeps; none where it is the
/// root disk.
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
