//! `lab-agent`: what a node of the lab needs and a real cluster brings along, namely enforcement
//! of NetworkPolicies, storage and addresses for load balancers; if asked for, virtual machines that hosts play.
//! For the lab alone; never ship it.
//!
//! Invariant: it runs inside the node's network and mount namespaces and changes nothing but the
//! nftables table of its own, what is below its two storage directories, their loop devices, its
//! storage class, the volumes it made and the status of Services of type LoadBalancer; with `--machines`
//! also KubeVirt's kinds, what is of them, and a label of its node.

pub mod balancer;
pub mod block;
pub mod machines;
pub mod network;
pub mod storage;
mod watch;

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use ipnet::Ipv4Net;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use self::{network::render::Refusal, storage::plan::Place};

/// Network policies, local and block volumes and load balancers' addresses for one node of the lab.
///
/// Runs inside the node's network and mount namespaces, as root. Ends on SIGTERM and leaves its
/// rules and volumes in place. RUST_LOG sets what is logged ("info" if unset).
#[derive(Clone, Debug, Parser)]
#[command(name = "lab-agent", version)]
pub struct Options {
    /// Kubeconfig of a cluster administrator.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Name of this node.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// Directory for the volumes, as the kubelet sees it; made if need be.
    #[arg(long, value_name = "DIR")]
    pub storage_dir: PathBuf,
    /// Directory for block volumes; without it there are none.
    #[arg(long, value_name = "DIR", requires = "block_socket")]
    pub block_dir: Option<PathBuf>,
    /// Socket of block storage, for the sidecars of CSI.
    #[arg(long, value_name = "FILE", requires = "block_dir")]
    pub block_socket: Option<PathBuf>,
    /// Directory where the container runtime's CNI library keeps results.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/cni/results")]
    pub cni_results: PathBuf,
    /// Addresses for Services of type LoadBalancer; without it they get none. One agent of the lab
    /// at most has it.
    #[arg(long, value_name = "NETWORK")]
    pub load_balancers: Option<Ipv4Net>,
    /// What virtual machines are made of that are played by hosts, as a file of `lab up`; without it
    /// KubeVirt's kinds are left alone. Read again for each machine.
    #[arg(long, value_name = "FILE")]
    pub machines: Option<PathBuf>,
    /// What happens to packets that no policy allows.
    #[arg(long, value_enum, default_value_t)]
    pub refuse: Refusal,
    /// Format of the log, on standard error.
    #[arg(long, value_enum, default_value_t, env = "LAB_AGENT_LOG")]
    pub log: LogFormat,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the node cannot be served at all: no kubeconfig, no storage directory, no CNI results. An
/// API server that is away is waited for.
pub async fn run(options: Options) -> anyhow::Result<()> {
    start_log(options.log);
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let client = client(&options).await?;
    let directory = fs::create_dir_all(&options.storage_dir)
        .and_then(|()| options.storage_dir.canonicalize())
        .with_context(|| format!("cannot use {} for volumes", options.storage_dir.display()))?;
    tracing::info!(node = options.node, directory = %directory.display(), "lab-agent starts");
    let place = Place {
        node: options.node.clone(),
        directory,
    };
    let settings = network::Settings {
        node: options.node,
        cni_results: options.cni_results,
        refusal: options.refuse,
    };
    let block = options.block_dir.zip(options.block_socket);
    let block = block.map(|(folder, socket)| block::Place {
        node: settings.node.clone(),
        folder,
        socket,
    });
    let block = async move {
        match block {
            Some(place) => block::run(place).await,
            None => std::future::pending().await,
        }
    };
    let node = settings.node.clone();
    let machines = options
        .machines
        .map(|settings| machines::place::Place { node, settings });
    let of_machines = client.clone();
    let machines = async move {
        match machines {
            Some(place) => machines::run(of_machines, place).await,
            None => std::future::pending().await,
        }
    };
    let balancer = client.clone();
    let balancer = async move {
        match options.load_balancers {
            Some(range) => balancer::run(balancer, range).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        ended = balancer => ended.context("load balancers"),
        ended = block => ended.context("block storage"),
        ended = machines => ended.context("virtual machines"),
        ended = network::run(client.clone(), settings) => ended.context("network policies"),
        ended = storage::run(client, place) => ended.context("storage"),
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
    }
}

async fn client(options: &Options) -> anyhow::Result<Client> {
    let file = options.kubeconfig.display();
    let kubeconfig =
        Kubeconfig::read_from(&options.kubeconfig).with_context(|| format!("cannot use {file}"))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("{file} names no usable cluster"))?;
    Client::try_from(config).with_context(|| format!("{file} makes no usable client"))
}

fn start_log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().init(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn options_are_sound_and_the_documented_call_is_enough() {
        Options::command().debug_assert();
        let call = "lab-agent --kubeconfig k --node management-0 --storage-dir d";
        let options = Options::try_parse_from(call.split(' ')).unwrap();
        assert_eq!(options.node, "management-0");
        assert_eq!(options.refuse, Refusal::Reject);
    }
}
