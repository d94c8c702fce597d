//! What a loop does with what it saw: as the stock client decides, with its defaults, as far as tests
//! need it (one pool grows per loop, that which takes most of the pods; no expander, no disruption
//! budgets, no limits of the cluster).
//!
//! Invariant: pure. Machines that went wrong come first, and nothing is scaled in a loop that tidied
//! up; what is to go has been unneeded, or missing, for as long as the group's options say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::autoscaler::Instance;
use proto::autoscaler::instance_status::InstanceState;

use crate::cluster::{Amounts, Node, Pod, SCALE_DOWN_DISABLED};
use crate::observe::{Group, Loop};
use crate::protocol::FakeReason;

/// How long a group that could not grow is left alone.
pub const BACKOFF: Duration = Duration::from_secs(300);
/// Most empty nodes that go at once.
const MOST_EMPTY: usize = 10;

/// One thing to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Action {
    /// A group gets so many machines more.
    Increase {
        /// Its id.
        group: String,
        /// Above 0.
        delta: i32,
    },
    /// What was asked for and does not come is no longer asked for.
    Decrease {
        /// Its id.
        group: String,
        /// Below 0.
        delta: i32,
    },
    /// Machines go that are no nodes.
    Remove {
        /// Their group's id.
        group: String,
        /// Ids of the instances.
        instances: Vec<String>,
        /// Why.
        reason: FakeReason,
    },
    /// Nodes go: they are tainted, cordoned and drained first.
    Drain {
        /// Their group's id.
        group: String,
        /// Names of the nodes.
        nodes: Vec<String>,
    },
}

/// Everything that a loop saw.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Since the client began.
    pub now: Duration,
    /// What the provider said.
    pub provider: &'a Loop,
    /// Nodes of the tenant cluster.
    pub nodes: &'a [Node],
    /// Its pods, but those that have ended or are going.
    pub pods: &'a [Pod],
}

/// What is known from one loop to the next: since when something is so.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    unregistered: BTreeMap<String, Duration>,
    unneeded: BTreeMap<String, Duration>,
    too_small: BTreeMap<String, Duration>,
    backed_off: BTreeMap<String, Duration>,
}

impl Memory {
    /// A group could not grow; it is left alone for [`BACKOFF`].
    pub fn back_off(&mut self, group: &str, now: Duration) {
        self.backed_off.insert(group.to_owned(), now + BACKOFF);
    }

    /// Takes note of what was seen; to be called once a loop, before [`plan`].
    pub fn note(&mut self, seen: &Seen<'_>) {
        let groups = &seen.provider.groups;
        let missing = groups.iter().flat_map(|group| missing(seen, group));
        let missing = missing.map(|instance| instance.id.clone());
        keep(&mut self.unregistered, missing, seen.now);
        keep(&mut self.unneeded, unneeded(seen), seen.now);
        let small = groups.iter().filter(|group| shortage(seen, group) > 0);
        let small = small.map(|group| group.id.clone());
        keep(&mut self.too_small, small, seen.now);
        self.backed_off.retain(|_, until| *until > seen.now);
        for group in groups.iter().filter(|g| g.instances.iter().any(is_broken)) {
            self.back_off(&group.id, seen.now);
        }
    }
}

/// Those that are still so keep their time; others are forgotten.
fn keep(
    since: &mut BTreeMap<String, Duration>,
    so: impl IntoIterator<Item = String>,
    now: Duration,
) {
    let before = std::mem::take(since);
    let time = |name: String| {
        let time = before.get(&name).copied().unwrap_or(now);
        (name, time)
    };
    *since = so.into_iter().map(time).collect();
}

/// What to do, in this order.
#[must_use]
pub fn plan(seen: &Seen<'_>, memory: &Memory) -> Vec<Action> {
    let tidy = [
        broken(seen),
        unregistered(seen, memory),
        sizes(seen, memory),
    ];
    if let Some(actions) = tidy.into_iter().find(|actions| !actions.is_empty()) {
        return actions;
    }
    let (rooms, waiting) = place_pending(seen);
    if !waiting.is_empty() {
        return grow(seen, memory, &waiting).into_iter().collect();
    }
    // Nothing goes while something is on its way.
    match rooms.iter().any(|room| room.upcoming) {
        true => Vec::new(),
        false => shrink(seen, memory),
    }
}

fn state(instance: &Instance) -> InstanceState {
    instance
        .status
        .as_ref()
        .map_or(InstanceState::Unspecified, |s| s.instance_state())
}

fn is_broken(instance: &Instance) -> bool {
    let status = instance.status.as_ref();
    state(instance) == InstanceState::Creating && status.is_some_and(|s| s.error_info.is_some())
}

