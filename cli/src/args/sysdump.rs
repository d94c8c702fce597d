//! Flags of `covey sysdump`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::waiting::time;

/// `covey sysdump`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Sysdump {
    /// The tenant cluster; without it all of the namespace
    pub(crate) name: Option<String>,
    /// Tenant clusters of all namespaces
    #[arg(long, short = 'A', conflicts_with = "name")]
    pub(crate) all_namespaces: bool,
    /// The archive, which must not be there yet; without it covey-sysdump-<TIME>.tar.gz in the current folder
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Of logs only what is younger: 10m, 1h
    #[arg(long, default_value = "1h", value_parser = time, value_name = "TIME")]
    pub(crate) since: Duration,
    /// Most mebibytes of everything together, before it is compressed; of logs the end is kept
    #[arg(long, default_value_t = 100, value_name = "MEBIBYTES")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) max_size: u32,
    /// Put a keyed hash in the place of each name and address; what it stands for is in <FILE>.names, which you keep
    #[arg(long, conflicts_with = "list")]
    pub(crate) anonymize: bool,
    /// List what would be in it, and write nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Namespace of the operator
    #[arg(long, env = "COVEY_OPERATOR_NAMESPACE", default_value = "covey-system")]
    pub(crate) operator_namespace: String,
}
