//! Flags of `covey dashboard`.
//!
//! Invariant: without any flag no program is started and no secret is shown.

use clap::Args as ClapArgs;

/// `covey dashboard`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Dashboard {
    /// Port of 127.0.0.1 that leads to it; without it one that is free
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(crate) port: u16,
    /// Open it in the browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Print the token of this context, too, by which you log in there; it is a secret
    #[arg(long)]
    pub(crate) token: bool,
    /// Namespace of the operator
    #[arg(long, env = "COVEY_OPERATOR_NAMESPACE", default_value = "covey-system")]
    pub(crate) operator_namespace: String,
}
