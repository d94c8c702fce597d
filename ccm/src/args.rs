//! The command line. Every flag has an environment variable.
//!
//! Invariant: a flag wins over the same thing in `--cloud-config`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use api::names::{COMPONENT_WORKER, LABEL_COMPONENT, LABEL_TENANT_UID};
use clap::{Parser, ValueEnum};
use ipnet::IpNet;
use kit::args::{AdminArgs, LogArgs, pair};
use kit_client::args::{ManagementRateArgs, positive};

use crate::args::cloud_config::CloudConfig;
use crate::limits::{self, Limits};
use crate::settings::{Endpoints, IpMode, MachineAddresses, Settings};

pub mod cloud_config;

/// The cloud controller manager of one tenant cluster.
#[derive(Clone, Debug, Parser)]
#[command(name = "ccm", version)]
pub struct Args {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,

    /// Kubeconfig file of the tenant cluster, with a client certificate
    #[arg(
        long,
        env = "COVEY_TENANT_KUBECONFIG",
        value_name = "FILE",
        visible_alias = "kubeconfig"
    )]
    pub tenant_kubeconfig: PathBuf,
    /// Kubeconfig file of the management cluster; without it the pod's service account
    #[arg(long, env = "COVEY_MANAGEMENT_KUBECONFIG", value_name = "FILE")]
    pub management_kubeconfig: Option<PathBuf>,
    /// Requests per second to the tenant cluster's API in the long run
    #[arg(long, env = "COVEY_CLIENT_QPS", default_value_t = 200.0, value_parser = positive)]
    pub client_qps: f64,
    /// Requests to the tenant cluster's API at once, before the rate limit holds them back
    #[arg(
        long,
        env = "COVEY_CLIENT_BURST",
        default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub client_burst: u32,
    /// How fast the management cluster's API is asked.
    #[command(flatten)]
    pub management: ManagementRateArgs,
    /// Tenant namespace: virtual machines, mirrors and the Lease are in it
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: Option<String>,
    /// UID of the TenantCluster; any text that no other tenant cluster has, and that stays
    #[arg(long, env = "COVEY_CLUSTER_UID")]
    pub cluster_uid: Option<String>,
    /// Name of the tenant cluster, as the KubeVirt CCM was told; for its selector
    #[arg(long, env = "COVEY_CLUSTER_NAME", default_value = "kubernetes")]
    pub cluster_name: String,
    /// Name of this process in the Lease
    #[arg(long, env = "POD_NAME", default_value = "ccm")]
    pub identity: String,
    /// Nodes and Services reconciled at the same time
    #[arg(long, env = "COVEY_CONCURRENCY", default_value_t = 8)]
    pub concurrency: u16,

    /// Configuration file of the KubeVirt CCM; docs/ccm.md says what of it has an effect
    #[arg(long, env = "COVEY_CLOUD_CONFIG", value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    /// How mirrors find machines; default: slices, or what --cloud-config says
    #[arg(long, env = "COVEY_ENDPOINTS", value_enum)]
    pub endpoints: Option<EndpointsBy>,
    /// Labels of virt-launcher pods, for --endpoints=selector: key=value
    #[arg(long, env = "COVEY_SELECTOR", value_delimiter = ',', value_parser = pair)]
    pub selector: Vec<(String, String)>,
    /// Where addresses of machines come from: published by Covey's operator on virtual machines, or reported
    /// by KubeVirt, whose report a guest's agent chooses
    #[arg(long, env = "COVEY_MACHINE_ADDRESSES", value_enum, default_value_t = AddressesFrom::Reported)]
    pub machine_addresses: AddressesFrom,
    /// Values of loadBalancerClass in the tenant cluster that are ours, besides none
    #[arg(long, env = "COVEY_LOAD_BALANCER_CLASSES", value_delimiter = ',')]
    pub load_balancer_classes: Vec<String>,
    /// loadBalancerClass of new mirrors
    #[arg(long, env = "COVEY_MIRROR_CLASS")]
    pub mirror_class: Option<String>,
    /// Annotations that mirrors take over: keys, or beginnings followed by *
    #[arg(long, env = "COVEY_ALLOW_ANNOTATIONS", value_delimiter = ',')]
    pub allow_annotations: Vec<String>,
    /// Where externalIPs and loadBalancerIP of the tenant's Services may lie
    #[arg(long, env = "COVEY_ALLOW_ADDRESSES", value_delimiter = ',')]
    pub allow_addresses: Vec<IpNet>,
    /// Further labels of mirrors: key=value
    #[arg(long, env = "COVEY_MIRROR_LABELS", value_delimiter = ',', value_parser = pair)]
    pub mirror_labels: Vec<(String, String)>,
    /// Traffic of the tenant cluster's own pods to its load balancers goes by way of them, whatever the management
    /// cluster says (ipMode Proxy); for those that speak the PROXY protocol or end TLS
    #[arg(long, env = "COVEY_PROXY_IP_MODE")]
    pub proxy_ip_mode: bool,
    /// Mirrors get no node ports in the management cluster; for load balancers that need none
    #[arg(long, env = "COVEY_NO_NODE_PORTS")]
    pub no_node_ports: bool,
    /// Most load balancers; those that there are stay
    #[arg(long, env = "COVEY_MAX_SERVICES", value_name = "NUMBER", default_value_t = limits::MAX_SERVICES)]
    pub max_services: usize,
    /// Most ports of all load balancers together; those that there are stay
    #[arg(long, env = "COVEY_MAX_PORTS", value_name = "NUMBER", default_value_t = limits::MAX_PORTS)]
    pub max_ports: usize,
    /// Most endpoints of one load balancer and family of addresses
    #[arg(
        long,
        env = "COVEY_MAX_ENDPOINTS",
        value_name = "NUMBER",
        default_value_t = limits::MAX_ENDPOINTS,
        value_parser = at_least_one
    )]
    pub max_endpoints: usize,
}

