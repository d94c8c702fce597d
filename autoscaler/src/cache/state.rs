//! State of the cache: pools, machines and nodes of one tenant cluster, and questions to them. Pure.
//!
//! Invariant: of two states of one object the newer stays; what is gone takes nothing with it that
//! has its name by now.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::core::PartialObjectMeta;

use super::objects::{Machine, Node, Pool, Version};
use crate::settings::Settings;

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// NodePools, in the user's namespace.
    Pool,
    /// Machines, in the user's namespace.
    Machine,
    /// Nodes of the tenant cluster.
    Node,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pool, Self::Machine, Self::Node];
    /// Those without which nothing can be answered. A tenant's API that is away holds up nothing but
    /// what is kept right in it.
    pub const NEEDED: [Self; 2] = [Self::Pool, Self::Machine];
}

/// An object as a watch, or the answer to a write, tells it.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// A pool.
    Pool(Box<api::NodePool>),
    /// A machine.
    Machine(Box<api::Machine>),
    /// What a node is called and labelled.
    Node(Box<PartialObjectMeta<ApiNode>>),
}

/// What there is, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// NodePools of this tenant cluster.
    pub pools: BTreeMap<String, Pool>,
    /// Machines of this tenant cluster.
    pub machines: BTreeMap<String, Machine>,
    /// Nodes of this tenant cluster.
    pub nodes: BTreeMap<String, Node>,
    /// Names of the machines of each pool.
    members: BTreeMap<String, BTreeSet<String>>,
}

impl State {
    /// The machines of a pool, those that go included.
    pub fn members(&self, pool: &str) -> impl Iterator<Item = &Machine> {
        let names = self.members.get(pool).into_iter().flatten();
        names.filter_map(|name| self.machines.get(name))
    }

    /// What is remembered of an object; none of one of another tenant cluster.
    pub(super) fn read(&self, event: &WatchEvent, settings: &Settings) -> Option<Object> {
        match event {
            WatchEvent::Pool(pool) => (pool.spec.cluster_name == settings.cluster_name)
                .then(|| Object::Pool(Box::new(Pool::read(pool)))),
            WatchEvent::Machine(machine) => {
                Machine::read(machine, &settings.cluster_uid).map(Object::Machine)
            }
            WatchEvent::Node(node) => Some(Object::Node(Node::read(&node.metadata))),
        }
    }

    /// Remembers an object unless a newer state of it is known; its kind and name.
    pub(super) fn put(&mut self, object: Object) -> (Kind, String) {
        match object {
            Object::Pool(pool) => (Kind::Pool, put(&mut self.pools, pool.name.clone(), *pool)),
            Object::Machine(machine) => {
                let members = self.members.entry(machine.pool.clone()).or_default();
                members.insert(machine.name.clone());
                let name = machine.name.clone();
                (Kind::Machine, put(&mut self.machines, name, machine))
            }
            Object::Node(node) => (Kind::Node, put(&mut self.nodes, node.name.clone(), node)),
        }
    }

    /// Forgets an object that is gone.
    pub(super) fn take(&mut self, gone: &Object) {
        match gone {
            Object::Pool(pool) => take(&mut self.pools, &pool.name, &**pool),
            Object::Machine(machine) => take(&mut self.machines, &machine.name, machine),
            Object::Node(node) => take(&mut self.nodes, &node.name, node),
        }
        self.tidy();
    }

    /// Forgets all others of a kind.
    pub(super) fn retain(&mut self, kind: Kind, stays: impl Fn(&str) -> bool) {
        match kind {
            Kind::Pool => self.pools.retain(|name, _| stays(name)),
            Kind::Machine => self.machines.retain(|name, _| stays(name)),
            Kind::Node => self.nodes.retain(|name, _| stays(name)),
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        let machines = &self.machines;
        self.members.retain(|pool, names| {
            names.retain(|name| machines.get(name).is_some_and(|m| m.pool == *pool));
            !names.is_empty()
        });
    }
}

/// What is remembered of one object.
pub(super) enum Object {
    Pool(Box<Pool>),
    Machine(Machine),
    Node(Node),
}

trait Versioned {
    fn version(&self) -> &Version;
}

macro_rules! versioned {
    ($($kind:ty),*) => {
        $(impl Versioned for $kind {
            fn version(&self) -> &Version {
                &self.version
            }
        })*
    };
}

versioned!(Pool, Machine, Node);

/// Keeps the newer of two; the name is given back.
fn put<T: Versioned>(all: &mut BTreeMap<String, T>, name: String, new: T) -> String {
    let newer = |old: &T| old.version().number <= new.version().number;
    if all.get(&name).is_none_or(newer) {
        all.insert(name.clone(), new);
    }
    name
}

/// Takes away what is gone, unless one of the same name is there already.
fn take<T: Versioned>(all: &mut BTreeMap<String, T>, name: &str, gone: &T) {
    let same = |old: &T| old.version().uid == gone.version().uid;
    if all.get(name).is_some_and(same) {
        all.remove(name);
    }
}
