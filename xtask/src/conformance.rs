//! `cargo xtask conformance …`: crate `conformance`, with its own arguments.

use anyhow::Result;

use crate::lab_program;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `[--focus RE] [--version 1.35] [--junit DIR]`, and more; `--help` shows them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    lab_program::run(
        "conformance",
        &args.args,
        "not every test passed that can run here",
    )
}
