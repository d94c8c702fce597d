//! Queue of control planes that start or are rolled out: how many at once, and who is next.
//!
//! A kube-apiserver needs two to three CPU-seconds to start. More of them at once than there are
//! cores only slow each other down, until probes kill servers that are merely slow and nothing
//! comes up any more. So they are admitted one after another: users' namespaces take turns, and
//! within a namespace the oldest goes first, so that whoever asks for fifty tenant clusters holds up
//! nobody but himself.
//!
//! What the operator wants of all tenant clusters (it is another one than before, or has another
//! configuration) has places of its own, and comes when nobody starts or is changed by its user. Such a
//! place is kept until that tenant cluster works with its new templates: where these are bad, the first
//! few are broken by them and no more. Where there is a FleetPolicy, it says who of them may begin ([`Gate`]).
//!
//! Invariant: never more than `limit` running starts and changes, nor more than `fleet_limit` of the
//! fleet; of those that wait the namespace goes first that had its turn least lately, and its oldest; a
//! start or change that takes longer than [`PATIENCE`] gives its place up, so that one broken tenant
//! cluster cannot hold up the others for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use api::TenantCluster;
use jiff::Timestamp;
use kube::ResourceExt as _;
use tenant_cp::rollout::order::Cause;

/// How long a start or a change keeps its place.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// What a place is for, in the order of being served.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Purpose {
    /// A first start.
    Start,
    /// A rollout.
    Rollout(Cause),
}

impl Purpose {
    fn is_of_the_fleet(self) -> bool {
        self == Self::Rollout(Cause::Fleet)
    }
}

/// Who waits, in the order of waiting within one namespace: what for, creation, then UID, so that two of
/// the same second have an order too.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Turn {
    /// What for.
    pub purpose: Purpose,
    /// When the tenant cluster was created.
    pub created: Timestamp,
    /// Its UID.
    pub uid: String,
    /// The user's namespace.
    pub namespace: String,
}

impl Turn {
    /// That of a TenantCluster.
    #[must_use]
    pub fn of(cluster: &TenantCluster, purpose: Purpose, now: Timestamp) -> Self {
        let created = cluster.metadata.creation_timestamp.as_ref();
        Self {
            purpose,
            created: created.map_or(now, |created| created.0),
            uid: cluster.identity_uid().to_owned(),
            namespace: cluster.namespace().unwrap_or_default(),
        }
    }
}

/// The queue. Pure but for the lock; time comes from the caller.
#[derive(Debug)]
pub struct RolloutQueue {
    limit: usize,
    fleet_limit: usize,
    /// Among how many replicas both are shared.
    shares: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    running: BTreeMap<String, Place>,
    waiting: BTreeSet<Turn>,
    /// Number of the last start of each namespace, while anybody starts or waits: otherwise there is
    /// nobody to be fair to.
    served: BTreeMap<String, u64>,
    starts: u64,
    /// Who was looked at by this process, until all were: before that nobody knows who is being rolled out,
    /// and two operators in a row would roll out twice as many as they may.
    seen: Option<BTreeSet<String>>,
    gate: Gate,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    purpose: Purpose,
    since: Timestamp,
    /// It took too long, and its place is somebody else's.
    given_up: bool,
}

/// Who of the fleet may begin, and how many are under way at most.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Gate {
    /// Whether a FleetPolicy says so: who waits then waits for that one.
    pub by_policy: bool,
    /// UIDs of those that may begin; none where all may.
    pub admitted: Option<BTreeSet<String>>,
    /// UIDs of those that have begun, whoever was the leader then: they hold a place, and go on.
    pub begun: BTreeSet<String>,
    /// Most that are under way; none for the queue's own limit.
    pub most: Option<usize>,
}

impl Gate {
    fn admits(&self, uid: &str) -> bool {
        let admitted = self.admitted.as_ref();
        admitted.is_none_or(|admitted| admitted.contains(uid))
    }
}

/// How many have a place, and how many wait.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Starts and changes with a place.
    pub running: usize,
    /// Starts and changes that wait.
    pub waiting: usize,
    /// Rollouts of the fleet with a place.
    pub fleet_running: usize,
    /// Rollouts of the fleet that wait.
    pub fleet_waiting: usize,
}

/// What a tenant cluster that wants to start or change is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// Go on now.
    Go,
    /// Others start or wait before this one. How many changes all the time: whoever said so in a
    /// status would write it for all that wait whenever one has started.
    Wait,
    /// A FleetPolicy says when it begins, or said so and is gone.
    Held,
}

