//! After how long it is known that a location is lost: kubelets that speak every ten seconds, a look every second, and the
//! operator's own verdict.
//!
//! Invariant: nobody waits: seconds are counted, and where chance is, its seed is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use placement::place::Place;
use placement::recovery::Failover;
use placement::verdict::{Api, Finding, Machine, Observation, Signals, judge};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::fleet::spread;

/// Nodes of each location, of which there are four.
const NODES: usize = 250;
const LOCATIONS: [&str; 4] = ["aws", "azure", "gcp", "hetzner"];
/// A kubelet renews its Lease so often, and rather a little later (`nodeLeaseDurationSeconds` / 4, with 4 % of chance).
const RENEW: f64 = 10.0;
const LATER: f64 = 0.04;
/// The operator looks so often (`operator/src/outages.rs`).
const LOOK: f64 = 1.0;
/// After this much nobody waits any more.
const NEVER: f64 = 300.0;
const SEED: u64 = 27;

/// Of so many losses.
pub(crate) fn measure(losses: usize) -> Value {
    let mut chance = StdRng::seed_from_u64(SEED);
    let mut took: Vec<_> = (0..losses).map(|_| one(&mut chance)).collect();
    let mut told = spread(&mut took);
    told["nodes"] = json!(NODES * LOCATIONS.len());
    told["seed"] = json!(SEED);
    told
}

/// The first location is cut off at second 0; seconds until the verdict says so.
fn one(chance: &mut StdRng) -> f64 {
    let after = Failover::default().after;
    // When each node was heard last before that.
    let before: Vec<f64> = (0..NODES)
        .map(|_| chance.random_range(0.0..RENEW * (1.0 + LATER)))
        .collect();
    let phases: Vec<f64> = (0..NODES * (LOCATIONS.len() - 1))
        .map(|_| chance.random_range(0.0..RENEW))
        .collect();
    let mut now = chance.random_range(0.0..LOOK);
    while now < NEVER {
        let lost = before.iter().map(|ago| now + ago);
        let others = phases.iter().map(|phase| (now + phase) % RENEW);
        let all: Vec<f64> = lost.chain(others).collect();
        let locations = LOCATIONS.iter().zip(all.chunks(NODES));
        let observation = Observation {
            after,
            is_trusted: true,
            locations: locations
                .map(|(name, quiet)| signals(name, quiet))
                .collect(),
            endpoints: BTreeMap::new(),
        };
        let verdict = judge(&observation);
        let place = Place::new(LOCATIONS[0], "");
        if let Some(Finding::Outage(_)) = verdict.places.get(&place) {
            return now;
        }
        now += LOOK;
    }
    NEVER
}

fn signals(name: &str, quiet: &[f64]) -> Signals {
    let machine = |quiet: &f64| Machine {
        zone: String::new(),
        unchanged_for: Some(Duration::from_secs_f64(*quiet)),
        is_proven_dead: false,
    };
    Signals {
        name: name.to_owned(),
        endpoint: "published".to_owned(),
        api: Api::Answers,
        zones: BTreeSet::from([String::new()]),
        machines: quiet.iter().map(machine).collect(),
    }
}
