//! What the watches told, summed up: what is left on each node, and of each quota.
//!
//! Invariant: the same objects make the same cache, in whatever order they came and however often;
//! of a pod 48 bytes are kept.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kube::ResourceExt;

use super::kinds;
use super::read::{self, Amount, Node, Quota};

/// What is watched.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// Nodes.
    Node,
    /// Pods.
    Pod,
    /// ResourceQuotas.
    Quota,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Node, Self::Pod, Self::Quota];
}

/// An object as a watch tells it.
#[derive(Clone, Debug)]
pub enum WatchedObject {
    /// A node.
    Node(kinds::Node),
    /// A pod.
    Pod(kinds::Pod),
    /// A quota.
    Quota(kinds::ResourceQuota),
}

/// A node, and what its pods take. Pods may be told of before their node is.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) node: Option<Node>,
    pub(super) taken: Amount,
    pub(super) pods: i64,
}

/// A pod on a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    node: Arc<str>,
    takes: Amount,
}

/// Namespace and name.
type Key = (String, String);

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    asked: BTreeSet<String>,
    slots: BTreeMap<Arc<str>, Slot>,
    pods: HashMap<u128, Kept>,
    quotas: BTreeMap<Key, Quota>,
    listed: BTreeSet<Kind>,
    listing: BTreeMap<Kind, Named>,
}

/// What was named since a watch began anew.
#[derive(Clone, Debug, Default)]
struct Named {
    nodes: HashSet<String>,
    pods: HashSet<u128>,
    quotas: HashSet<Key>,
}

impl Cache {
    /// Nothing seen yet; of nodes, these labels are kept.
    #[must_use]
    pub fn new(asked: BTreeSet<String>) -> Self {
        Self {
            asked,
            ..Self::default()
        }
    }

    /// Whether everything has been listed once.
    #[must_use]
    pub fn is_listed(&self) -> bool {
        self.listed.len() == Kind::ALL.len()
    }

    /// Nodes and pods that are kept.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.nodes().count(), self.pods.len())
    }

    /// Whether it is known which nodes have this label.
    pub(super) fn keeps(&self, label: &str) -> bool {
        self.asked.contains(label)
    }

    /// The nodes that there are.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&Node, &Slot)> {
        let slots = self.slots.values();
        slots.filter_map(|slot| Some((slot.node.as_ref()?, slot)))
    }

    /// The quotas of a namespace, by name.
    pub(super) fn quotas(&self, namespace: &str) -> impl Iterator<Item = (&str, &Quota)> {
        let from = (namespace.to_owned(), String::new());
        let found = self.quotas.range(from..);
        let found = found.take_while(move |((ns, _), _)| ns == namespace);
        found.map(|((_, name), quota)| (name.as_str(), quota))
    }

    /// A watch begins to list a kind anew.
    pub fn begin(&mut self, kind: Kind) {
        self.listing.insert(kind, Named::default());
    }

    /// A watch has listed a kind: what it did not name is gone.
    pub fn end(&mut self, kind: Kind) {
        let Some(named) = self.listing.remove(&kind) else {
            return;
        };
        match kind {
            Kind::Node => {
                let gone = |name: &&Arc<str>| !named.nodes.contains(&***name);
                let gone: Vec<_> = self.slots.keys().filter(gone).cloned().collect();
                for name in gone {
                    self.set_node(&name, None);
                }
            }
            Kind::Pod => {
                let gone = self.pods.keys().filter(|uid| !named.pods.contains(uid));
                let gone: Vec<_> = gone.copied().collect();
                for uid in gone {
                    self.set_pod(uid, None);
                }
            }
            Kind::Quota => self.quotas.retain(|key, _| named.quotas.contains(key)),
        }
        self.listed.insert(kind);
    }

    /// An object is there, or changed. True when that matters.
    pub fn apply(&mut self, seen: &WatchedObject) -> bool {
        match seen {
            WatchedObject::Node(node) => {
                let name = node.name_any();
                let read = Node::read(node, &self.asked);
                if let Some(named) = self.listing.get_mut(&Kind::Node) {
                    named.nodes.insert(name.clone());
                }
                self.set_node(&name, Some(read))
            }
            WatchedObject::Pod(pod) => {
                let Some(uid) = uid(pod) else { return false };
                if let Some(named) = self.listing.get_mut(&Kind::Pod) {
                    named.pods.insert(uid);
                }
                self.set_pod(uid, read::taken(pod))
            }
            WatchedObject::Quota(quota) => {
                let key = key(quota);
                if let Some(named) = self.listing.get_mut(&Kind::Quota) {
                    named.quotas.insert(key.clone());
                }
                self.set_quota(key, read::quota(quota))
            }
        }
    }

    /// An object is gone. True when that matters.
    pub fn delete(&mut self, seen: &WatchedObject) -> bool {
        match seen {
            WatchedObject::Node(node) => self.set_node(&node.name_any(), None),
            WatchedObject::Pod(pod) => uid(pod).is_some_and(|uid| self.set_pod(uid, None)),
            WatchedObject::Quota(quota) => self.set_quota(key(quota), None),
        }
    }

    fn set_node(&mut self, name: &str, node: Option<Node>) -> bool {
        let Some(slot) = self.slots.get_mut(name) else {
            let new = node.is_some();
            if new {
                let slot = Slot {
                    node,
                    ..Slot::default()
                };
                self.slots.insert(Arc::from(name), slot);
            }
            return new;
        };
        let changed = slot.node != node;
        slot.node = node;
        if slot.node.is_none() && slot.pods == 0 {
            self.slots.remove(name);
        }
        changed
    }

    fn set_pod(&mut self, uid: u128, taken: Option<(&str, Amount)>) -> bool {
        let before = self.pods.get(&uid);
        let same = match (before, taken) {
            (Some(kept), Some((node, takes))) => *kept.node == *node && kept.takes == takes,
            (None, None) => true,
            _ => false,
        };
        if same {
            return false;
        }
        if let Some(Kept { node, takes }) = self.pods.remove(&uid)
            && let Some(slot) = self.slots.get_mut(&node)
        {
            slot.taken = slot.taken.minus(takes);
            slot.pods -= 1;
            if slot.node.is_none() && slot.pods == 0 {
                self.slots.remove(&node);
            }
        }
        if let Some((name, takes)) = taken {
            let node = match self.slots.get_key_value(name) {
                Some((node, _)) => Arc::clone(node),
                None => Arc::from(name),
            };
            let slot = self.slots.entry(Arc::clone(&node)).or_default();
            slot.taken = slot.taken.plus(takes);
            slot.pods += 1;
            self.pods.insert(uid, Kept { node, takes });
        }
        true
    }

    fn set_quota(&mut self, key: Key, quota: Option<Quota>) -> bool {
        let before = match &quota {
            Some(quota) => self.quotas.insert(key, quota.clone()),
            None => self.quotas.remove(&key),
        };
        before != quota
    }
}

fn key(quota: &kinds::ResourceQuota) -> Key {
    (quota.namespace().unwrap_or_default(), quota.name_any())
}

/// A UID is a UUID: API servers make them so.
fn uid(pod: &kinds::Pod) -> Option<u128> {
    let text = pod.metadata.uid.as_deref()?;
    u128::from_str_radix(&text.replace('-', ""), 16).ok()
}
