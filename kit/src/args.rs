//! Command-line arguments that every binary has; flatten them into its own clap struct.
//!
//! Invariant: every flag has an environment variable that starts with `COVEY_`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What is logged, and how.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Logging")]
pub struct LogArgs {
    /// What is logged: a level, or directives such as "info,kube=warn,operator=debug"
    #[arg(long = "log-filter", env = "COVEY_LOG_FILTER", value_name = "FILTER")]
    #[arg(default_value = "info,kube_client::client::builder=off")]
    pub filter: String,

    /// How lines are written: json for log collectors, text for people
    #[arg(long = "log-format", env = "COVEY_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(value_enum, default_value_t = LogFormat::Json)]
    pub format: LogFormat,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line.
    Json,
    /// One readable line per event.
    Text,
}

/// The admin port.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Admin port")]
pub struct AdminArgs {
    /// Where livez, readyz, metrics and state are served, without authentication
    #[arg(
        long = "admin-address",
        env = "COVEY_ADMIN_ADDRESS",
        value_name = "IP:PORT"
    )]
    #[arg(default_value = "0.0.0.0:8080")]
    pub address: SocketAddr,

    /// Where livez and readyz are served besides, so that the admin port needs no probes
    #[arg(
        long = "probe-address",
        env = "COVEY_PROBE_ADDRESS",
        value_name = "IP:PORT"
    )]
    pub probes: Option<SocketAddr>,
}

/// How the management cluster's API is reached.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Kubernetes client")]
pub struct ClientArgs {
    /// Kubeconfig file; without it the pod's service account, or what KUBECONFIG names
    #[arg(long, env = "COVEY_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Requests per second to the API in the long run; those of the Lease are not counted
    #[arg(long = "client-qps", env = "COVEY_CLIENT_QPS", value_name = "NUMBER")]
    #[arg(default_value_t = 200.0, value_parser = positive)]
    pub qps: f64,

    /// Requests to the API at once, before the rate limit holds them back
    #[arg(
        long = "client-burst",
        env = "COVEY_CLIENT_BURST",
        value_name = "NUMBER"
    )]
    #[arg(default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,
}

impl Default for ClientArgs {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            qps: 200.0,
            burst: 400,
        }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a number above 0, for example 50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    struct Everything {
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        client: ClientArgs,
    }

    fn parse(args: &[&str]) -> Result<Everything, clap::Error> {
        Everything::try_parse_from([&["test"], args].concat())
    }

    #[test]
    fn clap_finds_nothing_to_complain_about() {
        Everything::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_variable_of_ours() {
        let command = Everything::command();
        let flags: Vec<_> = command
            .get_arguments()
            .filter(|a| a.get_id() != "help")
            .collect();
        assert_eq!(flags.len(), 7);
        for flag in flags {
            let variable = flag
                .get_env()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            let name = flag.get_long().unwrap().to_uppercase().replace('-', "_");
            assert_eq!(variable, format!("COVEY_{name}"));
            assert!(flag.get_help().is_some(), "{name} has no help");
        }
    }

    #[test]
    fn defaults_suit_a_pod() {
        let Everything { log, admin, client } = parse(&[]).unwrap();
        assert_eq!(
            (log.filter.as_str(), log.format),
            ("info,kube_client::client::builder=off", LogFormat::Json)
        );
        assert_eq!(admin.address.to_string(), "0.0.0.0:8080");
        assert_eq!(admin.probes, None);
        let default = ClientArgs::default();
        assert_eq!((client.qps, client.burst), (default.qps, default.burst));
        assert_eq!(client.kubeconfig, None);
    }

    #[test]
    fn a_rate_that_would_never_let_anything_through_is_refused() {
        for bad in [
            ["--client-qps", "0"],
            ["--client-qps", "inf"],
            ["--client-burst", "0"],
        ] {
            assert!(parse(&bad).is_err(), "{bad:?}");
        }
        assert_eq!(parse(&["--client-qps", "0.5"]).unwrap().client.qps, 0.5);
    }
}
