//! What pools over several locations cost and how soon a loss is seen: `cargo xtask bench locations` builds and calls
//! this; it needs nothing.
//!
//! Invariant: it fails on nothing but its flags. Only the figures of the apportionment are of this machine; all others are
//! of a virtual clock, and the same everywhere with the same seed.

#![allow(clippy::print_stdout, clippy::unwrap_used)] // the simulation is shared with tests

use clap::Parser;
use serde_json::json;

mod apportionment;
mod chance;
#[path = "../../tests/simulation/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests, which ask it more")]
mod cluster;
#[path = "../../tests/simulation/fake.rs"]
#[allow(dead_code, reason = "as above")]
mod fake;
mod lives;

#[derive(Parser)]
#[command(
    name = "locations",
    about = "Measures pools over several locations on a virtual clock, without a lab"
)]
struct Args {
    /// How often each apportionment is made
    #[arg(long, default_value_t = 2000)]
    turns: usize,
    /// Pools that lose a location, without and with a restart of the operator meanwhile
    #[arg(long, default_value_t = 500)]
    lives: usize,
    /// Pools of which a location comes and goes for two hours
    #[arg(long, default_value_t = 10)]
    storms: usize,
    /// The chance of the lives; the same one gives the same figures
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// JSON in one line instead of several
    #[arg(long)]
    json: bool,
}

/// Cargo's folder says it: the development profile here has no assertions by which it could be told.
fn profile() -> &'static str {
    let program = std::env::current_exe().unwrap_or_default();
    match program
        .components()
        .any(|part| part.as_os_str() == "release")
    {
        true => "release",
        false => "dev",
    }
}

fn main() {
    let args = Args::parse();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let report = json!({
        "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "profile": profile(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load_before": load.split(' ').next(),
        "seed": args.seed,
        "apportionment": apportionment::measure(args.turns),
        "detection": lives::detection(args.lives, args.seed, false),
        "detection_after_restart": lives::detection(args.lives, args.seed, true),
        "storms": lives::storms(args.storms, args.seed),
    });
    match args.json {
        true => println!("{report}"),
        false => println!("{report:#}"),
    }
}
