//! Shape of a NodePool: what a node of it looks like to a scheduler. Pure.
//!
//! Invariant: two pools have one hash exactly when a node of the one is as good as a node of the
//! other; how an amount was written, and the order of taints, make no difference.

use std::collections::{BTreeMap, BTreeSet};

use api::NodePoolSpec;
use api::node_pool::{Architecture, KubeVirt, Kubelet, ProviderKind, Taint};
use sha2::{Digest as _, Sha256};

/// What a node of a pool looks like to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Who makes the machines; none when the pool does not say.
    pub provider: Option<ProviderKind>,
    /// Processors of a machine, whole cores; 0 when nothing is known.
    pub cpu: i32,
    /// Memory of a machine in bytes; 0 when nothing is known.
    pub memory: i64,
    /// Labels that the pool gives its nodes.
    pub labels: BTreeMap<String, String>,
    /// Taints that the pool gives its nodes.
    pub taints: BTreeSet<Taint>,
    /// What its kubelets keep from pods.
    pub kept: Kept,
    /// Devices of each of its machines, by name.
    pub devices: BTreeMap<String, i32>,
    /// What its nodes offer besides processors and memory.
    pub offer: Offer,
}

/// What nodes offer besides processors and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Bytes of the file system that pods write to.
    pub disk: i64,
    /// What the processors are.
    pub architecture: Architecture,
    /// Extended resources, none of them 0.
    pub extended: BTreeMap<String, i64>,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            disk: DISK,
            architecture: Architecture::default(),
            extended: BTreeMap::new(),
        }
    }
}

impl Offer {
    /// What the pool says of it, and else what follows from its machines.
    fn of(spec: &NodePoolSpec) -> Self {
        let kubevirt = spec.provider.kubevirt.as_ref();
        let said = spec.autoscaling.as_ref();
        let mut extended = kubevirt.map(gpus).unwrap_or_default();
        let mut disk = kubevirt.and_then(own_disk).unwrap_or(DISK);
        for (resource, amount) in said.into_iter().flat_map(|said| &said.capacity) {
            let amount = kit_objects::quantity::bytes(&amount.0);
            match (resource.as_str(), amount) {
                (EPHEMERAL_STORAGE, Some(bytes)) => disk = bytes,
                (_, Some(number)) => drop(extended.insert(resource.clone(), number)),
                (_, None) => {}
            }
        }
        extended.retain(|_, number| *number > 0);
        let selected = kubevirt.and_then(|k| k.node_selector.get(LABEL_ARCHITECTURE));
        let selected = selected.and_then(|text| Architecture::read(text));
        Self {
            disk,
            architecture: said
                .and_then(|said| said.architecture)
                .or(selected)
                .unwrap_or_default(),
            extended,
        }
    }
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

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Where a kubelet keeps what pods write.
const KUBELET_DIR: &str = "/var/lib/kubelet";
const LABEL_ARCHITECTURE: &str = "kubernetes.io/arch";
const GPU_MAKERS: [&str; 2] = ["amd.com", "nvidia.com"];

/// Pods of one node, a kubelet's default.
const PODS: i32 = 110;
/// What a kubelet keeps free before it evicts (`memory.available`, its default).
const EVICTION: i64 = 100 << 20;
/// Size of the root filesystem: that of the worker image has 8 GiB, without what ext4 keeps.
const DISK: i64 = 7 << 30;

/// What kubelets keep from pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Most pods of a node.
    pub pods: i32,
    /// Thousandths of a core that are reserved.
    pub cpu: i64,
    /// Bytes of memory that are reserved, or left when pods are evicted.
    pub memory: i64,
    /// Bytes of the root filesystem, in the same way.
    pub disk: i64,
}

