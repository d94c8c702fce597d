//! The next step of a pool over several locations: where machines are made, and who goes.
//!
//! Invariant: of the machines that are Ready where no outage is going on, as many as replicas stay, unless the
//! autoscaler named one; a machine in a place that is out or recovering never goes because of numbers; what is
//! over goes one by one where it took the place of lost ones. Sources: clouds.md 11.1 (last points), 11.3, 11.4.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::apportion::claim;
use crate::budget::{Account, Budget, Refusal};
use crate::place::{Place, State};
use crate::targets::{Location, Targets, count, place, targets, there};
use crate::time::elapsed;

/// Every place must be healthy for so long before a machine is moved.
pub const SETTLED_FOR: Duration = Duration::from_secs(600);

/// One machine of the pool.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// When it was made.
    pub made: Timestamp,
    /// How it does.
    pub readiness: Readiness,
    /// The autoscaler, or somebody else, named it to go first.
    pub is_named: bool,
    /// It was made in the place of one that an outage took ([`Why::Outage`]; stored with the Machine).
    pub is_replacement: bool,
}

/// How a machine does.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Readiness {
    /// Its node has never been ready.
    Coming,
    /// Its node was ready and is not.
    Silent,
    /// Its node is ready.
    Ready,
    /// It was told to go.
    Going,
}

/// Whether machines are moved without need.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Rebalance {
    /// Never: the distribution follows the targets as machines come and go.
    #[default]
    Never,
    /// One at a time, while everything is well.
    Gradual,
}

/// What a pool wants.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pool {
    /// Machines.
    pub replicas: u32,
    /// Machines that there may be above that because of an outage: `failover.maxExtra`, resolved.
    pub max_extra: u32,
    /// Whether machines are moved.
    pub rebalance: Rebalance,
    /// Some machine is not as the template says: nothing is moved meanwhile.
    pub is_rolling_out: bool,
    /// What may be spent, and what is; none without a budget.
    pub budget: Option<(Budget, Account)>,
    /// Places that are out and wait for a canary ([`crate::recovery::is_canary_due`]).
    pub canaries: Vec<Place>,
}

/// Why a machine is made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Why {
    /// The pool has fewer than replicas.
    Replicas,
    /// It takes the place of one that an outage took.
    Outage,
    /// To see whether a place that is out is back.
    Canary,
    /// To move a machine nearer to the targets.
    Rebalance,
}

/// A machine to make.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Creation {
    /// Where.
    pub place: Place,
    /// Why.
    pub why: Why,
}

/// What keeps the pool from being as wanted, with the figures of a sentence.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Hold {
    /// An outage took so many that `maxExtra` allows no more than `allowed` of `wanted`.
    MaxExtra {
        /// Machines that are missing.
        wanted: u32,
        /// That may be made.
        allowed: u32,
    },
    /// No location may have so many.
    Capped {
        /// How many machines are to be nowhere.
        missing: u32,
    },
    /// So many wait for a turn: creates in flight, or first tries that have no answer.
    InFlight {
        /// How many.
        waiting: u32,
    },
    /// The budget refuses a machine there.
    Budget {
        /// Where it would have been.
        location: String,
        /// Why.
        refusal: Refusal,
    },
    /// So many are over and wait: fewer would be Ready than replicas, or another one still goes.
    Surplus {
        /// How many.
        waiting: u32,
    },
}

/// The next step.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Step {
    /// How many each place is to have.
    pub targets: Targets,
    /// Machines to make.
    pub create: Vec<Creation>,
    /// Names of machines to delete.
    pub delete: Vec<String>,
    /// What waits, and for what.
    pub holds: Vec<Hold>,
}

