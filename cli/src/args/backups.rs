//! Flags of `covey snapshot` and `covey restore`.
//!
//! Invariant: a moment is written as the API has it, so that what was shown can be pasted.

use clap::Args as ClapArgs;

use super::waiting::Waiting;

/// `covey snapshot`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Snapshot {
    /// The tenant cluster
    pub(crate) name: String,
    /// Until when it stays at least, in UTC: 2027-06-30T00:00:00Z; without it as long as the backup's retention says
    #[arg(long, value_name = "MOMENT")]
    pub(crate) keep_until: Option<String>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// `covey restore`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Restore {
    /// The tenant cluster
    pub(crate) name: String,
    /// To this moment, in UTC: 2026-11-26T20:00:00Z; without it to the newest one that the backup has
    #[arg(long, value_name = "MOMENT", conflicts_with = "revision")]
    pub(crate) to: Option<String>,
    /// To this revision of etcd
    #[arg(long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) revision: Option<i64>,
    /// Say whether it can be had, and stop nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}
