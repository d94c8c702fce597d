//! The benches' command line; `cargo xtask bench` calls it.
//!
//! Invariant: results go to standard output, what is going on to standard error.

use std::{io::Write as _, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use api::storage::Hotplug;
use bench::{Options, autoscaler, csi, hosts, restore, rotation, sleep, upgrade, workers};
use clap::{Parser, Subcommand};
use serde::Serialize;

#[derive(Parser)]
#[command(name = "bench", about = "Measures on the lab")]
struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// How long tenants take, one after another and at once, and what the operator costs
    ControlPlane {
        /// Tenants to create one after another
        #[arg(long, default_value_t = 5)]
        tenants: usize,
        /// Sizes of bursts
        #[arg(long, value_delimiter = ',', default_value = "8,20")]
        bursts: Vec<usize>,
        /// No bursts
        #[arg(long, conflicts_with = "bursts")]
        no_bursts: bool,
        /// Kubernetes version of the tenants
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds that one tenant, or one burst, may take
        #[arg(long, default_value_t = 900)]
        patience: u64,
        /// Seconds in which nothing happens and requests are counted
        #[arg(long, default_value_t = 60)]
        idle: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// How long nodes take, and whether a control plane answers while it is scaled and renewed
    Workers {
        /// Pools of one to make one after another
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Size of a bigger pool, which shrinks, grows and rolls; 0 leaves it out
        #[arg(long, default_value_t = 3)]
        pool: i32,
        /// Leave out scaling and renewal under a steady client
        #[arg(long)]
        no_steady: bool,
        /// Kubernetes version of tenant cluster and nodes
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 1200)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// How long a wish of the Cluster Autoscaler takes to be a virtual machine, and a pool from zero
    Autoscaler {
        /// Machines to ask for one after another
        #[arg(long, default_value_t = 20)]
        rounds: usize,
        /// Nodes that a Deployment needs, from zero and back; 0 leaves it out
        #[arg(long, default_value_t = 5)]
        nodes: i32,
        /// Kubernetes version of tenant cluster and nodes
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds in which nothing happens and writes are counted
        #[arg(long, default_value_t = 60)]
        idle: u64,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 1800)]
        patience: u64,
        /// What was measured without the lab, as a JSON object; `cargo xtask bench` passes it
        #[arg(long, default_value = "{}", hide = true)]
        service: String,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// How long volumes take to be bound, attached, and moved from a machine that died
    Csi {
        /// Claims to make one after another
        #[arg(long, default_value_t = 20)]
        claims: usize,
        /// Numbers of disks to attach at once
        #[arg(long, value_delimiter = ',', default_value = "1,10,50")]
        disks: Vec<usize>,
        /// Nodes of the tenant cluster
        #[arg(long, default_value_t = 2)]
        nodes: i32,
        /// Times that a machine with a volume is killed
        #[arg(long, default_value_t = 3)]
        failovers: usize,
        /// Hot-plug by KubeVirt's subresources, a request per disk, instead of by templates
        #[arg(long)]
        subresources: bool,
        /// Kubernetes version of tenant cluster and nodes
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds in which nothing happens and writes are counted
        #[arg(long, default_value_t = 60)]
        idle: u64,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 900)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// How long machines that are reached by SSH take to be nodes and to be clean again, and whether secrets stay
    Hosts {
        /// Machines, one after another
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Hosts, and machines at once; 0 leaves the latter out
        #[arg(long, default_value_t = 10)]
        many: usize,
        /// Kubernetes version of tenant cluster and nodes
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 600)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// How much a backup lacks under load, how long a restore takes, and a member of three that lost its volume
    Restore {
        /// Writes a second under which it is measured how much the backup lacks
        #[arg(long, default_value_t = 200)]
        rate: u32,
        /// Seconds of that; 0 leaves it out
        #[arg(long, default_value_t = 60)]
        load: u64,
        /// Restores, one after another; 0 leaves them out
        #[arg(long, default_value_t = 3)]
        restores: usize,
        /// Members of etcd of the tenant cluster that is restored: 1, 3 or 5
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i32).range(1..=5))]
        members: i32,
        /// MiB of data in it
        #[arg(long, default_value_t = 100)]
        data: usize,
        /// Writes between the full snapshot and each restore: an hour at 10 a second
        #[arg(long, default_value_t = 36_000)]
        deltas: u64,
        /// Members to replace, no sooner than ten minutes after one another; 0 leaves them out
        #[arg(long, default_value_t = 3)]
        replacements: usize,
        /// What is done with its members on purpose, in this order; `none` leaves it out
        #[arg(long, value_delimiter = ',', default_values_t = restore::FLOWS.map(str::to_owned),
            value_parser = clap::builder::PossibleValuesParser::new(restore::FLOWS.iter().copied().chain(["none"])))]
        flows: Vec<String>,
        /// Kubernetes version of the tenant clusters
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 1200)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// What steady clients have of an upgrade, and how long one that cannot be had takes to be what it was
    Upgrade {
        /// The version that is upgraded
        #[arg(long, default_value = "1.35.4")]
        from: String,
        /// What it becomes
        #[arg(long, default_value = "1.36.3")]
        to: String,
        /// Replicas of the control plane, one tenant cluster each
        #[arg(long, value_delimiter = ',', default_value = "1,2")]
        replicas: Vec<i32>,
        /// Upgrades to a version of which there is no image; 0 leaves them out
        #[arg(long, default_value_t = 3)]
        returns: usize,
        /// How long new kube-apiservers serve the version before
        #[arg(long, default_value = "15s")]
        soak: String,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 900)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// What steady clients have of authorities and keys that are turned, one after another
    Rotation {
        /// Replicas of the control plane
        #[arg(long, default_value_t = 2)]
        replicas: i32,
        /// Kubernetes version of the tenant cluster
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 900)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// How long a tenant cluster that sleeps takes to answer the first client that asks
    Sleep {
        /// How often one is waked; no tenant cluster more than four times
        #[arg(long, default_value_t = 8)]
        rounds: usize,
        /// Kubernetes version of the tenant clusters
        #[arg(long, default_value = "1.35.4")]
        kubernetes: String,
        /// Seconds that one step may take
        #[arg(long, default_value_t = 300)]
        patience: u64,
        /// JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse().bench).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(bench: Bench) -> Result<()> {
    let text = match bench {
        Bench::ControlPlane {
            tenants,
            bursts,
            no_bursts,
            kubernetes,
            patience,
            idle,
            json,
        } => {
            let options = Options {
                tenants,
                bursts: if no_bursts { Vec::new() } else { bursts },
                version: kubernetes,
                patience: Duration::from_secs(patience),
                idle: Duration::from_secs(idle),
            };
            let report = Box::pin(bench::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Workers {
            rounds,
            pool,
            no_steady,
            kubernetes,
            patience,
            json,
        } => {
            let options = workers::Options {
                rounds,
                pool,
                steady: !no_steady,
                version: kubernetes,
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(workers::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Autoscaler {
            rounds,
            nodes,
            kubernetes,
            idle,
            patience,
            service,
            json,
        } => {
            let options = autoscaler::Options {
                rounds,
                nodes,
                version: kubernetes,
                idle: Duration::from_secs(idle),
                patience: Duration::from_secs(patience),
                service: serde_json::from_str(&service).context("--service is no JSON object")?,
            };
            let report = Box::pin(autoscaler::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Csi {
            claims,
            disks,
            nodes,
            failovers,
            subresources,
            kubernetes,
            idle,
            patience,
            json,
        } => {
            let hotplug = match subresources {
                true => Hotplug::Subresources,
                false => Hotplug::Declarative,
            };
            let options = csi::Options {
                claims,
                disks,
                nodes,
                hotplug,
                failovers,
                version: kubernetes,
                idle: Duration::from_secs(idle),
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(csi::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Hosts {
            rounds,
            many,
            kubernetes,
            patience,
            json,
        } => {
            let options = hosts::Options {
                rounds,
                many,
                version: kubernetes,
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(hosts::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Restore {
            rate,
            load,
            restores,
            members,
            data,
            deltas,
            replacements,
            mut flows,
            kubernetes,
            patience,
            json,
        } => {
            flows.retain(|flow| flow != "none");
            let options = restore::Options {
                rate,
                load: Duration::from_secs(load),
                restores,
                members,
                data_mib: data,
                deltas,
                replacements,
                flows,
                version: kubernetes,
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(restore::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Upgrade {
            from,
            to,
            replicas,
            returns,
            soak,
            patience,
            json,
        } => {
            let options = upgrade::Options {
                from,
                to,
                replicas,
                returns,
                soak,
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(upgrade::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Rotation {
            replicas,
            kubernetes,
            patience,
            json,
        } => {
            let options = rotation::Options {
                replicas,
                version: kubernetes,
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(rotation::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
        Bench::Sleep {
            rounds,
            kubernetes,
            patience,
            json,
        } => {
            let options = sleep::Options {
                rounds,
                version: kubernetes,
                patience: Duration::from_secs(patience),
            };
            let report = Box::pin(sleep::run(&options, &say)).await?;
            match json {
                true => pretty(&report)?,
                false => report.table(),
            }
        }
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("standard output is closed")
}

fn pretty(report: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

fn say(text: String) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
