//! Nodes that run already get a Machine of their name before any other machine is made where they are.
//!
//! Invariant: no name is given twice; as long as it is not known which nodes run in a location, nothing is made there; who
//! has nothing yet gives way to a node that runs, and nobody else does.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{Machine, TenantCluster};
use tenant_cp::version;

use super::sizing::Sizing;
use super::template::Template;
use crate::controllers::node_pool::nodes::Node;
use crate::controllers::node_pool::observed::{Observed, is_going};

/// When to look again where it is not known which nodes run: what is awaited need not wake the pool.
pub(super) const AWAITED: Duration = Duration::from_secs(5);

/// Nodes that no Machine has, of which each is given once.
pub(super) struct Left<'a> {
    observed: &'a Observed,
    running: Option<&'a str>,
    given: BTreeSet<&'a str>,
}

impl<'a> Left<'a> {
    pub(super) fn new(observed: &'a Observed, cluster: &'a TenantCluster) -> Self {
        let running = cluster.status.as_ref().and_then(|s| s.version.as_deref());
        Self {
            observed,
            running,
            given: BTreeSet::new(),
        }
    }

    /// The next one of a location.
    pub(super) fn take(&mut self, location: &str) -> Option<&'a Node> {
        let mut nodes = self.observed.nodes.of.get(location)?.iter();
        let node = nodes.find(|node| self.is_free(node))?;
        self.given.insert(&node.name);
        Some(node)
    }

    /// It is nobody's, and no kubelet that this control plane does not serve.
    fn is_free(&self, node: &Node) -> bool {
        let read = |text| version::parse(text).ok();
        let known = self.running.and_then(read).zip(read(&node.version));
        let is_served =
            known.is_some_and(|(running, node)| version::check_worker(&running, &node).is_ok());
        is_served && !self.given.contains(node.name.as_str()) && !self.observed.is_taken(&node.name)
    }
}

/// Whether nothing is made in a location, because it is not known yet which nodes run there.
pub(super) fn is_awaited(observed: &Observed, location: &str) -> bool {
    observed.nodes.awaited.contains(location)
}

/// Whether anything is not made because of that.
pub(super) fn awaits(observed: &Observed, sizing: &Sizing) -> bool {
    let mut missing = sizing.create.iter();
    missing.any(|location| is_awaited(observed, location))
}

/// Machines that have nothing yet, and are not deleted already, where nodes run for which there is no place else; each with
/// the node that it gives way to.
pub(super) fn that_give_way<'a>(
    observed: &'a Observed,
    cluster: &'a TenantCluster,
    template: &Template,
    sizing: &Sizing,
    is_deleted: impl Fn(&Machine) -> bool,
) -> Vec<(&'a Machine, &'a str)> {
    let mut left = Left::new(observed, cluster);
    for location in &sizing.create {
        left.take(location);
    }
    let mut gone = Vec::new();
    for location in observed.nodes.of.keys() {
        let is_there = |m: &&Machine| {
            let at = template.location_of(m);
            at.is_some_and(|at| at.shown == *location) && has_nothing(m) && !is_deleted(m)
        };
        for machine in observed.owned().filter(is_there) {
            let Some(node) = left.take(location) else {
                break;
            };
            gone.push((machine, node.name.as_str()));
        }
    }
    gone
}

/// It waits for a Host: nothing is known of a machine of its own, and no node is.
fn has_nothing(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    let has_nothing = status.is_none_or(|status| {
        status.addresses.is_empty() && status.provider_id.is_none() && status.node_name.is_none()
    });
    has_nothing && machine.adopts().is_none() && !is_going(machine)
}
