//! The `covey-dashboard` binary: parses the command line and hands over.
//!
//! Invariant: one thread, because it waits for the API and writes pages.

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = dashboard::args::Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(dashboard::run::run(args))
}
