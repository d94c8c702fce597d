//! Pools on a virtual clock: how long a loss is not seen, and what a location costs that comes and goes.
//!
//! Invariant: whatever is counted is what the operator's own decisions did (`tests/simulation`), in seconds of the clock;
//! a life in which nothing was made for what was lost is counted as missed, and never left out.

use serde_json::{Value, json};

use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::fake::{Location, RENEW};

/// Until all machines of a pool are ready.
const SETTLE: i64 = 600;
/// How long a loss is waited for to be seen.
const PATIENCE: i64 = 300;
/// How long a location comes and goes.
const STORM: i64 = 2 * 3600;
/// The shortest time for which a location stays away or back in a storm, in seconds.
const SHORT: i64 = 30;
/// The longest, which is less than `returnAfter`.
const LONG: i64 = 240;

/// A pool that has all its machines, whose kubelets each speak at a moment of their own.
fn settled(chance: &mut Chance) -> Cluster {
    let count = chance.between(2, 5);
    let locations = (0..count).map(|n| Location::new(&format!("l{n}"), 1));
    // Two at least in each: the loss of a single machine is an ordinary one.
    let replicas = count * chance.between(2, 4);
    let mut cluster = Cluster::new(u32::try_from(replicas).unwrap_or(2), locations.collect());
    cluster.pass(SETTLE);
    for machine in &mut cluster.machines {
        machine.renewed -= chance.below(RENEW);
    }
    cluster.run(2 * RENEW + chance.below(60));
    cluster.asked.clear();
    cluster
}

/// Seconds from the loss of a location until the first, and until the last machine in its place is asked for.
fn detect(chance: &mut Chance, is_restarted: bool) -> Option<(i64, i64)> {
    let mut cluster = settled(chance);
    let lost = chance.below(i64::try_from(cluster.locations.len()).unwrap_or(1));
    let lost = usize::try_from(lost).unwrap_or_default();
    let machines = usize::try_from(cluster.spread()[lost]).unwrap_or_default();
    let begin = cluster.now;
    let restart = chance.below(30);
    // With its API, as often as without.
    cluster.locations[lost].is_api_down = chance.below(2) == 1;
    cluster.locations[lost].is_cut = true;
    // What may be made at once beyond `replicas` is half of them.
    let most = usize::try_from(cluster.replicas.div_ceil(2)).unwrap_or_default();
    let wanted = machines.min(most);
    while cluster.asked.len() < wanted && cluster.now - begin < PATIENCE {
        if is_restarted && cluster.now - begin == restart {
            cluster.restart();
        }
        cluster.run(1);
    }
    let mut times = cluster.asked.iter().map(|(.., when)| when - begin);
    let first = times.next()?;
    (cluster.asked.len() >= wanted).then(|| (first, times.next_back().unwrap_or(first)))
}

pub(crate) fn detection(lives: usize, seed: u64, is_restarted: bool) -> Value {
    let mut chance = Chance::new(seed);
    let seen: Vec<_> = (0..lives)
        .map(|_| detect(&mut chance, is_restarted))
        .collect();
    let missed = seen.iter().filter(|seen| seen.is_none()).count();
    let of = |which: fn(&(i64, i64)) -> i64| {
        let mut seconds: Vec<_> = seen.iter().flatten().map(which).collect();
        seconds.sort_unstable();
        let at = |percent: usize| seconds.get(seconds.len().saturating_sub(1) * percent / 100);
        json!({ "p50": at(50), "p99": at(99), "max": at(100) })
    };
    json!({ "lives": lives, "missed": missed, "first_s": of(|seen| seen.0), "all_s": of(|seen| seen.1) })
}

/// What a location costs that comes and goes for two hours, at moments of chance.
pub(crate) fn storms(storms: usize, seed: u64) -> Vec<Value> {
    let mut chance = Chance::new(seed);
    (0..storms).map(|_| storm(&mut chance)).collect()
}

fn storm(chance: &mut Chance) -> Value {
    let mut cluster = settled(chance);
    let lost = cluster.spread()[0];
    let (begin, mut turns, mut was_out) = (cluster.now, 0, false);
    while cluster.now - begin < STORM {
        let left = STORM - (cluster.now - begin);
        cluster.locations[0].is_cut = turns % 2 == 0;
        cluster.run(chance.between(SHORT, LONG).min(left));
        turns += 1;
        was_out |= cluster.locations[0].record.state.is_outage();
    }
    let made = cluster.asked.len();
    let most = cluster.replicas.div_ceil(2);
    // It stays back, and everything is as before.
    cluster.locations[0].is_cut = false;
    cluster.pass(4 * 3600);
    json!({
        "turns": turns, "was_out": was_out, "lost": lost, "most_extra": most, "made": made,
        "left_above_replicas": cluster.machines.len().saturating_sub(usize::try_from(cluster.replicas).unwrap_or_default()),
    })
}
