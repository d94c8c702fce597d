//! What clouds are asked for and what comes of it: `cargo xtask bench clouds` builds and calls this; it needs no lab.
//!
//! Clients are those of the operator, the clouds are fakes of their APIs, and the time is the fakes' own, so that hours pass
//! in seconds. Every fault is played at every step of a machine's life at every cloud.
//! Invariant: a duplicate, an orphan, or a machine that never ran or never went is a failure of the bench, and nothing else
//! is: a time is told, and never asserted. Figures go to standard output as JSON, what is going on to standard error.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod detection;
mod faults;
mod fleet;
mod machine;
mod played;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Parser;
use serde_json::{Map, Value, json};

use faults::Lives;
use played::{Aws, Azure, Gcp, Hetzner, Played};

/// What the figures should be.
const CREATE_P95_S: f64 = 0.2;
const LIST_S: f64 = 2.0;
const SHARE: f64 = 0.5;

#[derive(Parser)]
#[command(
    name = "clouds",
    about = "Measures machines at clouds, without a lab and without a cloud"
)]
struct Args {
    /// Machines of each cloud that are made and listed; a quarter of them rests
    #[arg(long, default_value_t = 1000)]
    machines: usize,
    /// Hours of the fakes' time that machines rest
    #[arg(long, default_value_t = 2)]
    hours: u32,
    /// Each so-many-th step has a fault, of another fault another one; 1 is every step
    #[arg(long, default_value_t = 1)]
    stride: usize,
    /// Locations that are lost, to see after how long that is known
    #[arg(long, default_value_t = 200)]
    losses: usize,
    /// Only these parts: `faults`, `fleet`, `detection`
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// JSON in one line instead of several
    #[arg(long)]
    json: bool,
}

impl Args {
    fn has(&self, part: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == part)
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    kit_client::crypto::install_crypto();
    let began = Instant::now();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut lives = Lives::default();
    let mut providers = Map::new();
    provider::<Aws>(&args, &mut lives, &mut providers)?;
    provider::<Azure>(&args, &mut lives, &mut providers)?;
    provider::<Gcp>(&args, &mut lives, &mut providers)?;
    provider::<Hetzner>(&args, &mut lives, &mut providers)?;
    let mut report = json!({
        "providers": providers,
        "targets": {
            "create_s.p95": CREATE_P95_S, "list_s": LIST_S, "rest.largest_share": SHARE, "duplicates": 0, "orphans": 0,
        },
        "machine": {
            "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "load_before": load.split(' ').next(),
            "cores": std::thread::available_parallelism().map_or(0, usize::from),
            "took_s": began.elapsed().as_secs(),
        },
    });
    if args.has("faults") {
        lives.told(&mut report);
    }
    if args.has("detection") {
        report["detect_s"] = detection::measure(args.losses);
    }
    match args.json {
        true => println!("{report}"),
        false => println!("{report:#}"),
    }
    for failure in &lives.failures {
        eprintln!("FAILED {failure}");
    }
    Ok(match lives.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// All of one cloud.
fn provider<P: Played>(
    args: &Args,
    all: &mut Lives,
    providers: &mut Map<String, Value>,
) -> Result<()> {
    let mut report = json!({});
    if args.has("faults") {
        eprintln!("{}: every fault at every step …", P::NAME);
        let lives = faults::every::<P>(args.stride)?;
        lives.told(&mut report);
        all.add(lives);
    }
    if args.has("fleet") {
        eprintln!("{}: {} machines …", P::NAME, args.machines);
        fleet::measure::<P>(args.machines, args.hours, &mut report)?;
    }
    providers.insert(P::NAME.to_owned(), report);
    Ok(())
}
