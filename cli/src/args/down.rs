//! Flags of `covey down`.
//!
//! Invariant: without `--yes` nothing goes that nobody was asked about.

use clap::Args as ClapArgs;

use super::waiting::Waiting;

/// `covey down`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Down {
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}
