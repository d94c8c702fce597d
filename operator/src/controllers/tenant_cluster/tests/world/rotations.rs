//! What rotations ask of the tenant's API, and write there.
//!
//! Invariant: as much is written at once as the budget has.

use std::collections::BTreeSet;

use super::World;
use crate::controllers::tenant_cluster::observed::{Observed, Rewritten};
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

    /// One Secret inside that another key encrypted; false when it was cut off.
    pub(super) fn rewrite(
        &mut self,
        generation: u32,
        observed: &mut Observed,
        budget: &mut usize,
    ) -> bool {
        let mut old = self.at_rest.iter_mut();
        let old = old.find(|(_, key)| **key != generation);
        let Some((place, key)) = old else {
            observed.rewritten = Some(Ok(Rewritten::All));
            return true;
        };
        if self.refuses {
            let first = (*place).to_owned();
            observed.rewritten = Some(Ok(Rewritten::Refused { first }));
            return true;
        }
        if *budget == 0 {
            return false;
        }
        *key = generation;
        *budget -= 1;
        self.writes += 1;
        observed.rewritten = Some(Ok(Rewritten::Some));
        true
    }
}
