//! The command line. Every flag has an environment variable.
//!
//! Invariant: what decides about data has no default.

pub mod append;
pub mod backup;
pub mod in_place;
pub mod reading;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// Beside each member of a tenant cluster's etcd.
#[derive(Clone, Debug, Parser)]
#[command(name = "etcd-agent", version)]
pub struct Args {
    /// What it is to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What it is to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Decides whether etcd may start on its data directory: exit code 0, or a reason (docs/etcd.md)
    Gate(GateArgs),
    /// Backs the etcd of a tenant cluster up, reads a backup, restores it (docs/backup-format.md)
    Backup(Box<backup::BackupArgs>),
}

/// Flags of `etcd-agent gate`.
#[derive(Clone, Debug, clap::Args)]
pub struct GateArgs {
    /// The value of etcd's flag of this name; the folder above it is the volume, which has the marker
    #[arg(long, env = "COVEY_ETCD_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// The value of etcd's flag --name
    #[arg(long, env = "POD_NAME", value_name = "NAME")]
    pub member: String,
    /// The value of etcd's flag of this name
    #[arg(long, env = "COVEY_ETCD_INITIAL_CLUSTER_STATE")]
    pub initial_cluster_state: ClusterState,
    /// What the operator knows of the members, as JSON; read afresh at each start
    #[arg(long, env = "COVEY_ETCD_IDENTITY", value_name = "FILE")]
    pub identity: PathBuf,
    /// Where the sentence goes for the pod's status; not made if it is not there
    #[arg(long, env = "COVEY_TERMINATION_LOG", value_name = "FILE")]
    #[arg(default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
    /// Folder with golden files, of which the operator's file may name one
    #[arg(long, env = "COVEY_GOLDEN_FILES", value_name = "DIR")]
    #[arg(default_value = "/golden")]
    pub golden_files: PathBuf,
    /// The program that restores one, of the same minor as etcd
    #[arg(long, env = "COVEY_ETCDUTL", value_name = "FILE")]
    #[arg(default_value = "/usr/local/bin/etcdutl")]
    pub etcdutl: PathBuf,
    /// Seconds after which a volume that does not answer counts as unreadable
    #[arg(
        long,
        env = "COVEY_GATE_DEADLINE",
        value_name = "SECONDS",
        default_value_t = 60
    )]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub deadline: u64,
}

impl GateArgs {
    /// How long a decision may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline)
    }
}

/// What etcd is told about its cluster. It is the same for all members, and older than the identity
/// file by as much as the pod is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum ClusterState {
    /// An etcd without data makes a new cluster.
    New,
    /// An etcd without data joins one.
    Existing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const NEEDED: [&str; 6] = [
        "etcd-agent",
        "gate",
        "--data-dir=/var/lib/etcd/data",
        "--member=etcd-0",
        "--initial-cluster-state=new",
        "--identity=/etc/covey/etcd-identity/identity.json",
    ];

    #[test]
    fn command_line_is_consistent_and_every_flag_has_a_variable() {
        let command = Args::command();
        command.clone().debug_assert();
        every_flag_has_a_variable(&command);
    }

    fn every_flag_has_a_variable(command: &clap::Command) {
        for command in command.get_subcommands() {
            for flag in command.get_arguments().filter(|a| a.get_id() != "help") {
                assert!(flag.get_env().is_some(), "{} has none", flag.get_id());
            }
            every_flag_has_a_variable(command);
        }
    }

    #[test]
    fn what_decides_about_data_is_asked_for() {
        let Command::Gate(args) = Args::try_parse_from(NEEDED).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(args.initial_cluster_state, ClusterState::New);
        assert_eq!(args.deadline(), Duration::from_secs(60));
        for missing in 2..NEEDED.len() {
            let rest = NEEDED.iter().enumerate().filter(|(at, _)| *at != missing);
            // A variable of the pod that runs the tests must not stand in.
            if std::env::var_os("POD_NAME").is_none() {
                assert!(Args::try_parse_from(rest.map(|(_, flag)| *flag)).is_err());
            }
        }
        let with = |flag| Args::try_parse_from(NEEDED.into_iter().chain([flag]));
        assert!(with("--deadline=0").is_err());
        assert!(with("--deadline=5").is_ok());
    }
}
