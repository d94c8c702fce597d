//! Flags of `covey connect`.
//!
//! Invariant: what stands behind `--` is the user's own command, and nothing of it is read here.

use std::ffi::OsString;

use clap::Args as ClapArgs;

/// `covey connect`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Connect {
    /// The tenant cluster
    pub(crate) name: String,
    /// The command and its arguments, behind --: kubectl get nodes
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
