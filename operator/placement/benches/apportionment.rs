//! How long it takes to divide machines among locations: `cargo run --release -p placement --example
//! apportionment`. Prints, and fails on nothing; the goal is below 1 ms for 1,000 machines in 16 locations.
//!
//! Invariant: what is measured is what the operator calls.

use std::hint::black_box;
use std::time::Instant;

use placement::apportion::{ByPrice, Share, apportion};
use placement::budget::Micros;

const TURNS: u32 = 2000;

#[allow(clippy::print_stdout)]
fn main() {
    for (seats, locations) in [(1000, 16), (50, 3), (100_000, 16), (1000, 1000)] {
        let names: Vec<_> = (0..locations).map(|n| format!("location-{n}")).collect();
        let share = |(name, weight): (&'_ String, u32)| (name.clone(), weight);
        let rows: Vec<_> = names.iter().zip(1..).map(share).collect();
        let shares: Vec<_> = rows
            .iter()
            .map(|(name, weight)| Share {
                weight: weight % 7 + 1,
                cap: if weight % 5 == 0 { 20 } else { u32::MAX },
                held: 0,
                tie: ByPrice {
                    hourly: Some(Micros(u64::from(*weight))),
                    name,
                },
            })
            .collect();
        let mut times: Vec<_> = (0..TURNS)
            .map(|_| {
                let begin = Instant::now();
                black_box(apportion(black_box(seats), black_box(&shares)));
                begin.elapsed()
            })
            .collect();
        times.sort();
        let (half, most) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("{seats} machines, {locations} locations: median {half:?}, 99 % below {most:?}");
    }
}
