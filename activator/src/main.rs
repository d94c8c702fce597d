//! The `activator` binary: parses the command line and hands over.
//!
//! Invariant: one thread, because it waits and copies bytes, and fifty sleepers should cost nothing.

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = activator::args::Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(activator::run::run(args))
}