impl Kept {
    /// By kubelets with these settings, of machines with so much memory and disk.
    fn by(kubelet: &Kubelet, memory: i64, disk: i64) -> Self {
        let reserved = |resource: &str, unit: fn(&str) -> Option<i64>| {
            let all = [&kubelet.system_reserved, &kubelet.kube_reserved];
            let amounts = all.into_iter().filter_map(|r| unit(&r.get(resource)?.0));
            amounts.fold(0, i64::saturating_add)
        };
        let evicted = |signal: &str, size: i64, default: i64| {
            let asked = kubelet.eviction_hard.get(signal);
            asked
                .and_then(|amount| threshold(amount, size))
                .unwrap_or(default)
        };
        // `nodefs.available`, its default: 10 %.
        let disk = evicted("nodefs.available", disk, disk - disk / 100 * 90);
        let left = evicted("memory.available", memory, EVICTION);
        Self {
            pods: kubelet.max_pods.unwrap_or(PODS),
            cpu: reserved("cpu", thousandths),
            memory: left.saturating_add(reserved("memory", kit_objects::quantity::bytes)),
            disk: disk.saturating_add(reserved("ephemeral-storage", kit_objects::quantity::bytes)),
        }
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::by(&Kubelet::default(), 0, DISK)
    }
}

/// Of a core, rounded up.
fn thousandths(amount: &str) -> Option<i64> {
    let billionths = kit_objects::quantity::billionths(amount)?.max(0);
    i64::try_from(billionths.saturating_add(999_999) / 1_000_000).ok()
}

/// An amount, or a share of all.
fn threshold(amount: &str, all: i64) -> Option<i64> {
    match amount.strip_suffix('%') {
        Some(percent) => percent.parse().ok().map(|percent| share(all, percent)),
        None => kit_objects::quantity::bytes(amount),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // nobody counts these bytes
fn share(all: i64, percent: f64) -> i64 {
    (all as f64 / 100.0 * percent).ceil() as i64
}

impl Shape {
    /// Of a NodePool.
    #[must_use]
    pub fn of(spec: &NodePoolSpec) -> Self {
        let kubevirt = spec.provider.kubevirt.as_ref();
        let memory = kubevirt.and_then(|k| kit_objects::quantity::bytes(&k.memory.0));
        let offer = Offer::of(spec);
        Self {
            provider: spec.provider.kind(),
            cpu: kubevirt.map_or(0, |k| k.cpu.max(0)),
            memory: memory.unwrap_or(0).max(0),
            labels: spec.labels.clone(),
            taints: spec.taints.iter().cloned().collect(),
            devices: kubevirt
                .into_iter()
                .flat_map(|k| k.gpus.iter().chain(&k.host_devices))
                .map(|device| (device.device_name.clone(), device.count))
                .collect(),
            kept: Kept::by(&spec.kubelet, memory.unwrap_or(0).max(0), offer.disk),
            offer,
        }
    }

    /// Eight digits that say which shape it is.
    #[must_use]
    pub fn hash(&self) -> String {
        let Self {
            provider,
            cpu,
            memory,
            labels,
            taints,
            kept,
            devices,
            offer,
        } = self;
        let provider = provider.map(ProviderKind::as_str);
        let mut text = serde_json::json!([provider, cpu, memory, labels, taints]);
        // Pools that say nothing of it keep the digits that they had.
        if let Some(all) = text.as_array_mut().filter(|_| *kept != Kept::default()) {
            let Kept {
                pods,
                cpu,
                memory,
                disk,
            } = kept;
            all.push(serde_json::json!([pods, cpu, memory, disk]));
        }
        if let Some(all) = text.as_array_mut().filter(|_| !devices.is_empty()) {
            all.push(serde_json::json!(devices));
        }
        if let Some(all) = text.as_array_mut().filter(|_| *offer != Offer::default()) {
            let Offer {
                disk,
                architecture,
                extended,
            } = offer;
            all.push(serde_json::json!({ "offer": [disk, architecture.as_str(), extended] }));
        }
        let text = text.to_string();
        hex::encode(&Sha256::digest(text)[..4])
    }
}