/// How mirrors find machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EndpointsBy {
    /// By EndpointSlices.
    Slices,
    /// By a selector of pods.
    Selector,
}

/// Where addresses of machines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AddressesFrom {
    /// From what the operator publishes.
    Published,
    /// From what KubeVirt reports.
    Reported,
}

impl From<AddressesFrom> for MachineAddresses {
    fn from(from: AddressesFrom) -> Self {
        match from {
            AddressesFrom::Published => Self::Published,
            AddressesFrom::Reported => Self::Reported,
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("must be a number above 0, for example 250".to_owned()),
    }
}

impl Args {
    /// What plans depend on, and the kubeconfig file of the management cluster, if there is one.
    ///
    /// # Errors
    /// When the configuration file cannot be used, or something is said nowhere.
    pub fn settings(&self) -> anyhow::Result<(Settings, Option<PathBuf>)> {
        let file = self.cloud_config.as_deref().map(CloudConfig::read);
        let file = file.transpose()?;
        let theirs = file.as_ref().and_then(|f| f.kubeconfig.as_ref());
        let theirs = theirs.filter(|path| !path.is_empty()).map(PathBuf::from);
        let kubeconfig = self.management_kubeconfig.clone().or(theirs);
        Ok((self.merge(file)?, kubeconfig))
    }