/// The next step of a pool without a rollout. In a rollout the caller sizes as ever, takes the places of new
/// machines from [`places`] and those of surplus ones from [`surplus`]. Machines come in the pool's usual order:
/// who goes first among equals stands first.
#[must_use]
pub fn plan(pool: &Pool, locations: &[Location], machines: &[Machine], now: Timestamp) -> Step {
    let have = counted(locations, machines);
    let total = have.values().fold(0_u32, |sum, n| sum.saturating_add(*n));
    let mut step = Step {
        targets: targets(pool.replicas, locations, &have),
        ..Step::default()
    };
    let wanted = pool.replicas.saturating_sub(total);
    let (allowed, live) = (allowance(pool, machines), number(living(machines)));
    if wanted > allowed {
        step.holds.push(Hold::MaxExtra { wanted, allowed });
    }
    let (missing, wanted) = (step.targets.missing.min(wanted), wanted.min(allowed));
    if missing > 0 {
        step.holds.push(Hold::Capped { missing });
    }
    let found = places(wanted, locations, &step.targets, &have);
    let waiting = wanted
        .saturating_sub(missing)
        .saturating_sub(number(found.iter()));
    if waiting > 0 {
        step.holds.push(Hold::InFlight { waiting });
    }
    let replaced = replacements_due(locations, machines);
    let reason = |n: usize| match n < replaced {
        true => Why::Outage,
        false => Why::Replicas,
    };
    let creations = found.into_iter().enumerate();
    let mut creations: Vec<_> = creations
        .map(|(n, place)| Creation {
            place,
            why: reason(n),
        })
        .collect();
    let after = live.saturating_add(number(creations.iter()));
    if after < pool.replicas.saturating_add(pool.max_extra) {
        let free = |place: &&Place| {
            let mut named = locations.iter().filter(|l| l.name == place.location);
            named.any(|l| l.slots > 0)
        };
        creations.extend(pool.canaries.iter().find(free).map(|place| Creation {
            place: place.clone(),
            why: Why::Canary,
        }));
    }
    let (gone, waiting) = surplus(pool.replicas, locations, machines, &step.targets);
    if waiting > 0 {
        step.holds.push(Hold::Surplus { waiting });
    }
    step.delete = gone;
    if creations.is_empty() && step.delete.is_empty() {
        let to = moved(pool, locations, machines, &step.targets, &have, now);
        creations.extend(to.map(|place| Creation {
            place,
            why: Why::Rebalance,
        }));
    }
    pay(&mut step, pool, locations, creations);
    step
}

/// Machines that may be made now without more of them living than replicas and `maxExtra`.
fn allowance(pool: &Pool, machines: &[Machine]) -> u32 {
    let most = pool.replicas.saturating_add(pool.max_extra);
    most.saturating_sub(number(living(machines)))
}

/// Whether a machine is waited for no more: it is not ready in a place that is out or recovering.
#[must_use]
pub fn is_stranded(machine: &Machine, state: State) -> bool {
    state.is_outage() && matches!(machine.readiness, Readiness::Silent | Readiness::Coming)
}

/// Machines that count, in each place: neither going nor stranded. Old nodes of a place that is out or
/// recovering count as soon as they are ready.
#[must_use]
pub fn counted(locations: &[Location], machines: &[Machine]) -> BTreeMap<Place, u32> {
    let states = states(locations);
    let counts = living(machines).filter(|m| !is_stranded(m, state(&states, m)));
    tally(counts)
}

/// Where the next `wanted` machines are made, the first one first: in the location with the largest claim that
/// has fewer than its target and takes new ones, and there in such a zone. `have` are the machines that count; in
/// a rollout those that are up to date, so that new ones take the targets' places. Fewer than `wanted` where the
/// targets, or the creates in flight, allow no more: never in a place that is suspect, out, or refuses.
#[must_use]
pub fn places(
    wanted: u32,
    locations: &[Location],
    targets: &Targets,
    have: &BTreeMap<Place, u32>,
) -> Vec<Place> {
    let mut have = have.clone();
    let mut slots: Vec<_> = locations.iter().map(|l| l.slots).collect();
    let mut found = Vec::new();
    while number(found.iter()) < wanted {
        let open = locations.iter().enumerate().filter(|(n, location)| {
            let target = targets.locations.get(&location.name).copied();
            slots[*n] > 0
                && location.zones.iter().any(|zone| zone.takes_new())
                && there(location, &have) < target.unwrap_or_default()
        });
        let best = open.max_by(|(_, a), (_, b)| {
            let (p, q) = (there(a, &have), there(b, &have));
            let tie = |l: &Location| (l.hourly().is_none(), l.hourly(), l.name.clone());
            claim(a.weight, p, b.weight, q).then_with(|| tie(b).cmp(&tie(a)))
        });
        let Some((n, location)) = best else { break };
        let zones = location.zones.iter().filter(|zone| zone.takes_new());
        let zone = zones.min_by_key(|zone| {
            let here = count(location, zone, &have);
            let target = targets.places.get(&place(location, zone)).copied();
            // Those below their own target first, then whoever has least.
            (here >= target.unwrap_or_default(), here, zone.name.clone())
        });
        let Some(zone) = zone else { break };
        let place = place(location, zone);
        *have.entry(place.clone()).or_default() += 1;
        slots[n] -= 1;
        found.push(place);
    }
    found
}

