//! Benches of an operator that has many tenant clusters: `cargo xtask bench neighbours`, `bench fleet` and `bench surface`
//! (what it shows of them) build and call this; it needs no lab.
//!
//! The management API is real and the operator is its program, a process of its own; tenants' APIs, kubelet
//! and KubeVirt are played by this process, in a network of its own ([`network`]).
//! Invariant: everything it started ends with it. Figures go to standard output as JSON, what is going on to standard
//! error.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod fleet;
mod neighbours;
mod network;
mod process;
mod shown;
mod site;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::json;

#[derive(Parser)]
#[command(
    name = "bench",
    about = "Measures an operator that has many tenant clusters"
)]
struct Args {
    #[command(subcommand)]
    bench: Bench,
    /// JSON in one line instead of several
    #[arg(long, global = true)]
    json: bool,
    /// In a network of its own already
    #[arg(long, hide = true, global = true)]
    inside: bool,
}

#[derive(Subcommand)]
enum Bench {
    Neighbours(neighbours::Args),
    Fleet(fleet::Args),
    Shown(shown::Args),
}

fn main() -> Result<()> {
    let args = Args::parse();
    if !args.inside {
        return network::enter();
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut report = runtime.block_on(async {
        match &args.bench {
            Bench::Neighbours(args) => neighbours::run(args).await,
            Bench::Fleet(args) => fleet::run(args).await,
            Bench::Shown(args) => shown::run(args).await,
        }
    })?;
    report["machine"] = json!({
        "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "load_before": load.split(' ').next(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
    });
    match args.json {
        true => println!("{report}"),
        false => println!("{report:#}"),
    }
    Ok(())
}
