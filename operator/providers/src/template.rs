//! The node that a machine of a pool would become at a cloud, for growing a pool that is empty. Pure.
//!
//! Invariant: of several sizes a node has what the smallest has of each, because any of them may be made; what is left out is
//! rather too little than too much, and what nobody knows is none.

use std::collections::BTreeSet;

use api::names::LABEL_ZONE;
use api::node_pool::{Architecture, NodeTemplate};
use api::{NodePoolSpec, Quantity};
use kit_objects::quantity::bytes;

use crate::offering::Size;

const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// What a machine's firmware and its host keep of the memory that its size says, in thousandths: what others reckon with
/// for virtual machines of clouds (Karpenter's `vmMemoryOverheadPercent`).
const KEPT: i64 = 75;

/// The node, of one of `sizes` in a zone (empty: of none); `disk`: bytes of disk where the size does not say. None without
/// any, and where an amount cannot be read or they are of different processors and the pool does not say of which it is.
#[must_use]
pub fn node(
    spec: &NodePoolSpec,
    sizes: &[Size],
    disk: Option<i64>,
    zone: &str,
) -> Option<NodeTemplate> {
    let said = spec.autoscaling.as_ref();
    let cpu = least(sizes, |size| {
        i32::try_from(bytes(&size.offering.cpu.0)?).ok()
    })?;
    let memory = least(sizes, |size| bytes(&size.offering.memory.0))?;
    let disk = least(sizes, |size| size.disk.or(disk))?;
    // Without what its file system keeps.
    let mut disk = disk / 8 * 7;
    let mut node = NodeTemplate {
        cpu,
        memory: Quantity((memory - memory / 1000 * KEPT).to_string()),
        architecture: architecture(sizes).or_else(|| said?.architecture)?,
        labels: spec.labels.clone(),
        ..NodeTemplate::default()
    };
    for (resource, amount) in said.into_iter().flat_map(|said| &said.capacity) {
        match (resource.as_str(), bytes(&amount.0)) {
            (EPHEMERAL_STORAGE, Some(bytes)) => disk = bytes,
            (_, Some(number)) => drop(node.resources.insert(resource.clone(), number)),
            (_, None) => {}
        }
    }
    node.resources.retain(|_, number| *number > 0);
    node.ephemeral_storage = Quantity(disk.to_string());
    if let [only] = sizes {
        node.instance_type = Some(only.name.clone());
    }
    // What the cloud controller manager says, whatever the pool does.
    if !zone.is_empty() {
        node.labels.insert(LABEL_ZONE.to_owned(), zone.to_owned());
    }
    let taints: BTreeSet<_> = spec.taints.iter().cloned().collect();
    node.taints = taints.into_iter().collect();
    Some(node)
}

/// The least that one has; none without any, and where one amount is not known.
fn least<T: Ord>(sizes: &[Size], amount: impl Fn(&Size) -> Option<T>) -> Option<T> {
    let amounts: Option<Vec<_>> = sizes.iter().map(amount).collect();
    amounts?.into_iter().min()
}

/// What all are of; none where they differ.
fn architecture(sizes: &[Size]) -> Option<Architecture> {
    let (first, others) = sizes.split_first()?;
    let is_one = others
        .iter()
        .all(|size| size.architecture == first.architecture);
    is_one
        .then_some(first.architecture)
        .and_then(Architecture::read)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::offering::Offering;
    use serde_json::{Value, json};

    const GB: i64 = 1_000_000_000;

    fn size(name: &str, cpu: u32, memory: &str, disk: i64, architecture: &'static str) -> Size {
        Size {
            name: name.to_owned(),
            architecture,
            disk: Some(disk * GB),
            exhausted: false,
            offering: Offering {
                cpu: Quantity(cpu.to_string()),
                memory: Quantity(memory.to_owned()),
                ..Offering::default()
            },
        }
    }

    fn spec(autoscaling: &Value) -> NodePoolSpec {
        serde_json::from_value(json!({
            "clusterName": "demo", "replicas": 0, "autoscaling": autoscaling,
            "labels": { "disk": "fast" },
            "taints": [{ "key": "b", "effect": "NoSchedule" }, { "key": "a", "effect": "NoSchedule" }],
            "provider": { "hetzner": { "configName": "hetzner", "types": ["cx22"] } },
        }))
        .unwrap()
    }

    #[test]
    fn node_of_one_size_is_that_without_what_is_kept() {
        let node = node(
            &spec(&json!({ "min": 0, "max": 5 })),
            &[size("cax11", 2, "4096Mi", 40, "arm64")],
            None,
            "fsn1",
        );
        let node = node.unwrap();
        assert_eq!((node.cpu, node.architecture), (2, Architecture::Arm64));
        let memory = bytes(&node.memory.0).unwrap();
        assert!(((3700 << 20)..(3800 << 20)).contains(&memory), "{memory}");
        assert_eq!(node.ephemeral_storage.0, "35000000000");
        assert_eq!(node.instance_type.as_deref(), Some("cax11"));
        let labels = [("disk", "fast"), (LABEL_ZONE, "fsn1")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(node.labels, BTreeMap::from(labels));
        let taints: Vec<_> = node.taints.iter().map(|taint| taint.key.as_str()).collect();
        assert_eq!(taints, ["a", "b"]);
        assert!(node.resources.is_empty() && node.devices.is_empty());
    }

    #[test]
    fn disk_that_is_asked_for_beside_the_size_is_that_of_the_node() {
        let mut size = size("a", 2, "4Gi", 0, "amd64");
        size.disk = None;
        let spec = spec(&json!({ "min": 0, "max": 5 }));
        assert_eq!(node(&spec, &[size.clone()], None, "z"), None);
        let told = node(&spec, &[size], Some(80), "").unwrap();
        assert_eq!(told.labels.get(LABEL_ZONE), None);
        assert_eq!(told.ephemeral_storage.0, "70");
    }

    #[test]
    fn node_of_several_sizes_has_the_least_of_each_and_no_name() {
        let sizes = [
            size("a", 2, "16Gi", 40, "amd64"),
            size("b", 8, "4Gi", 160, "amd64"),
        ];
        let said = json!({ "min": 0, "max": 5, "capacity": { "example.com/fpga": 2, "ephemeral-storage": "9Gi" } });
        let node = node(&spec(&said), &sizes, None, "fsn1").unwrap();
        assert_eq!((node.cpu, node.instance_type), (2, None));
        assert!(bytes(&node.memory.0).unwrap() < 4 << 30);
        assert_eq!(node.ephemeral_storage.0, (9_i64 << 30).to_string());
        assert_eq!(node.resources["example.com/fpga"], 2);
    }

    #[test]
    fn what_nobody_knows_is_none() {
        let bounds = json!({ "min": 0, "max": 5 });
        assert_eq!(node(&spec(&bounds), &[], None, "fsn1"), None);
        let unread = [size("a", 2, "much", 40, "amd64")];
        assert_eq!(node(&spec(&bounds), &unread, None, "fsn1"), None);
        let both = [
            size("a", 2, "4Gi", 40, "amd64"),
            size("b", 2, "4Gi", 40, "arm64"),
        ];
        assert_eq!(node(&spec(&bounds), &both, None, "fsn1"), None);
        let said = json!({ "min": 0, "max": 5, "architecture": "arm64" });
        let told = node(&spec(&said), &both, None, "fsn1").unwrap();
        assert_eq!(told.architecture, Architecture::Arm64);
    }
}
