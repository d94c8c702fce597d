//! The command line. Every flag has an environment variable.
//!
//! Invariant: whatever has no sensible default is asked for.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Parser;
use ipnet::IpNet;
use kit::args::{AdminArgs, LogArgs};
use kit_client::args::ClientArgs;

use crate::netlink::Below;
use crate::settings::{Family, MAX_PEERS, Pods, Settings};

/// The port of tunnels: WireGuard's usual one.
pub const PORT: u16 = 51820;

/// Who carries packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Driver {
    /// The kernel where it has WireGuard, else this process.
    Auto,
    /// The kernel.
    Kernel,
    /// This process.
    Process,
}

/// The overlay among the nodes of one tenant cluster, on one of them.
#[derive(Clone, Debug, Parser)]
#[command(name = "link-node", version)]
pub struct Args {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// The tenant cluster's API.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Name of this node
    #[arg(long, env = "COVEY_NODE_NAME")]
    pub node_name: String,
    /// Namespace of the ConfigMap with the members
    #[arg(long, env = "COVEY_MEMBERS_NAMESPACE", default_value = "kube-system")]
    pub members_namespace: String,
    /// Addresses of nodes in the overlay
    #[arg(long, env = "COVEY_RANGE", value_name = "CIDR")]
    pub range: IpNet,
    /// Addresses of the tenant cluster's pods
    #[arg(long, env = "COVEY_PODS", value_name = "CIDR")]
    pub pods: IpNet,
    /// Prefix length of one node's pods: shorter ones are refused
    #[arg(long, env = "COVEY_PODS_PREFIX", value_name = "BITS")]
    pub pods_prefix: u8,
    /// How packets of pods travel
    #[arg(long, env = "COVEY_POD_TRAFFIC", value_enum, default_value_t = Pods::Vxlan)]
    pub pod_traffic: Pods,
    /// Which addresses endpoints have
    #[arg(long, env = "COVEY_ENDPOINT_FAMILY", value_enum, default_value_t = Family::Any)]
    pub endpoint_family: Family,
    /// Peers at most
    #[arg(long, env = "COVEY_MAX_PEERS", default_value_t = MAX_PEERS)]
    pub max_peers: usize,

    /// Who carries packets
    #[arg(long, env = "COVEY_DRIVER", value_enum, default_value_t = Driver::Auto)]
    pub driver: Driver,
    /// Name of the network device
    #[arg(long, env = "COVEY_DEVICE", default_value = "covey0")]
    pub device: String,
    /// UDP port that tunnels come to
    #[arg(long, env = "COVEY_PORT", default_value_t = PORT)]
    pub port: u16,
    /// Folder of the private key and of what was known last
    #[arg(long, env = "COVEY_FOLDER", default_value = "/var/lib/covey/overlay")]
    pub folder: PathBuf,
    /// This machine's address in the network below; with the next one, instead of asking the kernel
    #[arg(long, env = "COVEY_BELOW_ADDRESS", requires = "below_mtu")]
    pub below_address: Option<IpAddr>,
    /// MTU of the network below, in bytes
    #[arg(long, env = "COVEY_BELOW_MTU", value_name = "BYTES")]
    pub below_mtu: Option<u16>,
}

impl Args {
    /// What a plan depends on.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            range: self.range.trunc(),
            pods: self.pods.trunc(),
            pods_prefix: self.pods_prefix,
            pod_traffic: self.pod_traffic,
            endpoints: self.endpoint_family,
            max_peers: self.max_peers,
        }
    }

    /// The network below, where it was given.
    #[must_use]
    pub fn below(&self) -> Option<Below> {
        self.below_mtu.map(|mtu| Below {
            address: self.below_address,
            mtu,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn clap_finds_nothing_to_complain_about_and_every_flag_has_a_variable() {
        let command = Args::command();
        command.clone().debug_assert();
        for argument in command
            .get_arguments()
            .filter(|a| a.get_id() != "help" && a.get_id() != "version")
        {
            let variable = argument.get_env().and_then(|name| name.to_str());
            let flag = argument.get_long().unwrap();
            assert!(
                variable.is_some_and(|name| name.starts_with("COVEY_")),
                "{flag}"
            );
            assert!(argument.get_help().is_some(), "{flag} has no help");
        }
    }

    #[test]
    fn ranges_are_asked_for_and_the_rest_has_a_default() {
        let needed = [
            "link-node",
            "--node-name=a",
            "--range=10.200.0.7/16",
            "--pods=10.128.0.0/18",
            "--pods-prefix=24",
        ];
        let args = Args::try_parse_from(needed).unwrap();
        let settings = args.settings();
        assert_eq!(settings.range.to_string(), "10.200.0.0/16");
        assert_eq!((args.port, args.below()), (PORT, None));
        for left_out in 1..needed.len() {
            let mut fewer = needed.to_vec();
            fewer.remove(left_out);
            assert!(Args::try_parse_from(fewer).is_err());
        }
    }
}
