//! The `etcd-agent` binary: parses the command line and hands over.
//!
//! Invariant: the exit code is that of the decision; 2 is a wrong command line.

use std::process::ExitCode;

use clap::Parser;
use etcd_agent::args::{Args, Command};

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Gate(args) => etcd_agent::gate::run(args),
        Command::Backup(args) => etcd_agent::backup::run(*args),
    }
}