/// Who goes because there are more than replicas, and how many of these have to wait. Named ones first; then from
/// the location with the largest excess, the dearest among equals, in its fullest zone: who is not ready, then who
/// took the place of a lost one, the newest first, then the pool's usual order.
#[must_use]
pub fn surplus(
    replicas: u32,
    locations: &[Location],
    machines: &[Machine],
    targets: &Targets,
) -> (Vec<String>, u32) {
    let states = states(locations);
    let steady = |m: &&Machine| !state(&states, m).is_outage();
    let left: Vec<_> = living(machines).filter(steady).collect();
    let mut over = number(left.iter()).saturating_sub(replicas);
    if over == 0 {
        return (Vec::new(), 0);
    }
    let is_ready = |m: &&&Machine| m.readiness == Readiness::Ready;
    let mut ready = number(left.iter().filter(is_ready));
    let is_draining = machines.iter().any(|m| m.readiness == Readiness::Going);
    let mut queues = Queues::of(&left);
    let mut gone: Vec<String> = Vec::new();
    while over > 0 {
        let first = queues.first(locations, targets, ready > replicas);
        // Those that took the place of lost ones go one by one. Whoever stands behind them is an old one,
        // with volumes and caches, and goes in nobody's stead.
        let waits = |m: &Machine| {
            let is_used = m.is_replacement && m.readiness == Readiness::Ready;
            is_used && !m.is_named && (is_draining || !gone.is_empty())
        };
        let Some(first) = first.filter(|m| !waits(m)) else {
            break;
        };
        queues.take(first);
        ready -= u32::from(first.readiness == Readiness::Ready);
        gone.push(first.name.clone());
        over -= 1;
    }
    (gone, over)
}

/// Who may go, sorted once, so that a thousand that go at once are not looked through a thousand times.
struct Queues<'a> {
    /// Those that somebody named; who goes first stands last.
    named: Vec<&'a Machine>,
    /// The others of each place; who goes first stands last.
    places: BTreeMap<&'a Place, Vec<&'a Machine>>,
    /// How many are left in each place, named ones included.
    have: BTreeMap<Place, u32>,
}

impl<'a> Queues<'a> {
    /// Of these, in the pool's usual order.
    fn of(machines: &[&'a Machine]) -> Self {
        let (named, others): (Vec<_>, Vec<_>) =
            machines.iter().rev().copied().partition(|m| m.is_named);
        let mut places: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for machine in others {
            places.entry(&machine.place).or_default().push(machine);
        }
        let order = |m: &Machine| {
            let newest = m.is_replacement.then_some(Reverse(m.made));
            (m.readiness, newest.is_none(), newest)
        };
        for queue in places.values_mut() {
            // Stable, so among equals the usual order stays, turned round.
            queue.sort_by_key(|m| Reverse(order(m)));
        }
        Self {
            named,
            places,
            have: tally(machines.iter().copied()),
        }
    }

    /// Who goes first; one that is ready and that nobody named only where it can be spared.
    fn first(
        &self,
        locations: &[Location],
        targets: &Targets,
        is_spare: bool,
    ) -> Option<&'a Machine> {
        if let Some(named) = self.named.last() {
            return Some(named);
        }
        let of_locations = by_location(&self.have);
        let excess = |have: Option<&u32>, target: Option<&u32>| {
            let number = |n: Option<&u32>| i64::from(n.copied().unwrap_or_default());
            number(have) - number(target)
        };
        let candidates = self.places.iter().filter_map(|(place, queue)| {
            // Who is not ready stands last in its queue, so behind one that is ready there is nobody else.
            let first = *queue.last()?;
            if first.readiness == Readiness::Ready && !is_spare {
                return None;
            }
            let name = place.location.as_str();
            let over = excess(of_locations.get(name), targets.locations.get(name));
            let location = locations.iter().find(|l| l.name == name);
            let hourly = location.and_then(Location::hourly);
            let rank = (
                Reverse(over),
                // The dearest, and one whose price nobody knows may be that.
                Reverse((hourly.is_none(), hourly)),
                Reverse(name),
                Reverse(excess(self.have.get(*place), targets.places.get(*place))),
                *place,
            );
            (over > 0).then_some((rank, first))
        });
        let first = candidates.min_by(|(a, _), (b, _)| a.cmp(b));
        first.map(|(_, machine)| machine)
    }