/// Machines that are expected to become nodes and have not.
fn missing<'a>(seen: &'a Seen<'_>, group: &'a Group) -> impl Iterator<Item = &'a Instance> {
    let known: BTreeSet<_> = seen.nodes.iter().map(|n| n.provider_id.as_str()).collect();
    let instances = group.instances.iter();
    instances.filter(move |instance| {
        let going = state(instance) == InstanceState::Deleting;
        !going && !is_broken(instance) && !known.contains(instance.id.as_str())
    })
}

/// Nodes of a group that are not about to be deleted.
fn members<'a>(seen: &'a Seen<'_>, group: &'a Group) -> impl Iterator<Item = &'a Node> {
    let going: BTreeSet<_> = group
        .instances
        .iter()
        .filter(|instance| state(instance) == InstanceState::Deleting)
        .map(|instance| instance.id.as_str())
        .collect();
    let own = |node: &&Node| seen.provider.group_of.get(&node.name) == Some(&group.id);
    let nodes = seen.nodes.iter().filter(own);
    nodes.filter(move |node| !going.contains(node.provider_id.as_str()))
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// How many machines a group has less than it is to have.
fn shortage(seen: &Seen<'_>, group: &Group) -> i32 {
    let has = members(seen, group).count() + missing(seen, group).count();
    group.target - count(has)
}

fn broken(seen: &Seen<'_>) -> Vec<Action> {
    let groups = seen.provider.groups.iter();
    let remove = groups.map(|group| {
        let ids = group.instances.iter().filter(|i| is_broken(i));
        removal(group, ids.map(|i| i.id.clone()), FakeReason::CreateError)
    });
    remove.flatten().collect()
}

fn unregistered(seen: &Seen<'_>, memory: &Memory) -> Vec<Action> {
    let groups = seen.provider.groups.iter();
    let remove = groups.map(|group| {
        let late = missing(seen, group).filter(|instance| {
            let since = memory.unregistered.get(&instance.id);
            since.is_some_and(|since| seen.now - *since >= group.options.provision)
        });
        let most = usize::try_from(group.target - group.min).unwrap_or_default();
        let ids = late.take(most).map(|instance| instance.id.clone());
        removal(group, ids, FakeReason::Unregistered)
    });
    remove.flatten().collect()
}

fn removal(group: &Group, ids: impl Iterator<Item = String>, reason: FakeReason) -> Option<Action> {
    let instances: Vec<_> = ids.collect();
    (!instances.is_empty()).then(|| Action::Remove {
        group: group.id.clone(),
        instances,
        reason,
    })
}

fn sizes(seen: &Seen<'_>, memory: &Memory) -> Vec<Action> {
    let groups = seen.provider.groups.iter();
    let wrong = groups.filter(|group| {
        let since = memory.too_small.get(&group.id);
        since.is_some_and(|since| seen.now - *since >= group.options.provision)
    });
    wrong
        .map(|group| Action::Decrease {
            group: group.id.clone(),
            delta: -shortage(seen, group),
        })
        .collect()
}

/// A node and what is left of it.
struct Room<'a> {
    node: &'a Node,
    left: Amounts,
    /// It does not exist yet.
    upcoming: bool,
    /// A pod was put there.
    wanted: bool,
}

fn room(node: &Node, left: Amounts, upcoming: bool) -> Room<'_> {
    Room {
        node,
        left,
        upcoming,
        wanted: false,
    }
}

/// Puts a pod into the first room that it fits.
fn put(rooms: &mut [Room<'_>], pod: &Pod) -> bool {
    let fits = |room: &&mut Room<'_>| room.node.suits(pod) && room.left.has_room_for(&pod.requests);
    match rooms.iter_mut().find(fits) {
        Some(room) => {
            room.left.take(&pod.requests);
            room.wanted = true;
            true
        }
        None => false,
    }
}

/// What a node has left beside its pods.
fn left(seen: &Seen<'_>, node: &Node, counted: impl Fn(&Pod) -> bool) -> Amounts {
    let mut left = node.allocatable;
    let own = |pod: &&Pod| pod.node.as_ref() == Some(&node.name) && counted(pod);
    seen.pods
        .iter()
        .filter(own)
        .for_each(|pod| left.take(&pod.requests));
    left
}

/// The node that a group would get, and what pods of users would have of it: like one that it has,
/// else as the provider says.
fn shape<'a>(seen: &'a Seen<'_>, group: &'a Group) -> Option<(&'a Node, Amounts)> {
    match members(seen, group).find(|node| node.is_good()) {
        Some(node) => Some((node, left(seen, node, |pod| pod.of_daemon))),
        None => group.template.as_ref().map(|node| (node, node.allocatable)),
    }
}

