//! The command line. Every flag has an environment variable.
//!
//! Invariant: whatever has no sensible default is asked for.

use std::net::IpAddr;

use clap::Parser;
use kit::args::{AdminArgs, LogArgs};
use kit_client::args::ClientArgs;

/// Waits in the place of tenant clusters that sleep, and wakes one whose API is asked for.
#[derive(Clone, Debug, Parser)]
#[command(name = "activator", version)]
pub struct Args {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// The management cluster's API.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Namespace of the operator, with the ConfigMap of sleepers and the Leases
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,
    /// Address on which clients are waited for, at the ports that the ConfigMap says
    #[arg(long, env = "COVEY_LISTEN", value_name = "IP", default_value = "::")]
    pub listen: IpAddr,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent_and_every_flag_has_a_variable() {
        testkit::command_line::assert_consistent_with_variables(Args::command());
    }

    #[test]
    fn all_but_the_namespace_has_a_default() {
        assert!(Args::try_parse_from(["activator"]).is_err());
        let args = Args::try_parse_from(["activator", "--namespace=covey-system"]).unwrap();
        assert_eq!(args.listen, IpAddr::from([0; 16]));
    }
}
