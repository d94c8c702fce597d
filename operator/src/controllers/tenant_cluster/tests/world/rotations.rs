//! What rotations see of Machines and nodes.
//!
//! Invariant: nodes are known once they were asked for.

use std::collections::BTreeSet;

use super::World;
use crate::rotation::kubelets::Kubelets;

/// There is no Machine, and no node.
pub(super) fn no_kubelets() -> Kubelets {
    Kubelets {
        nodes: Some(Ok(BTreeSet::new())),
        ..Kubelets::default()
    }
}

impl World {
    pub(super) fn see_machines(&self) -> Kubelets {
        Kubelets {
            machines: self.kubelets.machines.clone(),
            nodes: None,
        }
    }
}