/// Puts pods that wait into nodes that there are or will be. What is left waits for a new one.
fn place_pending<'a>(seen: &'a Seen<'_>) -> (Vec<Room<'a>>, Vec<&'a Pod>) {
    let good = seen.nodes.iter().filter(|node| node.is_good());
    let mut rooms: Vec<_> = good
        .map(|node| room(node, left(seen, node, |_| true), false))
        .collect();
    for group in &seen.provider.groups {
        let good = members(seen, group).filter(|node| node.is_good()).count();
        let coming = usize::try_from(group.target - count(good)).unwrap_or_default();
        if let Some((node, left)) = shape(seen, group) {
            rooms.extend((0..coming).map(|_| room(node, left, true)));
        }
    }
    let pending = seen.pods.iter().filter(|pod| pod.node.is_none());
    let waiting = pending.filter(|pod| !put(&mut rooms, pod)).collect();
    (rooms, waiting)
}

/// One group grows: that which takes most of the pods, with the fewest nodes.
fn grow(seen: &Seen<'_>, memory: &Memory, waiting: &[&Pod]) -> Option<Action> {
    let groups = seen.provider.groups.iter();
    let willing = groups.filter(|group| !memory.backed_off.contains_key(&group.id));
    let offers = willing.filter_map(|group| {
        let (node, left) = shape(seen, group)?;
        let most = usize::try_from(group.max - group.target).unwrap_or_default();
        let mut rooms: Vec<Room<'_>> = Vec::new();
        let mut taken = 0;
        for pod in waiting {
            if put(&mut rooms, pod) {
                taken += 1;
            } else if rooms.len() < most {
                let mut fresh = [room(node, left, true)];
                if put(&mut fresh, pod) {
                    taken += 1;
                    rooms.extend(fresh);
                }
            }
        }
        (taken > 0).then_some((taken, rooms.len(), group))
    });
    // Of equals the first: max_by_key gives the last.
    let offers: Vec<_> = offers.collect();
    let best = offers
        .iter()
        .rev()
        .max_by_key(|(taken, nodes, _)| (*taken, std::cmp::Reverse(*nodes)))?;
    Some(Action::Increase {
        group: best.2.id.clone(),
        delta: count(best.1),
    })
}

/// Pods that have to find another place when their node goes.
fn movers<'a>(seen: &'a Seen<'_>, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
    let own = |pod: &&Pod| pod.node.as_ref() == Some(&node.name) && !pod.of_daemon;
    seen.pods.iter().filter(own)
}

/// Nodes that the others can do without, each for itself, and that no waiting pod is about to use.
fn unneeded(seen: &Seen<'_>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (rooms, _) = place_pending(seen);
    let wanted = rooms.iter().filter(|room| room.wanted && !room.upcoming);
    let wanted: BTreeSet<_> = wanted.map(|room| room.node.name.as_str()).collect();
    for group in &seen.provider.groups {
        for node in members(seen, group).filter(|node| node.is_good()) {
            let disabled = node.annotations.get(SCALE_DOWN_DISABLED);
            let disabled = disabled.is_some_and(|value| value == "true");
            if disabled || wanted.contains(node.name.as_str()) {
                continue;
            }
            let left = left(seen, node, |_| true);
            let used = |left: i64, all: i64| 1.0 - left as f64 / (all.max(1)) as f64;
            let cpu = used(left.cpu, node.allocatable.cpu);
            let memory = used(left.memory, node.allocatable.memory);
            let idle = cpu.max(memory) < group.options.utilization;
            if idle && fits_elsewhere(seen, node) {
                found.insert(node.name.clone());
            }
        }
    }
    found
}

fn fits_elsewhere(seen: &Seen<'_>, node: &Node) -> bool {
    let others = seen
        .nodes
        .iter()
        .filter(|n| n.name != node.name && n.is_good());
    let mut rooms: Vec<_> = others
        .map(|other| room(other, left(seen, other, |_| true), false))
        .collect();
    movers(seen, node).all(|pod| !pod.fixed && put(&mut rooms, pod))
}

/// Empty nodes go together, others one at a time.
fn shrink(seen: &Seen<'_>, memory: &Memory) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut with_pods = None;
    for group in &seen.provider.groups {
        let most = usize::try_from(group.target - group.min).unwrap_or_default();
        let due = members(seen, group).filter(|node| {
            let since = memory.unneeded.get(&node.name);
            since.is_some_and(|since| seen.now - *since >= group.options.unneeded)
        });
        let is_empty = |node: &&Node| movers(seen, node).next().is_none();
        let (empty, used): (Vec<_>, Vec<_>) = due.partition(is_empty);
        let drain = |nodes: Vec<String>| Action::Drain {
            group: group.id.clone(),
            nodes,
        };
        let empty = empty.into_iter().take(most.min(MOST_EMPTY));
        let empty: Vec<_> = empty.map(|node| node.name.clone()).collect();
        if !empty.is_empty() {
            actions.push(drain(empty));
        } else if let Some(node) = used.first().filter(|_| most > 0) {
            with_pods.get_or_insert_with(|| drain(vec![node.name.clone()]));
        }
    }
    match actions.is_empty() {
        true => with_pods.into_iter().collect(),
        false => actions,
    }
}

#[cfg(test)]
mod tests;
