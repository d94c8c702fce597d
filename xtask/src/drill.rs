//! `cargo xtask drill …`: crate `drill`, with its own arguments.

use anyhow::Result;

use crate::lab_program;

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `restore [--members 3]`; `--help` shows all
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    lab_program::run("drill", &args.args, "the drill failed")
}
