//! The `link-node` binary: parses the command line and hands over.
//!
//! Invariant: two threads are enough: one may encrypt while the other decrypts.

use clap::Parser;

fn main() -> anyhow::Result<()> {
    let args = link_node::args::Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(link_node::run::run(args))
}
