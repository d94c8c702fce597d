//! What a tenant cluster at rest takes of processor and memory: `cargo xtask bench idle` builds and calls this; it needs no
//! lab but the lab's programs.
//!
//! etcd, kube-apiserver, konnectivity's server, kube-controller-manager and kube-scheduler run as bare processes with the
//! arguments, files and variables that their containers have, probed as kubelet does. Variants, each of which changes some
//! of that, rest side by side, so that whatever else the machine does meets all of them alike.
//! Invariant: everything it started ends with it. Figures go to standard output as JSON, what is going on to standard
//! error.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod figures;
mod load;
mod plane;
mod probes;
mod variants;

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
use figures::{Reading, difference};
use plane::Plane;
use serde_json::{Value, json};
use variants::{DEFAULT, Variant};

#[derive(Parser)]
#[command(
    name = "idle",
    about = "Measures what a tenant cluster at rest takes, without a lab"
)]
struct Args {
    /// Variants to measure beside `default`; without any all that are known
    #[arg(long, value_delimiter = ',')]
    variant: Vec<String>,
    /// One of your own: `NAME=CHANGE`, as often as it has changes. A change is `PROGRAM:--flag=value`, `PROGRAM:--flag`
    /// (left out), `PROGRAM:VARIABLE=value`, `spec:{…}` (merged into the spec) or `probes:N` (their periods times N, 0 is
    /// none); `all` stands for every program
    #[arg(long)]
    change: Vec<String>,
    /// Variants that rest side by side, `default` among them
    #[arg(long, default_value_t = 4)]
    side_by_side: usize,
    /// Seconds between their start and the first reading
    #[arg(long, default_value_t = 45)]
    settle: u64,
    /// Seconds between both readings
    #[arg(long, default_value_t = 90)]
    seconds: u64,
    /// ConfigMaps that are made, listed and deleted afterwards, one variant after the other; 0 leaves it out
    #[arg(long, default_value_t = 0)]
    load: usize,
    /// Kubernetes: the minor of 1.x
    #[arg(long, default_value_t = 35)]
    minor: u64,
    /// JSON in one line instead of several
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    ensure!(args.side_by_side > 1, "--side-by-side is 2 at least");
    let variants = variants::chosen(&args.variant, &args.change)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let report = runtime.block_on(Box::pin(measure(&args, &variants)))?;
    match args.json {
        true => println!("{report}"),
        false => println!("{report:#}"),
    }
    Ok(())
}

async fn measure(args: &Args, variants: &[Variant]) -> Result<Value> {
    let mut rounds = Vec::new();
    let default = [Variant::named(DEFAULT)];
    let others = variants.chunks(args.side_by_side - 1);
    let none: &[Variant] = &[];
    let others: Vec<_> = match variants.is_empty() {
        true => vec![none],
        false => others.collect(),
    };
    for others in others {
        let round: Vec<_> = default.iter().chain(others).collect();
        rounds.push(side_by_side(args, &round).await?);
    }
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Ok(json!({
        "date": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "load_after": load.split(' ').next(),
        "kubernetes": format!("1.{}", args.minor),
        "seconds": args.seconds,
        "rounds": rounds,
    }))
}

async fn side_by_side(args: &Args, variants: &[&Variant]) -> Result<Value> {
    let (mut started, mut planes, mut reports) = (Vec::new(), Vec::new(), Vec::new());
    for variant in variants {
        let begin = Instant::now();
        // A flag that a version does not know ends its program, and nobody else's measurement.
        match Box::pin(Plane::start(variant, args.minor)).await {
            Ok(plane) => {
                eprintln!("{}: ready after {:.1?}", variant.name, begin.elapsed());
                started.push(variant);
                planes.push(plane);
            }
            Err(error) if variant.name != DEFAULT => {
                eprintln!("{}: {error:#}", variant.name);
                reports.push(json!({ "variant": variant.name, "error": format!("{error:#}") }));
            }
            Err(error) => return Err(error),
        }
    }
    tokio::time::sleep(Duration::from_secs(args.settle)).await;
    let before = readings(&planes)?;
    let begin = Instant::now();
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let after = readings(&planes)?;
    let between = begin.elapsed();
    for ((variant, plane), (before, after)) in
        started.iter().zip(&planes).zip(before.iter().zip(&after))
    {
        let mut report = difference(before, after, between);
        report["variant"] = json!(variant.name);
        report["changes"] = json!(variant.changes);
        if args.load > 0 {
            report["load"] = load::run(plane, args.load).await?;
        }
        eprintln!("{}: {}", variant.name, report["sum"]);
        reports.push(report);
    }
    Ok(json!(reports))
}

fn readings(planes: &[Plane]) -> Result<Vec<Reading>> {
    planes.iter().map(Plane::reading).collect()
}