    /// The one that was first is gone.
    fn take(&mut self, first: &Machine) {
        if first.is_named {
            self.named.pop();
        } else if let Some(queue) = self.places.get_mut(&first.place) {
            queue.pop();
        }
        if let Some(count) = self.have.get_mut(&first.place) {
            *count = count.saturating_sub(1);
        }
    }
}

fn by_location(have: &BTreeMap<Place, u32>) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    for (place, count) in have {
        *counts.entry(place.location.as_str()).or_default() += count;
    }
    counts
}

/// Where a machine is made so that another one can go: only when everything is well for long, and when two
/// locations, one above its target and one below, come nearer to it by that. The other one goes as surplus once
/// the new one is Ready.
fn moved(
    pool: &Pool,
    locations: &[Location],
    machines: &[Machine],
    targets: &Targets,
    have: &BTreeMap<Place, u32>,
    now: Timestamp,
) -> Option<Place> {
    let is_settled = locations
        .iter()
        .flat_map(|l| &l.zones)
        .all(|zone| zone.state == State::Healthy && elapsed(zone.since, now) >= SETTLED_FOR);
    let all_ready = machines.iter().all(|m| m.readiness == Readiness::Ready);
    let complete = number(machines.iter()) == pool.replicas && targets.missing == 0;
    if pool.rebalance == Rebalance::Never
        || pool.is_rolling_out
        || !(is_settled && all_ready && complete)
    {
        return None;
    }
    let is_over = by_location(have)
        .into_iter()
        .any(|(name, here)| here > targets.locations.get(name).copied().unwrap_or_default());
    let to = places(1, locations, targets, have);
    to.into_iter().next().filter(|_| is_over)
}

/// Takes those that the budget allows; each counts before the next one is asked about.
fn pay(step: &mut Step, pool: &Pool, locations: &[Location], creations: Vec<Creation>) {
    let Some((budget, account)) = &pool.budget else {
        step.create = creations;
        return;
    };
    let mut account = account.clone();
    for creation in creations {
        let name = &creation.place.location;
        let location = locations.iter().find(|l| l.name == *name);
        match budget.admit(&mut account, location.and_then(|l| l.price.as_ref())) {
            Ok(()) => step.create.push(creation),
            Err(refusal) => step.holds.push(Hold::Budget {
                location: name.clone(),
                refusal,
            }),
        }
    }
}

/// How many of the machines made next take the place of one that an outage took.
fn replacements_due(locations: &[Location], machines: &[Machine]) -> usize {
    let states = states(locations);
    let stranded = living(machines).filter(|m| is_stranded(m, state(&states, m)));
    let made = living(machines).filter(|m| m.is_replacement && !is_stranded(m, state(&states, m)));
    stranded.count().saturating_sub(made.count())
}

fn living(machines: &[Machine]) -> impl Iterator<Item = &Machine> {
    machines.iter().filter(|m| m.readiness != Readiness::Going)
}

fn states(locations: &[Location]) -> BTreeMap<Place, State> {
    let zones =
        |l: &'_ Location| -> Vec<_> { l.zones.iter().map(|z| (place(l, z), z.state)).collect() };
    locations.iter().flat_map(zones).collect()
}

/// A place that is not listed any more is in no outage that anybody judges.
fn state(states: &BTreeMap<Place, State>, machine: &Machine) -> State {
    states.get(&machine.place).copied().unwrap_or_default()
}

fn tally<'a>(machines: impl Iterator<Item = &'a Machine>) -> BTreeMap<Place, u32> {
    let mut counts = BTreeMap::new();
    for machine in machines {
        *counts.entry(machine.place.clone()).or_default() += 1;
    }
    counts
}

fn number<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
