//! Flags of commands that let somebody into a tenant cluster.
//!
//! Invariant: without any flag nobody gets a secret.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use super::waiting::time;

/// Which rights, for whom and for how long.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct GrantWanted {
    /// Which rights: admin, view, or others that the platform has
    #[arg(long, default_value = "admin")]
    pub(crate) profile: String,
    /// For whom, where that is not you; you have to have the right to impersonate them
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// A group of yours to be in there, too; what it may lasts until the certificate ends
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// How long a certificate lasts, 10m to 24h
    #[arg(long, default_value = "1h", value_parser = time, value_name = "TIME")]
    pub(crate) ttl: Duration,
    /// A token instead of a certificate, for where a proxy before the tenant cluster ends TLS; it is a ServiceAccount there
    #[arg(long, conflicts_with = "group")]
    pub(crate) token: bool,
}

/// `covey kubeconfig`.
#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Kubeconfig {
    #[command(subcommand)]
    pub(crate) grants: Option<Grants>,
    /// The tenant cluster
    #[arg(required = true)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) rights: GrantWanted,
    /// Put a certificate with its key into it, for tools that run no programs for one; it ends with --ttl
    #[arg(long, conflicts_with = "token")]
    pub(crate) embed: bool,
    /// The administrator's own from its Secret, which lasts a year and is nobody's by name
    #[arg(long, conflicts_with_all = ["embed", "profile", "user", "group", "ttl", "token"])]
    pub(crate) break_glass: bool,
    /// Write it to a new file that only you can read, instead of standard output
    #[arg(long, short = 'f', value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Add it as a context to the kubeconfig: the first file of KUBECONFIG, or ~/.kube/config
    #[arg(long, conflicts_with = "file")]
    pub(crate) merge: bool,
    /// Make that the current context; commands of covey still go to the management cluster
    #[arg(long, requires = "merge")]
    pub(crate) set_current: bool,
    /// Name of that context; without it <NAMESPACE>/<NAME>
    #[arg(long, requires = "merge", value_name = "NAME")]
    pub(crate) context_name: Option<String>,
    /// Print it with its secret although standard output is a terminal
    #[arg(long, conflicts_with_all = ["file", "merge"])]
    pub(crate) show: bool,
}

/// What is done about grants that there are.
#[derive(Debug, Subcommand)]
pub(crate) enum Grants {
    /// List who was let into tenant clusters of the namespace, as what, and until when
    List(List),
    /// End the rights of grants at once, though their certificates last
    Revoke(Revoke),
}

/// `covey kubeconfig list`.
#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Only those of this tenant cluster
    pub(crate) name: Option<String>,
    /// In all namespaces
    #[arg(long, short = 'A')]
    pub(crate) all_namespaces: bool,
}

/// `covey kubeconfig revoke`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Revoke {
    /// The grants, as `covey kubeconfig list` names them
    #[arg(required_unless_present_any = ["all", "of"])]
    pub(crate) names: Vec<String>,
    /// All that are for this user
    #[arg(
        long = "user",
        id = "of",
        value_name = "USER",
        conflicts_with = "names"
    )]
    pub(crate) user: Option<String>,
    /// All of the namespace
    #[arg(long, conflicts_with_all = ["names", "of"])]
    pub(crate) all: bool,
}

/// `covey credential`.
#[derive(Debug, Subcommand)]
pub(crate) enum Credential {
    /// Print a credential for kubectl, as kubeconfigs of `covey kubeconfig` ask for it
    Get(Get),
}

/// `covey credential get`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Get {
    /// The tenant cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: String,
    /// Its UID: another one of its name is refused
    #[arg(long)]
    pub(crate) uid: String,
    #[command(flatten)]
    pub(crate) rights: GrantWanted,
}
