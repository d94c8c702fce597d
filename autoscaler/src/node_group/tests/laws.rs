//! Any sequence of requests, edits, failures, restarts and reconciles of the operator: the size stays within
//! the bounds, and no machine goes that nobody asked for.
//!
//! What is decided is decided on a memory that lags behind; writes are refused when they state an old
//! version, as the API server does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::names::ANNOTATION_DELETE_MACHINE;
use api::{Machine, NodePool};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::decide::{Decision, bring_within, decrease, delete, increase};
use super::super::{Group, find};
use crate::cache::Cache;
use crate::cache::state::State;
use crate::testing::{cache, changed, machine, machine_event, named, pool, pool_event};

const POOLS: [&str; 2] = ["one", "two"];

/// What happens; numbers choose pools and machines among those that there are.
#[derive(Clone, Debug)]
enum Step {
    Increase(usize, i32),
    Delete(usize, Vec<usize>),
    Decrease(usize, i32),
    Edit(usize, i32, i32),
    /// The operator makes and deletes machines.
    Reconcile(usize),
    /// The operator counts them.
    Report(usize),
    /// A machine becomes a node. That takes longer than a watch.
    Run(usize),
    /// A machine is lost, and the operator replaces it.
    Fail(usize),
    /// Machines that go are gone.
    Gone,
    /// The watches catch up.
    Catch,
    /// The process starts anew.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = || 0..POOLS.len();
    let step = prop_oneof![
        (which(), -1..4).prop_map(|(p, n)| Step::Increase(p, n)),
        (which(), vec(0..12_usize, 0..4)).prop_map(|(p, m)| Step::Delete(p, m)),
        (which(), -4..2).prop_map(|(p, n)| Step::Decrease(p, n)),
        (which(), 0..4_i32, 1..7_i32).prop_map(|(p, a, b)| Step::Edit(p, a.min(b), a.max(b))),
        which().prop_map(Step::Reconcile),
        which().prop_map(Step::Reconcile),
        which().prop_map(Step::Report),
        (0..12_usize).prop_map(Step::Run),
        (0..12_usize).prop_map(Step::Fail),
        Just(Step::Gone),
        Just(Step::Catch),
        Just(Step::Restart),
    ];
    vec(step, 1..60)
}

/// The management cluster's API, the operator, and ourselves.
struct Simulation {
    pools: BTreeMap<String, NodePool>,
    machines: BTreeMap<String, Machine>,
    /// Ours.
    cache: Arc<Cache>,
    made: usize,
    /// Machines that the client named.
    asked: BTreeSet<String>,
    /// So many of each pool may go because a user lowered the most.
    shrunk: BTreeMap<String, i32>,
    ran: BTreeSet<String>,
}

