//! Template of a node: the one that a pool would get, for growing from zero. The client schedules pods onto it in its
//! mind.
//!
//! Invariant: a function of the pool's shape and of where its machines are, byte for byte; rather a
//! little smaller than the real node, because a pod that fits here and not there would make the pool
//! grow in vain. None when the pool's size is not known, and never an empty node.

use std::collections::BTreeMap;

use api::names::{LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE};
use api::node_pool::Architecture;
use proto::Message as _;
use proto::kubernetes as core;

use super::Group;
use crate::cache::objects::Node;
use crate::cache::shape::Shape;
use crate::cache::state::State;

const MEBIBYTE: i64 = 1 << 20;
/// What firmware and kernel keep of a machine's memory whatever its size: image, initial tables,
/// buffers. Measured kernels keep less.
const KERNEL: i64 = 64 * MEBIBYTE;
/// And the share of its size: 1/64 for the kernel's table of pages (64 bytes for each 4096), and as
/// much again to be safe.
const PAGES: i64 = 32;
const OS: &str = "linux";
/// With the longest name of a pool (46) this is still the value of a label (63).
const SUFFIX: &str = "-template";

/// The node, encoded as Kubernetes does it, without its envelope.
#[must_use]
pub fn bytes(group: Group<'_>, state: &State) -> Option<Vec<u8>> {
    node(group, state).map(|node| node.encode_to_vec())
}

/// The node.
#[must_use]
pub fn node(group: Group<'_>, state: &State) -> Option<core::Node> {
    let shape = &group.pool.shape;
    let usable = usable(shape)?;
    let name = format!("{}{SUFFIX}", group.pool.name);
    let kept = &shape.kept;
    let offer = &shape.offer;
    let resources = |cpu: String, memory: i64, disk: i64| {
        let all = [
            ("cpu", cpu),
            ("ephemeral-storage", disk.to_string()),
            ("memory", memory.to_string()),
            ("pods", kept.pods.to_string()),
        ];
        let extended = offer.extended.iter();
        let extended = extended.map(|(name, number)| (name.as_str(), number.to_string()));
        let quantity =
            |(name, string): (&str, String)| (name.to_owned(), core::Quantity { string });
        all.into_iter().chain(extended).map(quantity).collect()
    };
    let labels = labels(group, state, &name);
    let taint = |taint: &api::node_pool::Taint| core::Taint {
        key: taint.key.clone(),
        value: taint.value.clone().unwrap_or_default(),
        effect: taint.effect.as_str().to_owned(),
    };
    Some(core::Node {
        metadata: Some(core::ObjectMeta {
            name: name.clone(),
            labels,
            annotations: BTreeMap::new(),
        }),
        spec: Some(core::NodeSpec {
            taints: shape.taints.iter().map(taint).collect(),
            ..core::NodeSpec::default()
        }),
        status: Some(core::NodeStatus {
            capacity: resources(shape.cpu.to_string(), usable, offer.disk),
            allocatable: resources(
                processors(shape),
                usable - kept.memory,
                (offer.disk - kept.disk).max(0),
            ),
            conditions: conditions(),
            addresses: vec![core::NodeAddress {
                r#type: "Hostname".to_owned(),
                address: name,
            }],
            node_info: Some(core::NodeSystemInfo {
                operating_system: OS.to_owned(),
                architecture: architecture(shape).unwrap_or_default(),
            }),
        }),
    })
}

/// Memory of a node that its kernel leaves, in bytes; none when nothing of it, or of its processors,
/// would be left for pods.
#[must_use]
pub fn usable(shape: &Shape) -> Option<i64> {
    let usable = shape.memory - KERNEL - shape.memory / PAGES;
    let has_processors = i64::from(shape.cpu) * 1000 > shape.kept.cpu;
    (has_processors && usable > shape.kept.memory).then_some(usable)
}

/// What is left of the processors for pods, in whole cores or in thousandths of one.
fn processors(shape: &Shape) -> String {
    match shape.kept.cpu {
        0 => shape.cpu.to_string(),
        kept => format!("{}m", i64::from(shape.cpu) * 1000 - kept),
    }
}

fn labels(group: Group<'_>, state: &State, hostname: &str) -> BTreeMap<String, String> {
    let shape = &group.pool.shape;
    let mut labels = shape.labels.clone();
    let arch = || architecture(shape);
    let instance_type = || shape.instance_type.clone();
    let place = |label: fn(&Node) -> Option<&String>| common(group, state, label);
    for (key, value) in [
        (LABEL_ZONE, place(|n| n.zone.as_ref())),
        (LABEL_REGION, place(|n| n.region.as_ref())),
        (LABEL_INSTANCE_TYPE, instance_type()),
        ("beta.kubernetes.io/instance-type", instance_type()),
        ("beta.kubernetes.io/arch", arch()),
        ("beta.kubernetes.io/os", Some(OS.to_owned())),
        ("kubernetes.io/arch", arch()),
        ("kubernetes.io/hostname", Some(hostname.to_owned())),
        ("kubernetes.io/os", Some(OS.to_owned())),
    ] {
        labels.extend(value.map(|value| (key.to_owned(), value)));
    }
    labels
}

fn architecture(shape: &Shape) -> Option<String> {
    let architecture = shape.offer.architecture.map(Architecture::as_str);
    architecture.map(str::to_owned)
}

/// What all machines of the pool of which it is known have in common.
fn common(group: Group<'_>, state: &State, label: fn(&Node) -> Option<&String>) -> Option<String> {
    let members = state.members(&group.pool.name);
    let nodes = members.filter_map(|machine| state.nodes.get(&machine.name));
    let mut known = nodes.filter_map(label);
    let first = known.next()?;
    known.all(|other| other == first).then(|| first.clone())
}

fn conditions() -> Vec<core::NodeCondition> {
    let condition = |r#type: &str, status: &str| core::NodeCondition {
        r#type: r#type.to_owned(),
        status: status.to_owned(),
        reason: "Template".to_owned(),
        message: String::new(),
    };
    vec![
        condition("Ready", "True"),
        condition("NetworkUnavailable", "False"),
        condition("DiskPressure", "False"),
        condition("MemoryPressure", "False"),
        condition("PIDPressure", "False"),
    ]
}

#[cfg(test)]
mod tests;
