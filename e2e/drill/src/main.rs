//! `drill restore`: has an accident in a tenant cluster of the lab, mends it, and prints when each step was over.
//!
//! Invariant: what it made is removed, whether it went well or not.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, Subcommand};
use suites::{drill, scenario};

/// Accidents and their mending, shown in the running lab.
#[derive(Parser)]
#[command(bin_name = "cargo xtask drill")]
struct Args {
    #[command(subcommand)]
    drill: Drill,
}

#[derive(Subcommand)]
enum Drill {
    /// All objects of a namespace are deleted, and the tenant cluster is brought back to the moment before
    Restore {
        /// Members of etcd: 1, 3 or 5
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=5))]
        members: i32,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<()> {
    let Drill::Restore { members } = args.drill;
    let begun = Instant::now();
    scenario::command("drill", async |s| {
        // Since the drill began, since the Restore was made, and for how long what is told had lasted.
        let mut last = begun;
        let mut tell = |since: Option<Duration>, what: &str| {
            let since =
                since.map_or_else(String::new, |since| format!("{:.1}", since.as_secs_f64()));
            let took = last.elapsed();
            last = Instant::now();
            let _ = writeln!(
                std::io::stdout(),
                "{:7.1} s {since:>7} +{:.1} {what}",
                begun.elapsed().as_secs_f64(),
                took.as_secs_f64()
            );
        };
        drill::restore(s, members, &mut tell).await
    })
    .await
}
