//! The `csi-proxy` binary: parses the command line and hands over.
//!
//! Invariant: two threads, because the work is waiting on the network and each thread costs memory.

use clap::Parser;
use csi_proxy::args::{Args, Command};

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match args.command {
        Command::Controller(args) => runtime.block_on(csi_proxy::run::controller::run(*args)),
        Command::Adopt(args) => runtime.block_on(csi_proxy::run::adopt::run(*args)),
        Command::Node(args) => runtime.block_on(csi_proxy::run::node::run(*args)),
    }
}