impl RolloutQueue {
    /// At most so many (at least one) of each at once.
    #[must_use]
    pub fn new(limit: usize, fleet_limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            fleet_limit: fleet_limit.max(1),
            shares: AtomicUsize::new(1),
            state: Mutex::new(State {
                running: BTreeMap::new(),
                waiting: BTreeSet::new(),
                served: BTreeMap::new(),
                starts: 0,
                seen: Some(BTreeSet::new()),
                gate: Gate::default(),
            }),
        }
    }

    /// So many replicas share the places: each has its part of them, and one at least.
    pub fn share(&self, replicas: usize) {
        self.shares.store(replicas.max(1), Ordering::Relaxed);
    }

    /// Starts and changes, and rollouts of the fleet, at once in this process.
    fn limits(&self) -> (usize, usize) {
        let shares = self.shares.load(Ordering::Relaxed);
        let part = |limit: usize| (limit / shares).max(1);
        (part(self.limit), part(self.fleet_limit))
    }

    /// Tenant clusters come to this process from another one, and are looked at before the fleet goes on: all but `others`
    /// (UIDs), as far as these were.
    pub fn look_at_others_than(&self, others: Vec<String>) {
        let mut state = self.lock();
        if state.seen.is_none() {
            state.seen = Some(others.into_iter().collect());
        }
    }

    /// Asks for a place. Asking again keeps the place, and asking for something that is served sooner
    /// makes it that.
    pub fn ask(&self, turn: &Turn, now: Timestamp) -> Answer {
        let mut state = self.lock();
        state.expire(now);
        if state.running.contains_key(&turn.uid) {
            return Answer::Go;
        }
        state.wait(turn);
        let is_of_the_fleet = turn.purpose.is_of_the_fleet();
        if is_of_the_fleet && state.gate.begun.contains(&turn.uid) {
            state.start(turn, now);
            return Answer::Go;
        }
        let (limit, fleet_limit) = self.limits();
        let next = state.next(limit, fleet_limit);
        let Some(next) = next.iter().find(|next| next.uid == turn.uid) else {
            let gate = &state.gate;
            let is_held = is_of_the_fleet && (gate.by_policy || !gate.admits(&turn.uid));
            return match is_held {
                true => Answer::Held,
                false => Answer::Wait,
            };
        };
        state.start(next, now);
        Answer::Go
    }

    /// Who of the fleet may begin from now on. Who has a place keeps it.
    pub fn gate(&self, gate: Gate) {
        self.lock().gate = gate;
    }

    /// UIDs of those of the fleet that have a place in this process: what the status says of them may be seen later.
    #[must_use]
    pub fn fleet_running(&self) -> BTreeSet<String> {
        let state = self.lock();
        let running = state.running.iter();
        let running = running.filter(|(_, place)| place.purpose.is_of_the_fleet());
        running.map(|(uid, _)| uid.clone()).collect()
    }

    /// Takes in what is under way already: after a restart of the operator.
    pub fn resume(&self, uid: &str, purpose: Purpose, since: Timestamp) {
        let mut state = self.lock();
        state.leave(uid);
        let place = Place {
            purpose,
            since,
            given_up: false,
        };
        state.running.entry(uid.to_owned()).or_insert(place);
    }

    /// A tenant cluster was looked at, and has asked for what it needs. True when the last of `all` (UIDs of
    /// those that there are) was: all that is under way is known now, and the fleet can go on. Who is created
    /// later is nobody's rollout.
    pub fn saw(&self, uid: &str, all: impl FnOnce() -> Vec<String>) -> bool {
        let mut state = self.lock();
        let Some(seen) = &mut state.seen else {
            return false;
        };
        let is_last = seen.insert(uid.to_owned()) && all().iter().all(|uid| seen.contains(uid));
        if is_last {
            state.seen = None;
        }
        is_last
    }

    /// Gives the place back; true when somebody waits who may now be next.
    pub fn done(&self, uid: &str) -> bool {
        let mut state = self.lock();
        let held = state.running.remove(uid).is_some();
        let waited = state.waiting.len();
        state.leave(uid);
        (held || waited != state.waiting.len()) && !state.waiting.is_empty()
    }

    /// Gives the place of a first start back, and leaves that of a rollout; true as in [`Self::done`].
    pub fn started(&self, uid: &str) -> bool {
        let place = self.lock().running.get(uid).copied();
        place.is_some_and(|place| place.purpose == Purpose::Start) && self.done(uid)
    }

    /// UIDs of those whose turn it is now.
    #[must_use]
    pub fn next(&self) -> Vec<String> {
        let (limit, fleet_limit) = self.limits();
        let next = self.lock().next(limit, fleet_limit);
        next.into_iter().map(|turn| turn.uid).collect()
    }

    /// Running and waiting, for the admin port and metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let state = self.lock();
        let fleet_waiting = state.waiting.iter();
        let fleet_waiting = fleet_waiting
            .filter(|turn| turn.purpose.is_of_the_fleet())
            .count();
        Counts {
            running: state.busy(),
            waiting: state.waiting.len() - fleet_waiting,
            fleet_running: state.fleet_busy(),
            fleet_waiting,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // The state is valid after any single statement, so a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A start begins anew after that; a change is on its way and only has no place any more.
    fn expire(&mut self, now: Timestamp) {
        let patience = jiff::SignedDuration::try_from(PATIENCE).unwrap_or_default();
        for place in self.running.values_mut() {
            let is_late = now.duration_since(place.since) >= patience;
            place.given_up |= is_late && !place.purpose.is_of_the_fleet();
        }
        self.running
            .retain(|_, place| !place.given_up || place.purpose != Purpose::Start);
    }

    fn busy(&self) -> usize {
        let places = self.running.values();
        places
            .filter(|place| !place.given_up && !place.purpose.is_of_the_fleet())
            .count()
    }

    fn fleet_busy(&self) -> usize {
        let running = self.running.iter();
        let running = running.filter(|(_, place)| place.purpose.is_of_the_fleet());
        let begun = self.gate.begun.iter();
        let all: BTreeSet<_> = running.map(|(uid, _)| uid).chain(begun).collect();
        all.len()
    }

    /// Keeps whatever is served sooner.
    fn wait(&mut self, turn: &Turn) {
        let waits = self.waiting.iter().find(|other| other.uid == turn.uid);
        if waits.is_none_or(|waits| turn < waits) {
            self.waiting.retain(|other| other.uid != turn.uid);
            self.waiting.insert(turn.clone());
        }
    }

    /// Whose turn it is now: as many as there are free places.
    fn next(&self, limit: usize, fleet_limit: usize) -> Vec<Turn> {
        let (mut fleet, others): (Vec<_>, Vec<_>) = self
            .waiting
            .iter()
            .partition(|turn| turn.purpose.is_of_the_fleet());
        fleet.retain(|turn| self.gate.admits(&turn.uid));
        let fleet_limit = self.gate.most.unwrap_or(fleet_limit);
        match others.is_empty() {
            false => self.in_turns(others, limit.saturating_sub(self.busy())),
            true if self.seen.is_some() => Vec::new(),
            true => self.in_turns(fleet, fleet_limit.saturating_sub(self.fleet_busy())),
        }
    }

    fn in_turns(&self, waiting: Vec<&Turn>, places: usize) -> Vec<Turn> {
        let mut lines: BTreeMap<&str, Vec<&Turn>> = BTreeMap::new();
        for turn in waiting.into_iter().rev() {
            lines.entry(&turn.namespace).or_default().push(turn);
        }
        let mut served = self.served.clone();
        let mut starts = self.starts;
        let mut next = Vec::new();
        while next.len() < places {
            let heads = lines.values().filter_map(|line| line.last().copied());
            // One that never had its turn comes first; among those the oldest.
            let Some(head) = heads.min_by_key(|turn| (served.get(&turn.namespace), *turn)) else {
                break;
            };
            starts += 1;
            served.insert(head.namespace.clone(), starts);
            next.push(head.clone());
            lines.entry(&head.namespace).or_default().pop();
        }
        next
    }

    fn start(&mut self, turn: &Turn, now: Timestamp) {
        let place = Place {
            purpose: turn.purpose,
            since: now,
            given_up: false,
        };
        self.running.insert(turn.uid.clone(), place);
        self.starts += 1;
        self.served.insert(turn.namespace.clone(), self.starts);
        self.leave(&turn.uid);
    }

    /// Waits no longer.
    fn leave(&mut self, uid: &str) {
        self.waiting.retain(|turn| turn.uid != uid);
        if self.waiting.is_empty() && self.running.is_empty() {
            self.served.clear();
        }
    }
}

#[cfg(test)]
mod tests;
