//! The command line. Every flag has an environment variable.
//!
//! Invariant: nothing is read here but flags.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand, ValueEnum};
use kit::args::{AdminArgs, LogArgs, pair};
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
    /// Takes volumes over from the KubeVirt CSI driver; without --apply it only says what it would do
    Adopt(Box<AdoptArgs>),
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
    /// Most volumes on one machine, where the list of offered storage does not say
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
        let offer = settings::read_offer(&self.offer).context("use --offer")?;
        Ok(Settings {
            namespace: self.namespace.clone(),
            cluster_uid: self.cluster_uid.clone(),
            patience: Duration::from_secs(self.patience),
            most_volumes: offer
                .volumes_per_machine
                .map_or(self.most_volumes, usize::from),
            offer,
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

/// Flags of `csi-proxy adopt`, which an administrator runs.
#[derive(Clone, Debug, clap::Args)]
pub struct AdoptArgs {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,

    /// Kubeconfig file of the tenant cluster's administrator
    #[arg(long, env = "COVEY_TENANT_KUBECONFIG", value_name = "FILE")]
    pub tenant_kubeconfig: PathBuf,
    /// Kubeconfig file of the management cluster's administrator
    #[arg(long, env = "COVEY_MANAGEMENT_KUBECONFIG", value_name = "FILE")]
    pub management_kubeconfig: PathBuf,
    /// Tenant namespace: claims of Covey's driver are in it
    #[arg(long, env = "COVEY_NAMESPACE")]
    pub namespace: String,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_CLUSTER_UID")]
    pub cluster_uid: String,
    /// Storage that the tenant cluster is offered, as YAML or JSON
    #[arg(long, env = "COVEY_OFFER", value_name = "LIST")]
    pub offer: String,
    /// Namespace in which the claims of the KubeVirt CSI driver are
    #[arg(long, env = "COVEY_SOURCE_NAMESPACE", value_name = "NAMESPACE")]
    pub source_namespace: String,
    /// Labels that claims of this tenant cluster have there, which is what the ConfigMap of the KubeVirt
    /// CSI driver names for them: key=value. Empty where it was told none; then all claims of that
    /// namespace have to be this tenant's
    #[arg(
        long,
        env = "COVEY_SOURCE_LABELS",
        value_name = "LABELS",
        required = true
    )]
    #[arg(value_parser = labels)]
    pub source_labels: Labels,
    /// Name of the driver that the volumes are of
    #[arg(long, env = "COVEY_SOURCE_DRIVER", value_name = "NAME")]
    #[arg(default_value = crate::adopt::DRIVER)]
    pub source_driver: String,
    /// Which offered class a StorageClass of the tenant cluster becomes: <StorageClass>=<class>; of one that
    /// is not named, the first offered class with the StorageClass that the claim has in the management
    /// cluster
    #[arg(
        long = "class",
        env = "COVEY_CLASS",
        value_name = "PAIR",
        value_delimiter = ','
    )]
    #[arg(value_parser = pair)]
    pub classes: Vec<(String, String)>,
    /// Do it
    #[arg(long, env = "COVEY_APPLY")]
    pub apply: bool,
    /// Seconds to wait for what others have to do, for example binding a claim, before giving up
    #[arg(long, env = "COVEY_WAIT", value_name = "SECONDS", default_value_t = 60)]
    pub wait: u64,
    /// How to say it
    #[arg(long, env = "COVEY_OUTPUT", value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// Form of what is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns for people.
    Table,
    /// A list of objects.
    Json,
}

/// Labels that claims have to have.
pub type Labels = std::collections::BTreeMap<String, String>;

/// Labels, separated by commas.
fn labels(text: &str) -> Result<Labels, String> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts.map(pair).collect()
}

impl AdoptArgs {
    /// What the plan depends on.
    ///
    /// # Errors
    /// When the list of offered storage cannot be used, or a class is named that it does not have.
    pub fn settings(&self) -> anyhow::Result<crate::adopt::Settings> {
        let offer = settings::read_offer(&self.offer).context("use --offer")?;
        for (_, class) in &self.classes {
            if offer.class(Some(class)).is_none() {
                anyhow::bail!("use --class: no class {class} is in --offer");
            }
        }
        Ok(crate::adopt::Settings {
            driver: self.source_driver.clone(),
            namespace: self.source_namespace.clone(),
            labels: self.source_labels.clone(),
            classes: self.classes.iter().cloned().collect(),
            to: Settings {
                namespace: self.namespace.clone(),
                cluster_uid: self.cluster_uid.clone(),
                offer,
                patience: settings::PATIENCE,
                most_volumes: settings::MOST_VOLUMES,
            },
        })
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
        for half in ["controller", "node", "adopt"] {
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
