//! Flags of `covey connect`.
//!
//! Invariant: what stands behind `--` is the user's own command, and nothing of it is read here.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args as ClapArgs;

use super::waiting::time;

/// `covey connect`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Connect {
    /// The tenant cluster
    pub(crate) name: String,
    /// With these rights and in your own name (`covey kubeconfig --profile`), instead of the administrator's
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// How long its certificate lasts, 10m to 24h
    #[arg(long, default_value = "1h", value_parser = time, requires = "profile", value_name = "TIME")]
    pub(crate) ttl: Duration,
    /// The command and its arguments, behind --: kubectl get nodes
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl Connect {
    /// With the administrator's kubeconfig, and no command yet.
    pub(crate) fn administrators(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            profile: None,
            ttl: Duration::from_secs(3600),
            command: Vec::new(),
        }
    }
}
