//! Flags of `covey doctor`.
//!
//! Invariant: without `--deep` no Secret is read and no tenant cluster is asked with a credential.

use clap::{Args as ClapArgs, ValueEnum};

/// `covey doctor`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Doctor {
    /// The tenant cluster; without it the whole installation and all of the namespace
    pub(crate) name: Option<String>,
    /// Tenant clusters of all namespaces
    #[arg(long, short = 'A', conflicts_with = "name")]
    pub(crate) all_namespaces: bool,
    /// Before an installation: whether this management cluster has what Covey needs
    #[arg(long, conflicts_with_all = ["name", "all_namespaces", "deep"])]
    pub(crate) pre: bool,
    /// Also look inside the tenant cluster, with the administrator's kubeconfig
    #[arg(long, requires = "name")]
    pub(crate) deep: bool,
    /// Checks that are not made, by name or number; may be repeated
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub(crate) skip: Vec<String>,
    /// Only these checks are made
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// From which level on the exit code is 3
    #[arg(long, value_enum, default_value_t = FailOn::Error)]
    pub(crate) fail_on: FailOn,
    /// Namespace of the operator
    #[arg(long, env = "COVEY_OPERATOR_NAMESPACE", default_value = "covey-system")]
    pub(crate) operator_namespace: String,
}

/// From which level on `covey doctor` fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum FailOn {
    /// Errors only
    Error,
    /// Warnings too
    Warning,
}