fn is_going(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

impl Simulation {
    fn new() -> Self {
        let pools = POOLS.map(|name| (name.to_owned(), pool(name, 3, 0, 4)));
        let mut simulation = Self {
            pools: pools.into(),
            machines: BTreeMap::new(),
            cache: cache([]),
            made: 0,
            asked: BTreeSet::new(),
            shrunk: BTreeMap::new(),
            ran: BTreeSet::new(),
        };
        for pool in POOLS {
            simulation.reconcile(pool);
        }
        let all: Vec<_> = (0..simulation.machines.len()).collect();
        all.into_iter().for_each(|number| simulation.run(number));
        simulation
    }

    fn restart(&mut self) {
        let pools = self.pools.values().map(pool_event);
        let machines = self.machines.values().map(machine_event);
        self.cache = cache(pools.chain(machines));
    }

    fn catch_up(&self) {
        use crate::cache::state::Kind::{Machine, Pool};
        self.cache.begin(Pool);
        self.cache.begin(Machine);
        let pools = self.pools.values().map(pool_event);
        let machines = self.machines.values().map(machine_event);
        pools
            .chain(machines)
            .for_each(|seen| self.cache.apply(&seen));
        self.cache.end(Pool);
        self.cache.end(Machine);
    }

    fn write(&mut self, pool: &str, change: Value) {
        let new = changed(&self.pools[pool], change);
        self.pools.insert(pool.to_owned(), new);
    }

    /// As the client of the API does it; gives by how much the pool was changed, none when it was not.
    fn change(
        &mut self,
        pool: &str,
        decide: impl Fn(Group<'_>, &State) -> Decision,
    ) -> Option<i32> {
        loop {
            let decided = self.cache.read(|state| {
                let group = find(state, &format!("{pool}.x")).expect("it is a group");
                let version = group.pool.version.text.clone();
                decide(group, state).ok().flatten().map(|c| (version, c))
            });
            let (version, change) = decided?;
            let live = &self.pools[pool];
            let before = live.spec.replicas;
            let fresh = live.metadata.resource_version.as_ref() == Some(&version);
            if fresh {
                let names: Vec<_> = change.named.into_iter().collect();
                let names = (!names.is_empty()).then(|| names.join(","));
                let annotations = json!({ ANNOTATION_DELETE_MACHINE: names });
                self.write(
                    pool,
                    json!({ "metadata": { "annotations": annotations },
                        "spec": { "replicas": change.replicas } }),
                );
            }
            self.cache.apply(&pool_event(&self.pools[pool]));
            if fresh {
                return Some(change.replicas - before);
            }
        }
    }

    fn name(&self, number: usize) -> Option<String> {
        self.machines.keys().nth(number).cloned()
    }

    /// Mostly one of the pool's; sometimes the client is wrong.
    fn name_for(&self, pool: &str, number: usize) -> Option<String> {
        let mut own = self.machines.values().filter(|m| m.spec.pool_name == pool);
        match number {
            11 => self.name(number),
            _ => own.nth(number)?.metadata.name.clone(),
        }
    }

    fn staying(&self, pool: &str) -> Vec<String> {
        let of = |m: &&Machine| m.spec.pool_name == pool && !is_going(m);
        let found = self.machines.values().filter(of);
        found.filter_map(|m| m.metadata.name.clone()).collect()
    }

    fn end(&mut self, name: &str) {
        let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        let machine = changed(&self.machines[name], going);
        self.machines.insert(name.to_owned(), machine);
    }

    /// What is named goes; then what is too many, new ones first; then what is missing is made.
    fn reconcile(&mut self, pool: &str) {
        let live = &self.pools[pool];
        let annotations = live.metadata.annotations.as_ref();
        let names = annotations.and_then(|a| a.get(ANNOTATION_DELETE_MACHINE));
        let names: BTreeSet<_> = names.iter().flat_map(|text| text.split(',')).collect();
        let replicas = usize::try_from(live.spec.replicas).unwrap();
        let (go, mut stay): (Vec<_>, Vec<_>) = self
            .staying(pool)
            .into_iter()
            .partition(|name| names.contains(name.as_str()));
        for name in go {
            assert!(
                self.asked.contains(&name),
                "{name} goes and nobody asked for it"
            );
            self.end(&name);
        }
        stay.sort_by_key(|name| self.ran.contains(name));
        let surplus = stay.len().saturating_sub(replicas);
        for name in stay.drain(..surplus).collect::<Vec<_>>() {
            if self.ran.contains(&name) {
                let left = self.shrunk.entry(pool.to_owned()).or_default();
                *left -= 1;
                assert!(*left >= 0, "{name} ran, and goes because of a size");
            }
            self.end(&name);
        }
        self.shrunk.remove(pool);
        for _ in stay.len()..replicas {
            self.made += 1;
            let name = format!("{pool}-{:04}", self.made);
            self.machines
                .insert(name.clone(), machine(&name, pool, "Creating"));
        }
    }

    fn report(&mut self, pool: &str) {
        let count = self.staying(pool).len();
        self.write(pool, json!({ "status": { "replicas": count } }));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Increase(pool, delta) => {
                let delta = self.change(POOLS[pool], |g, s| increase(g, s, delta));
                assert!(delta.is_none_or(|delta| delta > 0));
            }
            Step::Delete(pool, numbers) => {
                let mut names: Vec<_> = numbers
                    .iter()
                    .filter_map(|n| self.name_for(POOLS[pool], *n))
                    .collect();
                names.push("never-there".to_owned());
                let nodes: Vec<_> = names.iter().map(|name| named(name)).collect();
                let less = self.change(POOLS[pool], |g, s| delete(g, s, &nodes));
                if let Some(less) = less {
                    assert!(usize::try_from(-less).unwrap() <= numbers.len());
                    self.asked.extend(names);
                    let again = self.change(POOLS[pool], |g, s| delete(g, s, &nodes));
                    assert_eq!(again, None, "asking twice is asking once");
                }
            }
            Step::Decrease(pool, delta) => {
                let delta = self.change(POOLS[pool], |g, s| decrease(g, s, delta));
                assert!(delta.is_none_or(|delta| delta < 0));
            }
            Step::Edit(pool, min, max) => {
                let bounds = json!({ "spec": { "autoscaling": { "min": min, "max": max } } });
                self.write(POOLS[pool], bounds);
                // The watch tells, and the controller acts.
                self.cache.apply(&pool_event(&self.pools[POOLS[pool]]));
                let delta = self.change(POOLS[pool], |g, s| Ok(bring_within(g, s)));
                let delta = delta.unwrap_or(0);
                *self.shrunk.entry(POOLS[pool].to_owned()).or_default() += (-delta).max(0);
            }
            Step::Reconcile(pool) => self.reconcile(POOLS[pool]),
            Step::Report(pool) => self.report(POOLS[pool]),
            Step::Run(number) => self.run(number),
            Step::Fail(number) => {
                if let Some(name) = self.name(number) {
                    self.end(&name);
                    // Whose place it is will be seen before its successor runs.
                    self.catch_up();
                }
            }
            Step::Gone => self.machines.retain(|_, machine| !is_going(machine)),
            Step::Catch => self.catch_up(),
            Step::Restart => self.restart(),
        }
    }

    /// Until a machine is a node, the operator has looked, and every watch has told.
    fn run(&mut self, number: usize) {
        let Some(name) = self.name(number) else {
            return;
        };
        let pool = self.machines[&name].spec.pool_name.clone();
        self.reconcile(&pool);
        self.report(&pool);
        self.catch_up();
        if is_going(&self.machines[&name]) {
            return;
        }
        let runs = json!({ "status": { "phase": "Running" } });
        let machine = changed(&self.machines[&name], runs);
        self.machines.insert(name.clone(), machine);
        self.ran.insert(name);
    }

    fn check(&self) {
        for (name, pool) in &self.pools {
            let bounds = pool.spec.autoscaling.as_ref().unwrap();
            let size = pool.spec.replicas;
            assert!(
                bounds.min <= size && size <= bounds.max,
                "{name} has {size}: {bounds:?}"
            );
        }
    }
}

proptest! {
    #[test]
    fn sizes_stay_within_bounds_and_nobody_goes_unasked(steps in steps()) {
        let mut simulation = Simulation::new();
        for step in steps {
            simulation.step(step);
            simulation.check();
        }
        for pool in POOLS {
            simulation.reconcile(pool);
            simulation.report(pool);
            let size = usize::try_from(simulation.pools[pool].spec.replicas).unwrap();
            prop_assert_eq!(simulation.staying(pool).len(), size);
        }
    }
}
