//! Which Nodes claim which machine, of those that take traffic.
//!
//! A tenant's administrator may make thousands of Nodes that claim one machine. One of them is its node: what the
//! others do changes nothing, and is not looked at when traffic is led to machines.
//! Invariant: the same Nodes make the same claims in whichever order they came.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cache::objects::Node;

/// By machine: names of Nodes.
#[derive(Debug, Default)]
pub(super) struct Claims(HashMap<String, BTreeSet<Arc<str>>>);

impl Claims {
    /// The Node of a machine: the one that has its name, as every node of ours has, or else the first by name. Who
    /// may make nodes gives a machine no second share of the traffic, and the management cluster no second endpoint.
    #[must_use]
    pub(super) fn node_of(&self, machine: &str) -> Option<&Arc<str>> {
        let nodes = self.0.get(machine)?;
        nodes.get(machine).or_else(|| nodes.first())
    }

    /// A Node is there.
    pub(super) fn add(&mut self, node: &Node) {
        if let Some(machine) = claimed(node) {
            let nodes = self.0.entry(machine.to_owned()).or_default();
            nodes.insert(node.name.as_str().into());
        }
    }

    /// A Node is gone, or is no longer what it was.
    pub(super) fn remove(&mut self, node: &Node) {
        let Some(machine) = claimed(node) else { return };
        if let Some(nodes) = self.0.get_mut(machine) {
            nodes.remove(node.name.as_str());
            if nodes.is_empty() {
                self.0.remove(machine);
            }
        }
    }
}

/// The machine that a Node claims, and takes traffic for.
pub(super) fn claimed(node: &Node) -> Option<&str> {
    node.machine().filter(|_| node.takes_traffic())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node((name, machine, deleting): (u8, u8, bool)) -> Node {
        let id = format!("kubevirt://m{machine}");
        Node {
            name: format!("m{name}"),
            provider_id: Some(id).filter(|_| machine < 3),
            deleting,
            ..Node::default()
        }
    }

    proptest! {
        /// Whatever Nodes did, their claims are those that they would make if they came anew.
        #[test]
        fn claims_depend_on_what_there_is_and_not_on_how_it_came(
            lives in prop::collection::vec((0_u8..4, 0_u8..4, any::<bool>(), any::<bool>()), 0..40),
        ) {
            let (mut claims, mut there) = (Claims::default(), HashMap::new());
            for (name, machine, deleting, gone) in lives {
                let node = node((name, machine, deleting));
                if let Some(old) = there.remove(&node.name) {
                    claims.remove(&old);
                }
                if !gone {
                    claims.add(&node);
                    there.insert(node.name.clone(), node);
                }
            }
            for machine in 0..4 {
                let machine = format!("m{machine}");
                let all = there.values().filter(|node| claimed(node) == Some(&machine));
                let wanted = all.min_by_key(|node| (node.name != machine, &node.name));
                let found = claims.node_of(&machine).map(ToString::to_string);
                prop_assert_eq!(found, wanted.map(|node| node.name.clone()));
            }
            there.values().for_each(|node| claims.remove(node));
            prop_assert!(claims.0.is_empty());
        }
    }
}
