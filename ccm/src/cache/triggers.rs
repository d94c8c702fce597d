//! Triggers: which nodes and Services are reconciled when something changed.
//!
//! Invariant: a change concerns whoever is there when it is asked, because who comes or goes
//! meanwhile is a change of its own.

#[cfg(test)]
mod tests;

use crate::cache::events::Change;
use crate::cache::services::{DesiredLoadBalancer, desired_load_balancer, keeps_traffic_local};
use crate::cache::state::State;

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A Service of the tenant cluster, by UID, whether it is there or not.
    Service(String),
    /// A node of the tenant cluster, by name.
    Node(String),
}

impl Key {
    /// The UID or the name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Service(name) | Self::Node(name) => name,
        }
    }
}

/// Whom these changes concern, one after the other.
#[must_use]
pub fn triggered(state: &State, changes: &[Change]) -> Vec<Key> {
    let keys = changes.iter().flat_map(|change| match change {
        Change::Service(uid) | Change::Mirror(uid) | Change::Disowned(uid) => {
            vec![Key::Service(uid.clone())]
        }
        // Only Services that keep traffic on the node care where their endpoints are.
        Change::LocalEndpoints(place) => {
            let service = state.service_at(place);
            let service = service.filter(|(_, service)| keeps_traffic_local(service));
            let key = service.map(|(uid, _)| Key::Service(uid.clone()));
            key.into_iter().collect()
        }
        Change::Node(name) => vec![Key::Node(name.clone())],
        Change::Machine(machine) => {
            let on_it = state
                .nodes()
                .filter(|(_, n)| n.machine() == Some(machine.as_str()));
            on_it.map(|(name, _)| Key::Node(name.to_string())).collect()
        }
        Change::Targets => {
            let is_ours = |service| {
                desired_load_balancer(service, state.settings()) == DesiredLoadBalancer::Ours
            };
            let ours = state.services().filter(|(_, service)| is_ours(service));
            ours.map(|(uid, _)| Key::Service(uid.clone())).collect()
        }
    });
    keys.collect()
}

/// Everything that there is, and orphans.
#[must_use]
pub fn everything(state: &State) -> Vec<Key> {
    let services = state.services().map(|(uid, _)| Key::Service(uid.clone()));
    let nodes = state.nodes().map(|(name, _)| Key::Node(name.to_string()));
    services.chain(nodes).chain(orphans(state)).collect()
}

/// What has no Service any more.
#[must_use]
pub fn orphans(state: &State) -> Vec<Key> {
    let uids = state.orphans().cloned();
    uids.map(Key::Service).collect()
}
