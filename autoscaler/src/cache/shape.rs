//! Shape of a NodePool: what a node of it looks like to a scheduler. Pure.
//!
//! Invariant: two pools have one hash exactly when a node of the one is as good as a node of the
//! other; how an amount was written, and the order of taints, make no difference.

use std::collections::{BTreeMap, BTreeSet};

use api::NodePoolSpec;
use api::node_pool::{ProviderKind, Taint};
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
}

impl Shape {
    /// Of a NodePool.
    #[must_use]
    pub fn of(spec: &NodePoolSpec) -> Self {
        let kubevirt = spec.provider.kubevirt.as_ref();
        let memory = kubevirt.and_then(|k| kit::apply::bytes(&k.memory.0));
        Self {
            provider: spec.provider.kind(),
            cpu: kubevirt.map_or(0, |k| k.cpu.max(0)),
            memory: memory.unwrap_or(0).max(0),
            labels: spec.labels.clone(),
            taints: spec.taints.iter().cloned().collect(),
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
        } = self;
        let provider = provider.map(ProviderKind::as_str);
        let text = serde_json::json!([provider, cpu, memory, labels, taints]).to_string();
        hex::encode(&Sha256::digest(text)[..4])
    }
}
