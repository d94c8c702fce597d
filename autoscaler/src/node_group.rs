//! Node groups of the Cluster Autoscaler, and what a NodePool is as one. Pure.
//!
//! | Module | What it decides |
//! |---|---|
//! | [`decide`] | what a request of the client makes of a pool's size, and who goes |
//! | [`instances`] | how each machine is told of |
//! | [`options`] | by which rules nodes of a pool are taken away |
//! | [`template`] | the node that a pool would get, for growing from zero |
//!
//! Invariant: a pool is a group while it has `spec.autoscaling`, is not being deleted, and it is known what a node of
//! it offers, because the client remembers for ever what a group looked like first; whoever goes is not counted in
//! any size.

pub mod decide;
pub mod instances;
pub mod options;
pub mod template;

use api::node_pool::Autoscaling;
use proto::autoscaler::{ExternalGrpcNode, NodeGroup};

use crate::cache::objects::{Machine, PLACEHOLDER, Pool};
use crate::cache::state::State;

/// What the provider ID of a virtual machine of KubeVirt begins with; its name follows.
const PROVIDER: &str = "kubevirt://";

/// A pool that is a group.
#[derive(Clone, Copy, Debug)]
pub struct Group<'a> {
    /// The pool.
    pub pool: &'a Pool,
    /// What may be made of it.
    pub autoscaling: &'a Autoscaling,
}

/// The pool as a group; none when it is none.
#[must_use]
pub fn group(pool: &Pool) -> Option<Group<'_>> {
    let autoscaling = pool
        .autoscaling
        .as_ref()
        .filter(|_| !pool.going && pool.told)?;
    Some(Group { pool, autoscaling })
}

/// All groups, by name.
pub fn groups(state: &State) -> impl Iterator<Item = Group<'_>> {
    state.pools.values().filter_map(group)
}

/// The group of this id. What follows the dot is not looked at: a pool may change its shape while
/// the client goes through one of its loops.
#[must_use]
pub fn find<'a>(state: &'a State, id: &str) -> Option<Group<'a>> {
    let (pool, _) = id.split_once('.')?;
    group(state.pools.get(pool)?)
}

impl<'a> Group<'a> {
    /// Fewest machines.
    #[must_use]
    pub fn min(&self) -> i32 {
        self.autoscaling.min
    }

    /// Most machines; never fewer than the fewest.
    #[must_use]
    pub fn max(&self) -> i32 {
        self.autoscaling.max.max(self.autoscaling.min)
    }

    /// Most machines that it can have now: those that its locations may have; where the management cluster has
    /// no room for one more, those that were asked for already. So the client turns to another pool at once
    /// instead of waiting for a machine that cannot start.
    #[must_use]
    pub fn most(&self) -> i32 {
        let most = self.pool.most.unwrap_or(i32::MAX).min(self.max());
        let most = match self.pool.full {
            true => self.pool.replicas.min(most),
            false => most,
        };
        most.max(self.min())
    }

    /// Whether a machine of the pool is on its way out: by itself, or because we named it.
    #[must_use]
    pub fn is_going(&self, machine: &Machine) -> bool {
        machine.going || self.pool.named.contains(&machine.name)
    }

    /// Machines that stay.
    #[must_use]
    pub fn staying(&self, state: &State) -> i32 {
        let members = state.members(&self.pool.name);
        let staying = members.filter(|m| !self.is_going(m)).count();
        i32::try_from(staying).unwrap_or(i32::MAX)
    }

    /// As the client is told.
    #[must_use]
    pub fn told(&self) -> NodeGroup {
        NodeGroup {
            id: self.pool.group.clone(),
            min_size: self.min(),
            max_size: self.most(),
            debug: format!(
                "NodePool {}, {} replicas",
                self.pool.name, self.pool.replicas
            ),
        }
    }
}

/// The machine that a node of the client's stands for. One that never became a node has its provider ID as its
/// name, too.
#[must_use]
pub fn machine_of<'a>(state: &'a State, node: &ExternalGrpcNode) -> Option<&'a Machine> {
    let id = match node.provider_id.is_empty() {
        true => &node.name,
        false => &node.provider_id,
    };
    let name = id.strip_prefix(PROVIDER).unwrap_or(id);
    // The client may know it by the placeholder still.
    let is = |machine: &&Machine| match id.strip_prefix(PLACEHOLDER) {
        Some(uid) => machine.version.uid == uid,
        None => machine.id == *id,
    };
    let named = state.machines.get(name);
    named.or_else(|| state.machines.values().find(is))
}

/// The group that a node is in.
#[must_use]
pub fn of_node<'a>(state: &'a State, node: &ExternalGrpcNode) -> Option<Group<'a>> {
    let machine = machine_of(state, node)?;
    group(state.pools.get(&machine.pool)?)
}

#[cfg(test)]
mod tests;
