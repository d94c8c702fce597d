//! The `ccm` binary: parses the command line and hands over.
//!
//! Invariant: two threads, because the work is waiting on the network and each thread costs memory.

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = ccm::args::Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(ccm::run::run(args))
}
