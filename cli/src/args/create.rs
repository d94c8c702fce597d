//! Flags of `covey create`.
//!
//! Invariant: what has no flag has the definition's default; nothing is defaulted twice.

use std::path::PathBuf;

use api::node_pool::{Taint, TaintEffect};
use clap::{Args as ClapArgs, ValueEnum};

use super::waiting::Waiting;

/// Whether anything is made at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum DryRun {
    /// Only print what would be sent
    Client,
    /// Let the API judge it, and make nothing
    Server,
}

/// How the API of a tenant cluster is published.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Endpoint {
    /// Inside the management cluster only
    ClusterIp,
    /// At a port of every node of the management cluster
    NodePort,
    /// By a load balancer of the management cluster
    LoadBalancer,
}

/// Flags of machines.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct MachineFlags {
    /// Processors of each machine
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpu: Option<i32>,
    /// Memory of each machine: 4Gi
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<String>,
    /// Image with the disk of each machine; without it the operator's for the version
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
}

/// `covey create cluster`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CreateCluster {
    /// Its name
    pub(crate) name: String,
    /// Version of Kubernetes: 1.35.4
    #[arg(
        long = "version",
        id = "kubernetes",
        value_name = "VERSION",
        required_unless_present = "from"
    )]
    pub(crate) version: Option<String>,
    /// File with a TenantCluster, in YAML or JSON, whose spec is taken; what flags say goes before it
    #[arg(long = "file", short = 'f', id = "from", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// How its API is published
    #[arg(long, value_enum)]
    pub(crate) endpoint: Option<Endpoint>,
    /// Host name at which its API is published
    #[arg(long)]
    pub(crate) host: Option<String>,
    /// Pods of the control plane
    #[arg(long, value_name = "NUMBER")]
    pub(crate) control_plane: Option<i32>,
    /// Members of etcd: 1 or 3
    #[arg(long, value_name = "NUMBER")]
    pub(crate) etcd: Option<i32>,
    /// BackupTarget that etcd is backed up to
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    /// Addons that are switched on or off: csi=on; may be repeated
    #[arg(long = "addon", value_name = "ADDON=on|off", value_parser = addon)]
    pub(crate) addons: Vec<(String, bool)>,
    /// Machines of a first node pool of virtual machines
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..=1000))]
    pub(crate) workers: Option<i32>,
    /// Name of that node pool; without it <NAME>-workers
    #[arg(long, value_name = "NAME", requires = "workers")]
    pub(crate) pool: Option<String>,
    #[command(flatten)]
    pub(crate) machines: MachineFlags,
    /// Make nothing
    #[arg(long, value_enum, value_name = "WHERE")]
    pub(crate) dry_run: Option<DryRun>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// `covey create pool`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct CreatePool {
    /// Its name
    pub(crate) name: String,
    /// The tenant cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: String,
    /// How many machines
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(i32).range(0..=1000))]
    pub(crate) workers: i32,
    /// Fewest machines, where the autoscaler decides how many
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "max",
        conflicts_with = "workers"
    )]
    pub(crate) min: Option<i32>,
    /// Most machines, where the autoscaler decides how many
    #[arg(long, value_name = "NUMBER", conflicts_with = "workers")]
    pub(crate) max: Option<i32>,
    #[command(flatten)]
    pub(crate) machines: MachineFlags,
    /// Labels of its nodes: tier=web; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Taints of its nodes: tier=web:NoSchedule, or gpu:NoExecute; may be repeated
    #[arg(long = "taint", value_name = "KEY[=VALUE]:EFFECT", value_parser = taint)]
    pub(crate) taints: Vec<Taint>,
    /// Make nothing
    #[arg(long, value_enum, value_name = "WHERE")]
    pub(crate) dry_run: Option<DryRun>,
    #[command(flatten)]
    pub(crate) waiting: Waiting,
}

/// Names of addons as the definition has them.
const ADDONS: [&str; 6] = [
    "coreDNS",
    "kubeProxy",
    "konnectivity",
    "cloudController",
    "csi",
    "autoscaler",
];

fn addon(text: &str) -> Result<(String, bool), String> {
    let form = || {
        format!(
            "write ADDON=on or ADDON=off; addons are {}",
            ADDONS.join(", ")
        )
    };
    let (name, value) = text.split_once('=').ok_or_else(form)?;
    let mut all = ADDONS.into_iter();
    let name = all.find(|known| known.eq_ignore_ascii_case(name));
    let is_on = match value {
        "on" => true,
        "off" => false,
        _ => return Err(form()),
    };
    name.map(|name| (name.to_owned(), is_on)).ok_or_else(form)
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let parts = parts.map(|(key, value)| (key.to_owned(), value.to_owned()));
    parts.ok_or_else(|| "write KEY=VALUE".to_owned())
}

fn taint(text: &str) -> Result<Taint, String> {
    let form = || {
        "write KEY=VALUE:EFFECT or KEY:EFFECT; effects are NoSchedule, PreferNoSchedule, NoExecute"
            .to_owned()
    };
    let (rest, effect) = text.rsplit_once(':').ok_or_else(form)?;
    let (key, value) = match rest.split_once('=') {
        Some((key, value)) => (key, Some(value.to_owned())),
        None => (rest, None),
    };
    let all = [
        TaintEffect::NoSchedule,
        TaintEffect::PreferNoSchedule,
        TaintEffect::NoExecute,
    ];
    let mut all = all.into_iter();
    let effect = all.find(|known| known.as_str() == effect);
    match (key, effect) {
        ("", _) | (_, None) => Err(form()),
        (key, Some(effect)) => Ok(Taint {
            key: key.to_owned(),
            value,
            effect,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addons_are_known_by_name_in_any_case() {
        assert_eq!(addon("coredns=off"), Ok(("coreDNS".to_owned(), false)));
        assert_eq!(addon("csi=on"), Ok(("csi".to_owned(), true)));
        assert!(addon("dns=on").unwrap_err().contains("coreDNS"));
        assert!(addon("csi=yes").is_err());
    }

    #[test]
    fn taints_are_written_as_kubectl_writes_them() {
        let made = taint("example.com/gpu=yes:NoExecute").unwrap();
        assert_eq!(
            (made.key.as_str(), made.value.as_deref()),
            ("example.com/gpu", Some("yes"))
        );
        assert_eq!(made.effect, TaintEffect::NoExecute);
        assert_eq!(taint("gpu:NoSchedule").unwrap().value, None);
        for bad in ["gpu", "gpu=yes", ":NoSchedule", "gpu:Never"] {
            assert!(
                taint(bad).unwrap_err().contains("PreferNoSchedule"),
                "{bad}"
            );
        }
    }
}
