//! The command line. Every flag has an environment variable.
//!
//! Invariant: nothing is read here but flags.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use kit::args::AdminArgs;
use kit::args::LogArgs;
use kit_client::args::{ClientArgs, TENANT_BURST, TENANT_QPS, positive};

use crate::node::host::Folders;
use crate::node::server;
use crate::settings::{self, Settings};

/// The CSI driver of one tenant cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "csi-proxy", version)]
pub struct Args {
    /// Which half of it.
    #[command(subcommand)]
    pub command: Command,
}

/// Which half of the driver.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serves volumes, outside of the tenant cluster
    Controller(Box<ControllerArgs>),
    /// Mounts volumes, on a node of the tenant cluster
    Node(Box<NodeArgs>),
}

/// Flags of `csi-proxy controller`.
#[derive(Clone, Debug, clap::Args)]
pub struct ControllerArgs {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Kubeconfig file of the management cluster; without it the pod's service account, or what KUBECONFIG
    /// names
    #[arg(long, env = "COVEY_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Requests per second to the management cluster's API in the long run; what releases volumes has a
    /// reserve besides
    #[arg(long, env = "COVEY_CLIENT_QPS", value_name = "NUMBER")]
    #[arg(default_value_t = TENANT_QPS, value_parser = positive)]
    pub client_qps: f64,
    /// Requests to the management cluster's API at once, before the rate limit holds them back
    #[arg(long, env = "COVEY_CLIENT_BURST", value_name = "NUMBER")]
    #[arg(default_value_t = TENANT_BURST, value_parser = clap::value_parser!(u32).range(1..))]
    pub client_burst: u32,
    /// Unix socket that the sidecars use
    #[arg(long, env = "COVEY_CSI_SOCKET", value_name = "FILE")]
    #[arg(default_value = "/run/csi/csi.sock")]
    pub socket: PathBuf,
    /// Tenant namespace: virtual machines and claims are in it
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_CLUSTER_UID")]
    pub cluster_uid: String,
    /// Storage that the tenant cluster is offered, as YAML or JSON
    #[arg(long, env = "COVEY_OFFER", value_name = "LIST")]
    pub offer: String,
    /// Seconds that a call waits before it answers that it is not done yet
    #[arg(long, env = "COVEY_PATIENCE", value_name = "SECONDS")]
    #[arg(default_value_t = crate::settings::PATIENCE.as_secs())]
    pub patience: u64,
    /// Most volumes on one machine
    #[arg(long, env = "COVEY_MOST_VOLUMES", value_name = "NUMBER")]
    #[arg(default_value_t = crate::settings::MOST_VOLUMES)]
    pub most_volumes: usize,
}

impl ControllerArgs {
    /// How the management cluster's API is reached.
    #[must_use]
    pub fn client(&self) -> ClientArgs {
        ClientArgs {
            kubeconfig: self.kubeconfig.clone(),
            qps: self.client_qps,
            burst: self.client_burst,
        }
    }

    /// What answers depend on.
    ///
    /// # Errors
    /// When the list of offered storage cannot be used.
    pub fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings {
            namespace: self.namespace.clone(),
            cluster_uid: self.cluster_uid.clone(),
            offer: settings::read_offer(&self.offer).context("use --offer")?,
            patience: Duration::from_secs(self.patience),
            most_volumes: self.most_volumes,
        })
    }
}

/// Flags of `csi-proxy node`.
#[derive(Clone, Debug, clap::Args)]
pub struct NodeArgs {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Client of the tenant cluster's API, which is read for the zone alone.
    #[command(flatten)]
    pub client: ClientArgs,

