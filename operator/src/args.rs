//! The command line. Every flag has an environment variable.
//!
//! Invariant: what decides about objects is in the configuration file (`tenant_cp::Settings`),
//! what decides about this process is a flag.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use kit::args::AdminArgs;
use kit::args::LogArgs;
use kit_client::args::ClientArgs;

/// The Covey operator.
#[derive(Debug, Parser)]
#[command(name = "operator", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the operator.
    Run(Box<RunArgs>),
    /// Runs the admission webhook, which needs no operator beside it.
    Webhook(Box<WebhookArgs>),
    /// Prints generated manifests.
    Print {
        /// Which.
        what: Printed,
    },
}

/// Generated manifests.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Printed {
    /// The CustomResourceDefinitions.
    Crds,
    /// ClusterRoles and Role that the code needs.
    Rbac,
    /// The default configuration file.
    Config,
    /// Covey's objects of a golden file, as JSON, with the hash of all of them.
    Golden,
}

/// Flags of every process that serves.
#[derive(Debug, clap::Args)]
pub struct ProcessArgs {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Management API.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Configuration file (YAML, see `print config`), the same for all. Default: none, all defaults.
    #[arg(long, env = "COVEY_CONFIG")]
    pub config: Option<PathBuf>,
    /// Namespace of the Lease and of the Secret with the webhook's certificate.
    #[arg(long, env = "POD_NAMESPACE", default_value = "covey-system")]
    pub namespace: String,
}

/// Flags of `run`.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// What all processes have.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Name of this process in the Lease.
    #[arg(long, env = "POD_NAME", default_value = "operator")]
    pub identity: String,
    /// How many replicas work at a time, each for its share of the users' namespaces. 1: one leads, others wait.
    #[arg(long, env = "COVEY_SHARDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub shards: u16,
    /// Reconciles at the same time.
    #[arg(long, env = "COVEY_CONCURRENCY", default_value_t = 16)]
    pub concurrency: u16,
    /// Seconds from one probe of a tenant cluster's API to the next, for its availability: 4 or more, or 0, which is never.
    #[arg(long, env = "COVEY_PROBE_INTERVAL", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=3600))]
    pub probe_interval: u16,
    /// Tenant clusters that metrics show, each with 60 series at most; of further ones they have only the number.
    #[arg(long, env = "COVEY_METRICS_TENANTS", default_value_t = 2000)]
    pub metrics_tenants: u32,
}

/// Flags of `webhook`.
#[derive(Debug, clap::Args)]
pub struct WebhookArgs {
    /// What all processes have.
    #[command(flatten)]
    pub process: ProcessArgs,
    /// Where admission requests are answered.
    #[arg(long, env = "COVEY_WEBHOOK_ADDRESS", default_value = "0.0.0.0:9443")]
    pub webhook_address: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
