//! The `autoscaler` binary: parses the command line and hands over.
//!
//! Invariant: one thread, because one client asks one thing after another, all answers are in
//! memory, and an answer that changes threads takes longer than it takes to make.

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = autoscaler::args::Args::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(autoscaler::run::run(args))
}
