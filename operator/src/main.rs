//! The `operator` binary: parses the command line and hands over.

#![allow(clippy::print_stdout)] // `print` is for standard output

use clap::Parser;
use operator::args::{Args, Command, Printed};

fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Run(args) => {
            // The work is waiting on the network: two threads serve hundreds of tenants, and each
            // thread costs memory.
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()?;
            runtime.block_on(operator::run::run(*args))
        }
        Command::Webhook(args) => {
            // One thread, so that the trees of two large bodies are never there at once: they are many
            // times what they were as text.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(operator::webhook::run(*args))
        }
        Command::Print { what } => {
            match what {
                Printed::Crds => print!("{}", operator::print::crds_yaml()?),
                Printed::Rbac => print!("{}", operator::rbac::yaml()?),
                Printed::Config => print!("{}", operator::print::config_yaml()?),
                Printed::Golden => println!("{}", operator::print::golden_json()),
            }
            Ok(())
        }
    }
}
