//! Flags of commands that show more than one list: hosts, quotas, the fleet, the tree of a tenant cluster.
//!
//! Invariant: what is only shown changes nothing.

use clap::Args as ClapArgs;

/// `covey hosts` and `covey quota`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Overview {
    /// Only these
    pub(crate) names: Vec<String>,
    /// Of all namespaces
    #[arg(long, short = 'A', conflicts_with = "names")]
    pub(crate) all_namespaces: bool,
}

/// `covey fleet`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Fleet {
    /// The FleetPolicy; without it all, the one that is followed first
    pub(crate) name: Option<String>,
}

/// `covey tree`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Tree {
    /// The tenant cluster
    pub(crate) name: String,
    /// Also what is in its tenant namespace
    #[arg(long)]
    pub(crate) namespaces: bool,
    /// Also nodes and workloads inside of it, which are asked of its own API with the administrator's kubeconfig
    #[arg(long)]
    pub(crate) inside: bool,
}
