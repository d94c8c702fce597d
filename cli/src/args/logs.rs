//! Flags of `covey logs`.
//!
//! Invariant: without a flag what is read is bounded in lines.

use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use super::waiting::time;

/// `covey logs`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Logs {
    /// The tenant cluster
    pub(crate) name: String,
    /// Of this part alone; without it of all but the operator
    #[arg(value_enum)]
    pub(crate) part: Option<Part>,
    /// Go on with what comes, until interrupted
    #[arg(long, short = 'f', conflicts_with = "previous")]
    pub(crate) follow: bool,
    /// Only what is younger: 10m, 1h
    #[arg(long, value_parser = time, value_name = "TIME")]
    pub(crate) since: Option<Duration>,
    /// Most lines of each container
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(i64).range(0..=100_000))]
    pub(crate) tail: i64,
    /// Of the containers that ended before those that run
    #[arg(long, short = 'p')]
    pub(crate) previous: bool,
    /// Only lines with this text in them
    #[arg(long, value_name = "TEXT")]
    pub(crate) grep: Option<String>,
    /// Namespace of the operator
    #[arg(long, env = "COVEY_OPERATOR_NAMESPACE", default_value = "covey-system")]
    pub(crate) operator_namespace: String,
}

/// What has a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Part {
    /// kube-apiserver
    #[value(alias = "kube-apiserver")]
    Apiserver,
    /// kube-controller-manager
    #[value(alias = "kube-controller-manager")]
    ControllerManager,
    /// kube-scheduler
    #[value(alias = "kube-scheduler")]
    Scheduler,
    /// The server of the tunnel to nodes
    #[value(alias = "konnectivity")]
    KonnectivityServer,
    /// Members of etcd
    Etcd,
    /// What backs etcd up
    Backup,
    /// The cloud controller manager
    #[value(alias = "cloud-controller-manager")]
    Ccm,
    /// The CSI controller
    Csi,
    /// The Cluster Autoscaler
    #[value(alias = "cluster-autoscaler")]
    Autoscaler,
    /// The operator: lines that name this tenant cluster
    Operator,
}
