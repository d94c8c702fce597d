//! What one reconcile of a NodePool saw: a plain value, so that a plan can be tested on any world.
//!
//! Invariant: which Machines are the pool's is decided by the UID in their owner reference, never
//! by a label or a name alone. A list that could not be read is no observation: none of this is a guess.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{Machine, NodePool, TenantCluster, names};
use jiff::Timestamp;
use kit_objects::known::Known;
use provider_kubevirt::release::Release;
use tenant_cp::problem::Problem;

use super::nodes::Nodes;
use crate::capacity::Answer;
use crate::cloud_limits::costs::Costs;
use crate::endpoint_probes::Word;
use crate::node_silence::Heard;
use crate::node_templates::NodeTemplates;

/// Everything that a plan may depend on.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The NodePool, read just now.
    pub pool: NodePool,
    /// The TenantCluster that it names, read just now.
    pub cluster: Known<TenantCluster>,
    /// All Machines that may be the pool's, read just now, in any order.
    pub machines: Vec<Machine>,
    /// Other Machines of the namespace as last seen, in any order: names that are taken, and what
    /// became of their nodes.
    pub others: Vec<Arc<Machine>>,
    /// Nodes that run already and that it may take over.
    pub nodes: Nodes,
    /// Whether the management cluster has room for one machine more of the pool.
    pub capacity: Answer,
    /// What quotas say against the pool; nothing where it was let in.
    pub quotas: Vec<Problem>,
    /// What is not known of the ranges that machines must not reach.
    pub reserved_unknown: Option<Problem>,
    /// Whether the KubeVirt that runs its machines has published holes.
    pub kubevirt: Release,
    /// What a node of each place offers, as far as its provider knows by now; nothing of KubeVirt's, where it follows from
    /// the pool.
    pub templates: NodeTemplates,
    /// When nodes of the tenant cluster were heard, where a location of the pool may be lost.
    pub heard: Heard,
    /// Whether the API of each location's provider answers, or SSH where machines are reached by it, by the name that the status calls it; who is missing has none
    /// that could fail alone, or nobody called it yet.
    pub answers: BTreeMap<String, bool>,
    /// Whether each location's provider lets us in, by the name that the status calls it; who is missing was not asked, or
    /// gave no answer.
    pub let_in: BTreeMap<String, bool>,
    /// Whether the published endpoint lets the operator in, while all nodes that come by it are silent.
    pub endpoint: Word,
    /// What an hour of a machine costs in each location, in millionths; who is missing has no price that is known.
    pub prices: BTreeMap<String, u64>,
    /// What its Machines cost, and one more in each location; nothing where it has no budget.
    pub costs: Costs,
}

impl Observed {
    /// The Machines that this very pool made.
    pub fn owned(&self) -> impl Iterator<Item = &Machine> {
        let uid = self.pool.metadata.uid.as_deref().unwrap_or_default();
        self.machines
            .iter()
            .filter(move |machine| is_owned(machine, uid))
    }

    /// Whether a name is taken by any Machine of the namespace.
    #[must_use]
    pub fn is_taken(&self, name: &str) -> bool {
        let is = |machine: &Machine| machine.metadata.name.as_deref() == Some(name);
        self.machines.iter().any(is) || self.others.iter().any(|machine| is(machine))
    }

    /// Since when the tenant's API answers; none while it does not.
    #[must_use]
    pub fn answers_since(&self) -> Option<Timestamp> {
        let cluster = self.cluster.as_ref().there()?;
        cluster.status.as_ref()?.answers_since()
    }
}

/// Whether the owner that controls a Machine has this UID.
#[must_use]
pub fn is_owned(machine: &Machine, pool_uid: &str) -> bool {
    let owners = machine.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|owner| owner.controller == Some(true));
    controllers.any(|owner| owner.uid == pool_uid)
}

/// Whether somebody asked for a Machine to go.
#[must_use]
pub fn is_going(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

/// The number that a Machine's name is derived from; 0 for one that somebody spoilt.
#[must_use]
pub fn number(machine: &Machine) -> i64 {
    let annotations = machine.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(names::ANNOTATION_MACHINE_NUMBER))
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Text of a label.
#[must_use]
pub fn label<'a>(machine: &'a Machine, key: &str) -> Option<&'a str> {
    let labels = machine.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}
