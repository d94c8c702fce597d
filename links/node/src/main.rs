//! The `link-node` binary: parses the command line and hands over.
//!
//! Its first argument `renew` makes it another program, which ends by itself ([`link_node::renew`]).
//! Invariant: two threads are enough: one may encrypt while the other decrypts.

use clap::Parser;

use link_node::renew;

fn main() -> anyhow::Result<()> {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == renew::COMMAND)
    {
        return renew::run(&renew::Args::parse_from(std::env::args_os().skip(1)));
    }
    let args = link_node::args::Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(link_node::run::run(args))
}
