//! Triggers: which nodes and Services are reconciled when something changed, and how soon.
//!
//! A machine that is dead for certain concerns every load balancer, at once and before all others. What else
//! changes where traffic goes is gathered for a moment, because nodes change in crowds, and because whoever
//! may label a node could otherwise keep everybody busy.
//!
//! Invariant: a change concerns whoever is there when it is asked, because who comes or goes
//! meanwhile is a change of its own.

#[cfg(test)]
mod tests;

use kit::workqueue::Priority;

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
    /// Every Service that has a load balancer: traffic goes elsewhere.
    LoadBalancers,
}

impl Key {
    /// The UID or the name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Service(name) | Self::Node(name) => name,
            Self::LoadBalancers => "load balancers",
        }
    }

    /// Nodes come before Services: there are few of them, and what a node does not say keeps pods and
    /// volumes from moving. So a flood of Services does not hold them up.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        match self {
            Self::Service(_) => Priority::Normal,
            Self::Node(_) => Priority::High,
            Self::LoadBalancers => Priority::Urgent,
        }
    }
}

/// Whom these changes concern, one after the other, and how soon.
#[must_use]
pub fn triggered(state: &State, changes: &[Change]) -> Vec<(Key, Priority)> {
    let keys = changes.iter().flat_map(|change| match change {
        Change::Lost => with(balanced(state), Priority::Urgent),
        _ => with(of(state, change), Priority::Normal),
    });
    keys.collect()
}

fn with(keys: Vec<Key>, at_least: Priority) -> Vec<(Key, Priority)> {
    let all = keys.into_iter();
    all.map(|key| {
        let priority = key.priority().min(at_least);
        (key, priority)
    })
    .collect()
}

/// Every Service that has a load balancer of ours, or may have one any moment. Of thousands that wait for one,
/// or cannot be mapped, none: endpoints of what will be made are those that there are by then.
#[must_use]
pub fn balanced(state: &State) -> Vec<Key> {
    let is_ours = |uid: &&String| {
        let service = state.service(uid);
        service.is_some_and(|service| {
            desired_load_balancer(service, state.settings()) == DesiredLoadBalancer::Ours
        })
    };
    let ours = state.balanced().into_iter().filter(is_ours);
    ours.map(|uid| Key::Service(uid.clone())).collect()
}

fn of(state: &State, change: &Change) -> Vec<Key> {
    match change {
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
                .filter(|(name, n)| n.machine() == Some(machine.as_str()) || ***name == **machine);
            on_it.map(|(name, _)| Key::Node(name.to_string())).collect()
        }
        Change::Targets | Change::Lost => vec![Key::LoadBalancers],
        Change::Room => state.admissible().into_iter().map(Key::Service).collect(),
    }
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
