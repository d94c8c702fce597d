//! Shape of a NodePool: what a node of it looks like to a scheduler. Pure.
//!
//! Invariant: two pools have one hash exactly when a node of the one is as good as a node of the
//! other; how an amount was written, and the order of taints, make no difference.

use std::collections::{BTreeMap, BTreeSet};

use api::NodePoolSpec;
use api::node_pool::{Kubelet, ProviderKind, Taint};
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
}

/// Pods of one node, a kubelet's default.
const PODS: i32 = 110;
/// What a kubelet keeps free before it evicts (`memory.available`, its default).
const EVICTION: i64 = 100 << 20;
/// Size of the root filesystem: that of the worker image has 8 GiB, without what ext4 keeps.
pub(crate) const DISK: i64 = 7 << 30;
/// What is kept of it (`nodefs.available`, its default: 10 %).
const DISK_KEPT: i64 = DISK - DISK / 100 * 90;

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
    /// By kubelets with these settings, of machines with so much memory.
    fn by(kubelet: &Kubelet, memory: i64) -> Self {
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
        let disk = evicted("nodefs.available", DISK, DISK_KEPT);
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
        Self::by(&Kubelet::default(), 0)
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
            kept: Kept::by(&spec.kubelet, memory.unwrap_or(0).max(0)),
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
        let text = text.to_string();
        hex::encode(&Sha256::digest(text)[..4])
    }
}