    fn merge(&self, file: Option<CloudConfig>) -> anyhow::Result<Settings> {
        let adopt = file.is_some();
        let file = file.unwrap_or_default();
        let namespace = self.namespace.clone().or(file.namespace.clone());
        let namespace = namespace.context("say --namespace, the tenant namespace")?;
        let uid = self.cluster_uid.clone();
        // The KubeVirt CCM has no such thing; namespace and name say the same.
        let uid = uid.or_else(|| adopt.then(|| format!("{namespace}-{}", self.cluster_name)));
        let cluster_uid = uid.context("say --cluster-uid, the UID of the TenantCluster")?;
        if cluster_uid.is_empty() || cluster_uid.len() > 63 {
            bail!("--cluster-uid must have 1 to 63 characters: it is the value of a label");
        }
        let by = match (self.endpoints, adopt) {
            (Some(by), _) => by,
            (None, true) if !file.has_slices() => EndpointsBy::Selector,
            (None, _) => EndpointsBy::Slices,
        };
        let mut selector: BTreeMap<_, _> = self.selector.iter().cloned().collect();
        if selector.is_empty() {
            let labels = match adopt {
                true => CloudConfig::selector(&self.cluster_name),
                false => [
                    (LABEL_TENANT_UID.to_owned(), cluster_uid.clone()),
                    (LABEL_COMPONENT.to_owned(), COMPONENT_WORKER.to_owned()),
                ],
            };
            selector.extend(labels);
        }
        let mut labels = file.infra_labels.clone();
        labels.extend(self.mirror_labels.iter().cloned());
        Ok(Settings {
            namespace,
            cluster_uid,
            classes: self.load_balancer_classes.iter().cloned().collect(),
            mirror_class: self.mirror_class.clone(),
            endpoints: match by {
                EndpointsBy::Slices => Endpoints::Slices,
                EndpointsBy::Selector => Endpoints::Selector(selector),
            },
            machine_addresses: self.machine_addresses.into(),
            annotations: self.allow_annotations.clone(),
            addresses: self.allow_addresses.clone(),
            labels,
            ip_mode: match self.proxy_ip_mode {
                true => IpMode::Proxy,
                false => IpMode::Mirrored,
            },
            allocate_node_ports: !self.no_node_ports,
            limits: Limits {
                services: self.max_services,
                ports: self.max_ports,
                endpoints: self.max_endpoints,
            },
            adopt,
            nodes: file.instances_v2.enabled,
            services: file.load_balancer.enabled,
            zones: file.instances_v2.zone_and_region_enabled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn settings(flags: &[&str], file: Option<&str>) -> anyhow::Result<Settings> {
        let mut all = vec!["ccm", "--tenant-kubeconfig", "x"];
        all.extend(flags);
        let args = Args::try_parse_from(all)?;
        args.merge(file.map(CloudConfig::parse).transpose()?)
    }

    const NEEDED: [&str; 4] = ["--namespace", "ns", "--cluster-uid", "uid"];

    #[test]
    fn command_line_is_consistent_and_every_flag_has_a_variable() {
        testkit::command_line::assert_consistent_with_variables(Args::command());
    }

    #[test]
    fn rates_that_would_never_let_anything_through_are_refused() {
        for bad in [
            ["--client-qps", "0"],
            ["--client-qps", "inf"],
            ["--client-burst", "0"],
            ["--management-qps", "-1"],
            ["--management-burst", "0"],
            ["--max-endpoints", "0"],
        ] {
            assert!(
                settings(&[&NEEDED[..], &bad].concat(), None).is_err(),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn defaults_allow_nothing_and_write_slices() {
        let settings = settings(&NEEDED, None).unwrap();
        let expected = Settings {
            namespace: "ns".to_owned(),
            cluster_uid: "uid".to_owned(),
            ..Settings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn what_tenants_write_causes_few_requests_by_default() {
        let all = [&["ccm", "--tenant-kubeconfig", "x"][..], &NEEDED].concat();
        let args = Args::try_parse_from(all).unwrap();
        assert_eq!((args.management.qps, args.management.burst), (20.0, 50));
    }

    #[test]
    fn what_is_said_nowhere_is_asked_for() {
        let missing = |flags: &[&str]| settings(flags, None).unwrap_err().to_string();
        assert!(missing(&["--namespace", "ns"]).contains("--cluster-uid"));
        assert!(missing(&["--cluster-uid", "uid"]).contains("--namespace"));
    }

    #[test]
    fn file_of_the_kubevirt_ccm_is_enough_and_flags_win() {
        let file = "namespace: theirs\ninfraLabels: {a: b}\nloadBalancer: {enabled: true}\n\
                    instancesV2: {enabled: true, zoneAndRegionEnabled: false}\n";
        let from_file = settings(&[], Some(file)).unwrap();
        assert_eq!(from_file.namespace, "theirs");
        assert!(from_file.adopt && from_file.nodes && !from_file.zones);
        assert_eq!(from_file.labels["a"], "b");
        let Endpoints::Selector(selector) = from_file.endpoints else {
            panic!("the KubeVirt CCM selects unless told otherwise")
        };
        assert_eq!(selector["cluster.x-k8s.io/cluster-name"], "kubernetes");
        let flags = ["--namespace", "ours", "--endpoints", "slices"];
        let from_flags = settings(&flags, Some(file)).unwrap();
        assert_eq!(from_flags.namespace, "ours");
        assert_eq!(from_flags.endpoints, Endpoints::Slices);
        let by_slices = format!("{file}\n").replace(
            "{enabled: true}\n",
            "{enabled: true, enableEPSController: true}\n",
        );
        assert_eq!(
            settings(&[], Some(&by_slices)).unwrap().endpoints,
            Endpoints::Slices
        );
    }
}
