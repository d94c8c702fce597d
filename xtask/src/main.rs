//! The one entry point: `cargo xtask …`.
//!
//! Only the dispatch: every subcommand has a file of its own, with its arguments and a `run`.

mod bench;
mod conformance;
mod crds;
mod demo;
mod deny;
mod deploy;
mod drill;
mod foreign;
mod generated;
mod lab;
mod lab_program;
mod release;
mod test;
mod tidy;
mod workspace;

use std::{io::Write as _, process::ExitCode};

use clap::{Parser, Subcommand};

/// Everything that is done with this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure on the running lab; figures are in docs/benchmarks.md
    Bench(bench::Args),
    /// Run Kubernetes' own conformance tests against a tenant cluster of the running lab
    Conformance(conformance::Args),
    /// Write the CustomResourceDefinitions from their Rust types, and types of foreign kinds, or
    /// check them
    Crds(generated::Args),
    /// Bring the lab up, install the operator, create a tenant cluster and use it
    Demo(demo::Args),
    /// Licences, advisories, banned crates and sources (needs cargo-deny)
    Deny(deny::Args),
    /// Write the chart's roles from the rights that the operator declares, or check them
    Deploy(generated::Args),
    /// An accident in a tenant cluster of the running lab, and its mending, with the time of each step
    Drill(drill::Args),
    /// A real management cluster on this machine
    #[command(subcommand)]
    Lab(lab::Command),
    /// Everything that is published of one version: programs, images, chart, what they are made of
    Release(release::Args),
    /// Format, lints and every tier of tests; brings the lab up and down again
    Test(test::Args),
    /// Crate directions, pure plans, file sizes, headings, words, links
    Tidy,
    /// First process of a simulated host (started by `lab up`)
    #[command(hide = true)]
    LabHost {
        /// The host's folder below .lab/hosts
        folder: std::path::PathBuf,
    },
    /// What T2 needs is built (started by `test`, beside T1)
    #[command(hide = true)]
    PrepareLab(test::tiers::Prepare),
    /// One test (started by nextest for `test`)
    #[command(hide = true)]
    TestAttempt(test::attempt::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(code) => code,
        Err(error) => {
            // One line of causes; a backtrace helps nobody who runs a command.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let done = match command {
        Command::TestAttempt(args) => return test::attempt::run(&args),
        Command::PrepareLab(args) => test::tiers::prepare(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Conformance(args) => conformance::run(&args),
        Command::Crds(args) => crds::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Deny(args) => deny::run(&args),
        Command::Deploy(args) => deploy::run(args),
        Command::Drill(args) => drill::run(&args),
        Command::Lab(command) => lab::run(command),
        Command::Release(args) => release::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Tidy => tidy::run(),
        Command::LabHost { folder } => ::lab::host::supervisor::run(&folder),
    };
    done.map(|()| ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
