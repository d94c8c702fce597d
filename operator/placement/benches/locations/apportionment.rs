//! How long it takes to divide machines among locations; the goal is below 1 ms for 1,000 machines in 16 locations.
//!
//! Invariant: what is measured is what the operator calls.

use std::hint::black_box;
use std::time::Instant;

use placement::apportion::{ByPrice, Share, apportion};
use placement::budget::Micros;
use serde_json::{Value, json};

/// Machines and locations; the first one is the goal's.
const SIZES: [(u32, u32); 4] = [(1000, 16), (50, 3), (100_000, 16), (1000, 1000)];

pub(crate) fn measure(turns: usize) -> Vec<Value> {
    let all = SIZES.into_iter();
    all.map(|(machines, locations)| of(machines, locations, turns))
        .collect()
}

fn of(machines: u32, locations: u32, turns: usize) -> Value {
    let names: Vec<_> = (1..=locations)
        .map(|n| (n, format!("location-{n}")))
        .collect();
    let shares: Vec<_> = names
        .iter()
        .map(|(n, name)| Share {
            weight: n % 7 + 1,
            cap: if n % 5 == 0 { 20 } else { u32::MAX },
            held: 0,
            tie: ByPrice {
                hourly: Some(Micros(u64::from(*n))),
                name,
            },
        })
        .collect();
    let mut micros: Vec<_> = (0..turns.max(1))
        .map(|_| {
            let begin = Instant::now();
            black_box(apportion(black_box(machines), black_box(&shares)));
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    let at = |percent: usize| (micros[(micros.len() - 1) * percent / 100] * 10.0).round() / 10.0;
    json!({
        "machines": machines, "locations": locations,
        "p50_us": at(50), "p99_us": at(99), "max_us": at(100),
    })
}
