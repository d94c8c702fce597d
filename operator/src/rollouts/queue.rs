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
//! few are broken by them and no more.
//!
//! Invariant: never more than `limit` running starts and changes, nor more than `fleet_limit` of the
//! fleet; of those that wait the namespace goes first that had its turn least lately, and its oldest; a
//! start or change that takes longer than [`PATIENCE`] gives its place up, so that one broken tenant
//! cluster cannot hold up the others for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
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

/// The queue. Pure but for the lock; time comes from the caller.
#[derive(Debug)]
pub struct RolloutQueue {
    limit: usize,
    fleet_limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<String, Place>,
    waiting: BTreeSet<Turn>,
    /// Number of the last start of each namespace, while anybody starts or waits: otherwise there is
    /// nobody to be fair to.
    served: BTreeMap<String, u64>,
    starts: u64,
    /// Whether all rollouts that were under way are known.
    fleet_is_known: bool,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    purpose: Purpose,
    since: Timestamp,
    /// It took too long, and its place is somebody else's.
    given_up: bool,
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
}

impl RolloutQueue {
    /// At most so many (at least one) of each at once.
    #[must_use]
    pub fn new(limit: usize, fleet_limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            fleet_limit: fleet_limit.max(1),
            state: Mutex::default(),
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
        let next = state.next(self.limit, self.fleet_limit);
        let Some(turn) = next.iter().find(|next| next.uid == turn.uid) else {
            return Answer::Wait;
        };
        state.start(turn, now);
        Answer::Go
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

    /// All that is under way was taken in, so that the fleet can go on. True the first time.
    pub fn know_fleet(&self) -> bool {
        !std::mem::replace(&mut self.lock().fleet_is_known, true)
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
        let next = self.lock().next(self.limit, self.fleet_limit);
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
            running: state.busy(false),
            waiting: state.waiting.len() - fleet_waiting,
            fleet_running: state.busy(true),
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

    fn busy(&self, fleet: bool) -> usize {
        let places = self.running.values();
        places
            .filter(|place| !place.given_up && place.purpose.is_of_the_fleet() == fleet)
            .count()
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
        let (fleet, others): (Vec<_>, Vec<_>) = self
            .waiting
            .iter()
            .partition(|turn| turn.purpose.is_of_the_fleet());
        match others.is_empty() {
            false => self.in_turns(others, limit.saturating_sub(self.busy(false))),
            true if !self.fleet_is_known => Vec::new(),
            true => self.in_turns(fleet, fleet_limit.saturating_sub(self.busy(true))),
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
mod tests {
    use super::*;

    fn turn(second: i64, uid: &str) -> Turn {
        of("team-a", second, uid)
    }

    fn of(namespace: &str, second: i64, uid: &str) -> Turn {
        Turn {
            purpose: Purpose::Start,
            created: Timestamp::from_second(second).unwrap(),
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn oldest_goes_first_and_the_limit_holds() {
        let queue = RolloutQueue::new(1, 1);
        assert_eq!(queue.ask(&turn(1, "a"), at(10)), Answer::Go);
        assert_eq!(queue.ask(&turn(3, "c"), at(10)), Answer::Wait);
        assert_eq!(queue.ask(&turn(2, "b"), at(10)), Answer::Wait);
        assert_eq!(queue.ask(&turn(3, "c"), at(10)), Answer::Wait);
        assert!(queue.done("a"));
        assert_eq!(queue.next(), ["b"]);
        assert_eq!(queue.ask(&turn(3, "c"), at(11)), Answer::Wait);
        assert_eq!(queue.ask(&turn(2, "b"), at(11)), Answer::Go);
        assert_eq!(queue.ask(&turn(2, "b"), at(11)), Answer::Go);
    }

    #[test]
    fn a_start_that_hangs_gives_its_place_up() {
        let queue = RolloutQueue::new(1, 1);
        assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Go);
        assert_eq!(queue.ask(&turn(2, "b"), at(89)), Answer::Wait);
        assert_eq!(queue.ask(&turn(2, "b"), at(90)), Answer::Go);
    }

    #[test]
    fn a_deleted_one_no_longer_stands_in_the_way() {
        let queue = RolloutQueue::new(1, 1);
        assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Go);
        assert_eq!(queue.ask(&turn(2, "b"), at(0)), Answer::Wait);
        assert_eq!(queue.ask(&turn(3, "c"), at(0)), Answer::Wait);
        assert!(queue.done("b"));
        assert!(queue.done("a"));
        assert_eq!(queue.next(), ["c"]);
    }

    #[test]
    fn what_ran_before_a_restart_counts() {
        let queue = RolloutQueue::new(1, 1);
        queue.resume("old", Purpose::Start, at(0));
        assert_eq!(queue.ask(&turn(1, "a"), at(0)), Answer::Wait);
        let counts = queue.counts();
        assert_eq!((counts.running, counts.waiting), (1, 1));
    }

    /// Starts one after another whoever is next, until nobody waits.
    fn order(queue: &RolloutQueue, turns: &[Turn]) -> Vec<String> {
        let mut order = Vec::new();
        for second in 1.. {
            let going = turns.iter().find(|turn| {
                !order.contains(&turn.uid) && queue.ask(turn, at(second)) == Answer::Go
            });
            let Some(going) = going else { break };
            queue.done(&going.uid);
            order.push(going.uid.clone());
        }
        order
    }

    #[test]
    fn fifty_of_one_namespace_do_not_hold_up_the_one_of_another() {
        let queue = RolloutQueue::new(1, 1);
        let first = of("team-a", 0, "first");
        assert_eq!(queue.ask(&first, at(0)), Answer::Go);
        let mut turns: Vec<_> = (1..=50)
            .map(|n| of("team-a", n, &format!("a{n:02}")))
            .collect();
        turns.push(of("team-b", 1000, "b01"));
        for turn in &turns {
            assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
        }
        assert_eq!(queue.next(), [""; 0]);
        assert!(queue.done("first"));
        assert_eq!(queue.next(), ["b01"], "it never had its turn");
        let order = order(&queue, &turns);
        assert_eq!(order.len(), 51);
        assert_eq!(order[..3], ["b01", "a01", "a02"]);
    }

    #[test]
    fn namespaces_take_turns_and_each_keeps_its_own_order() {
        let queue = RolloutQueue::new(1, 1);
        assert_eq!(queue.ask(&of("team-c", 0, "c"), at(0)), Answer::Go);
        let turns = [
            of("team-a", 1, "a1"),
            of("team-a", 2, "a2"),
            of("team-a", 3, "a3"),
            of("team-b", 4, "b1"),
            of("team-b", 5, "b2"),
        ];
        for turn in &turns {
            assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
        }
        // Whoever asks one by one is served and then has had its turn, too.
        assert_eq!(queue.ask(&of("team-c", 6, "c2"), at(0)), Answer::Wait);
        assert!(queue.done("c"));
        assert_eq!(order(&queue, &turns), ["a1", "b1"], "then it is c2's turn");
        assert_eq!(queue.next(), ["c2"]);
        queue.done("c2");
        let rest = [&turns[1], &turns[2], &turns[4]].map(Clone::clone);
        assert_eq!(order(&queue, &rest), ["a2", "b2", "a3"]);
    }

    #[test]
    fn several_places_are_shared_among_namespaces() {
        let queue = RolloutQueue::new(2, 1);
        let turns = [
            of("team-a", 1, "a1"),
            of("team-a", 2, "a2"),
            of("team-a", 3, "a3"),
            of("team-b", 4, "b1"),
        ];
        queue.resume("old-1", Purpose::Start, at(0));
        queue.resume("old-2", Purpose::Start, at(0));
        for turn in &turns {
            assert_eq!(queue.ask(turn, at(0)), Answer::Wait);
        }
        queue.done("old-1");
        queue.done("old-2");
        assert_eq!(queue.next(), ["a1", "b1"]);
    }

    fn rollout(second: i64, uid: &str, cause: Cause) -> Turn {
        Turn {
            purpose: Purpose::Rollout(cause),
            ..turn(second, uid)
        }
    }

    #[test]
    fn fleet_waits_until_all_that_is_under_way_is_known_and_nobody_starts() {
        let queue = RolloutQueue::new(1, 2);
        let fleet: Vec<_> = ["f1", "f2", "f3"]
            .map(|uid| rollout(1, uid, Cause::Fleet))
            .into();
        assert_eq!(queue.ask(&fleet[0], at(0)), Answer::Wait);
        queue.resume("under-way", Purpose::Rollout(Cause::Fleet), at(0));
        assert!(queue.know_fleet());
        assert!(!queue.know_fleet());
        assert_eq!(queue.ask(&fleet[0], at(0)), Answer::Go, "two at once");
        assert_eq!(queue.ask(&fleet[1], at(0)), Answer::Wait);
        queue.done("under-way");
        assert_eq!(
            queue.ask(&turn(9, "starts"), at(1)),
            Answer::Go,
            "in a place of its own"
        );
        assert_eq!(queue.ask(&turn(9, "waits"), at(1)), Answer::Wait);
        assert_eq!(
            queue.ask(&fleet[1], at(1)),
            Answer::Wait,
            "after who starts"
        );
        queue.done("starts");
        assert_eq!(queue.ask(&turn(9, "waits"), at(1)), Answer::Go);
        assert_eq!(queue.ask(&fleet[1], at(1)), Answer::Go);
        assert_eq!(queue.ask(&fleet[2], at(1)), Answer::Wait);
        let counts = queue.counts();
        assert_eq!((counts.fleet_running, counts.fleet_waiting), (2, 1));
    }

    #[test]
    fn tenant_clusters_that_new_templates_broke_keep_their_places_and_nobody_else_is_broken() {
        let queue = RolloutQueue::new(1, 1);
        queue.know_fleet();
        assert_eq!(
            queue.ask(&rollout(1, "broken", Cause::Fleet), at(0)),
            Answer::Go
        );
        let next = rollout(2, "next", Cause::Fleet);
        assert_eq!(queue.ask(&next, at(100_000)), Answer::Wait);
        // Its user mends it, or it is deleted.
        assert!(queue.done("broken"));
        assert_eq!(queue.ask(&next, at(100_001)), Answer::Go);
    }

    #[test]
    fn change_goes_before_the_fleet_and_gives_its_place_up_once() {
        let queue = RolloutQueue::new(1, 1);
        queue.know_fleet();
        assert_eq!(queue.ask(&turn(1, "starts"), at(0)), Answer::Go);
        assert_eq!(
            queue.ask(&rollout(2, "a", Cause::Change), at(0)),
            Answer::Wait
        );
        // It is asked again when the user's change is in the status.
        assert_eq!(
            queue.ask(&rollout(2, "a", Cause::Fleet), at(0)),
            Answer::Wait
        );
        assert_eq!(
            queue.ask(&rollout(1, "b", Cause::Fleet), at(0)),
            Answer::Wait
        );
        assert!(queue.started("starts"));
        assert_eq!(queue.next(), ["a"]);
        assert_eq!(queue.ask(&rollout(2, "a", Cause::Fleet), at(0)), Answer::Go);
        assert!(
            !queue.started("a"),
            "a rollout is not over because the API answers"
        );
        assert_eq!(queue.counts().running, 1);
        assert_eq!(queue.ask(&turn(3, "c"), at(90)), Answer::Go);
        let under_way = rollout(2, "a", Cause::Change);
        assert_eq!(queue.ask(&under_way, at(91)), Answer::Go, "it goes on");
        queue.resume("a", Purpose::Rollout(Cause::Change), at(91));
        assert_eq!(queue.counts().running, 1, "and takes no place again");
    }
}
