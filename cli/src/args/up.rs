//! Flags of `covey up`.
//!
//! Invariant: without any flag it is what the chart is without any value.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args as ClapArgs};

use super::create::DryRun;
use super::waiting::time;

/// `covey up`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Up {
    /// Image of operator and webhook; without it the one of this version
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    /// File with the operator's configuration, as `config` of the chart's values; without it what is there stays
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Secret in covey-system with credentials of the registry; may be repeated
    #[arg(long = "pull-secret", value_name = "NAME")]
    pub(crate) pull_secrets: Vec<String>,
    /// Write nothing: client (the default) prints the objects, server says which of them would be written
    #[arg(long, value_enum, value_name = "WHERE", num_args = 0..=1, default_missing_value = "client")]
    pub(crate) dry_run: Option<DryRun>,
    /// Wait until operator and webhook are ready
    #[arg(long, value_name = "true|false", default_value_t = true, action = ArgAction::Set)]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    pub(crate) wait: bool,
    /// How long it is waited for: 90s, 5m
    #[arg(long, default_value = "5m", value_parser = time, value_name = "TIME")]
    pub(crate) timeout: Duration,
}