    /// Unix socket that the kubelet uses; it has to have this path for the kubelet, too
    #[arg(long, env = "COVEY_CSI_SOCKET", value_name = "FILE")]
    #[arg(default_value = "/var/lib/kubelet/plugins/csi.covey.dev/csi.sock")]
    pub socket: PathBuf,
    /// Unix socket by which the kubelet finds the driver
    // The kubelet sends this path as the name of the host (`:authority`), with %2F for each slash. That
    // is one that servers may take only because all of it but the driver's name is before the @.
    #[arg(long, env = "COVEY_REGISTRATION_SOCKET", value_name = "FILE")]
    #[arg(default_value = "/var/lib/kubelet/plugins_registry/covey@csi.covey.dev-reg.sock")]
    pub registration_socket: PathBuf,
    /// Name of the machine, which is that of its node
    #[arg(long, env = "NODE_NAME")]
    pub node_name: String,
    /// Tell the kubelet in which zone the machine is, as its Node says
    #[arg(long, env = "COVEY_TOPOLOGY")]
    pub topology: bool,
    /// Folder of the kubelet, in which all volumes are
    #[arg(long, env = "COVEY_KUBELET_FOLDER", value_name = "FOLDER")]
    #[arg(default_value = "/var/lib/kubelet")]
    pub kubelet_folder: PathBuf,
    /// Folder in which is written down which disk a volume has
    #[arg(long, env = "COVEY_RECORDS", value_name = "FOLDER")]
    #[arg(default_value = "/var/lib/kubelet/plugins/csi.covey.dev/volumes")]
    pub records: PathBuf,
    /// Folder of devices
    #[arg(long, env = "COVEY_DEVICES", value_name = "FOLDER")]
    #[arg(default_value = "/dev")]
    pub devices: PathBuf,
    /// The kernel's list of disks
    #[arg(long, env = "COVEY_DISKS", value_name = "FOLDER")]
    #[arg(default_value = "/sys/block")]
    pub disks: PathBuf,
    /// Seconds that a call waits for a disk before it answers that there is none yet
    #[arg(long, env = "COVEY_PATIENCE", value_name = "SECONDS")]
    #[arg(default_value_t = crate::settings::PATIENCE.as_secs())]
    pub patience: u64,
    /// Most volumes on this machine
    #[arg(long, env = "COVEY_MOST_VOLUMES", value_name = "NUMBER")]
    #[arg(default_value_t = crate::settings::MOST_VOLUMES)]
    pub most_volumes: usize,
}

impl NodeArgs {
    /// What answers depend on.
    #[must_use]
    pub fn settings(&self) -> server::Settings {
        server::Settings {
            name: self.node_name.clone(),
            most_volumes: i64::try_from(self.most_volumes).unwrap_or(i64::MAX),
            patience: Duration::from_secs(self.patience),
            topology: self.topology,
            folders: Folders {
                disks: self.disks.clone(),
                devices: self.devices.clone(),
                kubelet: self.kubelet_folder.clone(),
                records: self.records.clone(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn clap_has_nothing_to_complain_about_and_every_flag_has_a_variable() {
        let command = Args::command();
        command.clone().debug_assert();
        for half in ["controller", "node"] {
            let flags = command.find_subcommand(half).unwrap().get_arguments();
            let flags: Vec<_> = flags.filter(|a| a.get_id() != "help").collect();
            assert!(flags.len() > 6);
            for flag in flags {
                assert!(flag.get_env().is_some(), "{} has none", flag.get_id());
            }
        }
    }

    #[test]
    fn what_tenants_write_causes_few_requests_by_default() {
        let controller = [
            "csi-proxy",
            "controller",
            "--namespace",
            "ns",
            "--cluster-uid",
            "uid",
            "--offer",
            "{}",
        ];
        let parse = |more: &[&str]| Args::try_parse_from([&controller[..], more].concat());
        let Command::Controller(args) = parse(&[]).unwrap().command else {
            panic!("the other half")
        };
        assert_eq!((args.client().qps, args.client().burst), (20.0, 50));
        assert!(parse(&["--client-qps", "0"]).is_err());
    }

    /// grpc-go: `encodeAuthority`, of a path.
    #[test]
    fn the_kubelet_may_call_the_socket_of_the_registration_by_its_path() {
        let node = Args::command();
        let node = node.find_subcommand("node").unwrap();
        let mut flags = node.get_arguments();
        let socket = flags.find(|flag| flag.get_id() == "registration_socket");
        let path = socket.unwrap().get_default_values()[0].to_str().unwrap();
        let authority = path.replace('/', "%2F").parse::<http::uri::Authority>();
        assert_eq!(authority.unwrap().host(), "csi.covey.dev-reg.sock");
    }
}
