//! Shape of a NodePool: what a node of it looks like to a scheduler. Pure.
//!
//! The operator writes what a node of each location offers into the pool's status, and nothing else is read: what
//! providers make of a spec is not known here, those pools aside that it has not told of yet ([`untold`]). A pool is one group, so of several locations a node offers what
//! one of each does: what fits that fits wherever the next machine is made.
//! Invariant: two pools have one hash exactly when a node of the one is as good as a node of the
//! other; how an amount was written, and the order of taints, make no difference.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use api::node_pool::locations::{LocationRef, LocationStatus};
use api::node_pool::{Architecture, Kubelet, ProviderKind, Taint};
use api::{NodePool, Quantity};
use sha2::{Digest as _, Sha256};

mod untold;

/// What a node of a pool looks like to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Who makes the machines; none when the pool does not say, or where that differs.
    pub provider: Option<ProviderKind>,
    /// What the size of its machines is called; none where it has no name, or where that differs.
    pub instance_type: Option<String>,
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
    /// What the processors are; none where that differs from location to location.
    pub architecture: Option<Architecture>,
    /// Extended resources, none of them 0.
    pub extended: BTreeMap<String, i64>,
}

impl Default for Offer {
    fn default() -> Self {
        Self {
            disk: DISK,
            architecture: Some(Architecture::default()),
            extended: BTreeMap::new(),
        }
    }
}

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

/// 0 for an amount that cannot be read.
fn bytes(amount: &Quantity) -> i64 {
    kit_objects::quantity::bytes(&amount.0).unwrap_or_default()
}

fn least<T: Ord>(amounts: impl Iterator<Item = T>, none: T) -> T {
    amounts.min().unwrap_or(none)
}

/// What all say; none where they differ, or one says nothing.
fn same<T: PartialEq>(mut said: impl Iterator<Item = Option<T>>) -> Option<T> {
    let first = said.next()??;
    said.all(|other| other.as_ref() == Some(&first))
        .then_some(first)
}

/// What all have, and the least that one has of it.
fn shared<'a, T: Copy + Ord + 'a>(
    mut all: impl Iterator<Item = &'a BTreeMap<String, T>>,
) -> BTreeMap<String, T> {
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, |mut both, other| {
        both.retain(|name, _| other.contains_key(name));
        for (name, amount) in &mut both {
            *amount = other.get(name).map_or(*amount, |most| (*amount).min(*most));
        }
        both
    })
}

/// Labels that all have with the same value.
fn common<'a>(
    mut all: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let first = all.next().cloned().unwrap_or_default();
    all.fold(first, |mut both, other| {
        both.retain(|name, value| other.get(name) == Some(value));
        both
    })
}

/// Places where new machines are made.
fn used(pool: &NodePool) -> Vec<LocationRef<'_>> {
    let places = pool.spec.places().into_iter();
    places.filter(|place| place.weight > 0).collect()
}

/// What the operator says of a place.
fn said<'a>(pool: &'a NodePool, place: &LocationRef<'_>) -> Option<&'a LocationStatus> {
    let mut said = pool.status.iter().flat_map(|status| &status.locations);
    said.find(|at| at.name == place.shown())
}

/// Whether anything is known of what a node offers: the operator has told of a place where machines are made, or the
/// pool has `spec.provider`.
#[must_use]
pub fn is_told(pool: &NodePool) -> bool {
    let mut used = used(pool).into_iter();
    used.any(|place| place.name.is_none() || said(pool, &place).is_some())
}

/// Most machines that all places of a pool may have together; none where one of them has no limit.
#[must_use]
pub fn most(pool: &NodePool) -> Option<i32> {
    used(pool).into_iter().try_fold(0_i32, |sum, place| {
        let max = i32::try_from(place.max?).unwrap_or(i32::MAX);
        Some(sum.saturating_add(max))
    })
}

impl Shape {
    /// Of a NodePool, as its status tells; of no size where one place has none that is known. A place that is so new
    /// that nothing was told of it counts once it was.
    #[must_use]
    pub fn of(pool: &NodePool) -> Self {
        let spec = &pool.spec;
        let used = used(pool);
        let template = |place: &LocationRef<'_>| match said(pool, place) {
            Some(at) => Some(at.template.as_ref().map(Cow::Borrowed)),
            None if place.name.is_none() => {
                Some(untold::node(spec, place.provider, DISK).map(Cow::Owned))
            }
            None => None,
        };
        let templates: Option<Vec<_>> = used.iter().filter_map(template).collect();
        let kinds = used.iter().map(|place| place.provider.kind());
        let nodes = templates.unwrap_or_default();
        let memory = nodes.iter().map(|t| bytes(&t.memory)).min();
        let memory = memory.unwrap_or_default().max(0);
        let offer = Offer {
            disk: least(nodes.iter().map(|t| bytes(&t.ephemeral_storage)), DISK),
            architecture: same(nodes.iter().map(|t| Some(t.architecture))),
            extended: shared(nodes.iter().map(|t| &t.resources)),
        };
        let labels = nodes.iter().map(|t| &t.labels);
        Self {
            provider: same(kinds),
            instance_type: same(nodes.iter().map(|t| t.instance_type.clone())),
            cpu: least(nodes.iter().map(|t| t.cpu), 0),
            memory,
            labels: common(labels),
            taints: nodes.iter().flat_map(|t| t.taints.clone()).collect(),
            devices: shared(nodes.iter().map(|t| &t.devices)),
            kept: Kept::by(&spec.kubelet, memory, offer.disk),
            offer,
        }
    }

    /// Eight digits that say which shape it is.
    #[must_use]
    pub fn hash(&self) -> String {
        let Self {
            provider,
            instance_type,
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
            all.push(serde_json::json!({ "offer": [disk, architecture.map(Architecture::as_str), extended] }));
        }
        // KubeVirt's are named after their processors and their memory, so the name says nothing more; a cloud's name says
        // which processors, and one that has none is of locations, or sizes, that differ.
        let is_named_by_amounts = provider == Some(ProviderKind::KubeVirt.as_str());
        let says_more = *cpu > 0 && (instance_type.is_none() || !is_named_by_amounts);
        if let Some(all) = text.as_array_mut().filter(|_| says_more) {
            all.push(serde_json::json!({ "instanceType": instance_type }));
        }
        let text = text.to_string();
        hex::encode(&Sha256::digest(text)[..4])
    }
}
