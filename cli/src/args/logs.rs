//! Flags of `covey logs`.
//!
//! Invariant: without a flag what is read is bounded in lines.

use std::ffi::OsStr;
use std::time::Duration;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::{Arg, Args as ClapArgs, Command, ValueEnum};

use super::waiting::time;

/// `covey logs`.
#[derive(Debug, ClapArgs)]
pub(crate) struct Logs {
    /// The tenant cluster
    pub(crate) name: String,
    /// Of this part alone, or of one machine's pod: machine/NAME; without it of all but the operator and machines
    #[arg(value_parser = OfParser)]
    pub(crate) part: Option<Of>,
    /// Only these containers; may be repeated
    #[arg(
        long = "container",
        short = 'c',
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(crate) containers: Vec<String>,
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

/// Whose log is read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Of {
    /// A part's.
    Part(Part),
    /// What the pod of a virtual machine wrote, its console too.
    Machine(String),
}

/// Reads [`Of`]; parts are known to completions.
#[derive(Clone)]
struct OfParser;

impl TypedValueParser for OfParser {
    type Value = Of;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Of, clap::Error> {
        let machine = value
            .to_str()
            .and_then(|text| text.strip_prefix("machine/"));
        match machine.filter(|name| !name.is_empty()) {
            Some(name) => Ok(Of::Machine(name.to_owned())),
            None => {
                let part = EnumValueParser::<Part>::new();
                part.parse_ref(command, argument, value).map(Of::Part)
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let parts = Part::value_variants().iter();
        let parts: Vec<_> = parts.filter_map(ValueEnum::to_possible_value).collect();
        Some(Box::new(parts.into_iter()))
    }
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
