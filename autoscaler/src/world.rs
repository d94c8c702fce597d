//! Everything that the watches told: pools, machines and nodes of one tenant cluster.
//!
//! Invariant: nothing is decided here. What an API answered to a write is believed until a watch
//! tells something newer; and nothing is done from here before every watch has been through once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::core::PartialObjectMeta;
use tokio::sync::watch;

use crate::model::{Machine, Node, Pool, Version};
use crate::settings::Settings;

/// Pause of [`World::keep`] after a failure.
const PAUSE: Duration = Duration::from_secs(2);

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

/// An object as a watch tells it.
#[derive(Clone, Debug)]
pub enum Seen {
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

    fn read(&self, seen: &Seen, settings: &Settings) -> Option<Read> {
        match seen {
            Seen::Pool(pool) => (pool.spec.cluster_name == settings.cluster_name)
                .then(|| Read::Pool(Pool::read(pool))),
            Seen::Machine(machine) => {
                Machine::read(machine, &settings.cluster_uid).map(Read::Machine)
            }
            Seen::Node(node) => Some(Read::Node(Node::read(&node.metadata))),
        }
    }

    fn put(&mut self, read: Read) -> (Kind, String) {
        match read {
            Read::Pool(pool) => (Kind::Pool, put(&mut self.pools, pool.name.clone(), pool)),
            Read::Machine(machine) => {
                let members = self.members.entry(machine.pool.clone()).or_default();
                members.insert(machine.name.clone());
                let name = machine.name.clone();
                (Kind::Machine, put(&mut self.machines, name, machine))
            }
            Read::Node(node) => (Kind::Node, put(&mut self.nodes, node.name.clone(), node)),
        }
    }

    fn take(&mut self, gone: &Read) {
        match gone {
            Read::Pool(pool) => take(&mut self.pools, &pool.name, pool),
            Read::Machine(machine) => take(&mut self.machines, &machine.name, machine),
            Read::Node(node) => take(&mut self.nodes, &node.name, node),
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

enum Read {
    Pool(Pool),
    Machine(Machine),
    Node(Node),
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    /// Names seen since a watch began anew.
    listing: BTreeMap<Kind, BTreeSet<String>>,
    synced: BTreeSet<Kind>,
}

/// Shared by watches, calls and keepers.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    inner: Mutex<Inner>,
    changes: watch::Sender<u64>,
}

impl World {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            inner: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }

    /// What is not listed yet of what is needed.
    #[must_use]
    pub fn missing(&self) -> Vec<Kind> {
        let inner = self.lock();
        let needed = Kind::NEEDED.into_iter();
        needed.filter(|kind| !inner.synced.contains(kind)).collect()
    }

    /// Waits until everything that is needed has been listed once.
    pub async fn listed(&self) {
        let mut changes = self.changes.subscribe();
        // The sender is ours, so waiting cannot fail.
        let _ = changes.wait_for(|_| self.missing().is_empty()).await;
    }

    /// Whether a kind has been listed once.
    #[must_use]
    pub fn has_listed(&self, kind: Kind) -> bool {
        self.lock().synced.contains(&kind)
    }

    /// Looks at what there is.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock().state)
    }

    /// Told after every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Does what there is to do, now and after every change, and what failed again after 2 seconds.
    /// Ends never.
    pub async fn keep<T, F: Future<Output = bool>>(
        &self,
        to_do: impl Fn(&State) -> Vec<T>,
        succeeds: impl Fn(T) -> F,
    ) {
        let mut changes = self.changes();
        self.listed().await;
        loop {
            changes.mark_unchanged();
            let mut failed = false;
            for one in self.look(&to_do) {
                failed |= !succeeds(one).await;
            }
            if failed {
                tokio::time::sleep(PAUSE).await;
            } else {
                // The sender is ours, so waiting cannot fail.
                let _ = changes.changed().await;
            }
        }
    }

    /// A watch begins to list a kind anew.
    pub fn begin(&self, kind: Kind) {
        self.lock().listing.insert(kind, BTreeSet::new());
    }

    /// A watch has listed a kind; what it did not name is gone.
    pub fn end(&self, kind: Kind) {
        let mut inner = self.lock();
        let Inner {
            state,
            listing,
            synced,
        } = &mut *inner;
        let listed = listing.remove(&kind).unwrap_or_default();
        match kind {
            Kind::Pool => state.pools.retain(|name, _| listed.contains(name)),
            Kind::Machine => state.machines.retain(|name, _| listed.contains(name)),
            Kind::Node => state.nodes.retain(|name, _| listed.contains(name)),
        }
        state.tidy();
        synced.insert(kind);
        drop(inner);
        self.tell();
    }

    /// An object is there, or changed.
    pub fn apply(&self, seen: &Seen) {
        let mut inner = self.lock();
        let Inner { state, listing, .. } = &mut *inner;
        let Some(read) = state.read(seen, &self.settings) else {
            return;
        };
        let (kind, name) = state.put(read);
        if let Some(listed) = listing.get_mut(&kind) {
            listed.insert(name);
        }
        drop(inner);
        self.tell();
    }

    /// An object is gone.
    pub fn delete(&self, seen: &Seen) {
        let mut inner = self.lock();
        let state = &mut inner.state;
        if let Some(read) = state.read(seen, &self.settings) {
            state.take(&read);
        }
        drop(inner);
        self.tell();
    }

    fn tell(&self) {
        self.changes
            .send_modify(|number| *number = number.wrapping_add(1));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
