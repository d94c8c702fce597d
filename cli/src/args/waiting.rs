//! Flags of commands that wait, and lengths of time.
//!
//! Invariant: a length of time is written as in Kubernetes' objects, and is never none.

use std::time::Duration;

use clap::Args as ClapArgs;

/// `--wait` and `--timeout`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Waiting {
    /// Wait until it is as it should be, and say how it goes
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long it is waited for: 90s, 5m
    #[arg(long, default_value = "10m", value_parser = time, value_name = "TIME")]
    pub(crate) timeout: Duration,
}

/// A length of time as Kubernetes writes it.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let parsed = api::Duration::from(text).get();
    parsed
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write a time such as 90s, 5m or 1h30m".to_owned())
}
