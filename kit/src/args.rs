//! Command-line arguments that every binary has; flatten them into its own clap struct.
//!
//! Invariant: every flag has an environment variable that starts with `COVEY_`.

use std::net::SocketAddr;

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

/// `key=value`, with a key.
///
/// # Errors
/// What it must be.
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be key=value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};
    use kit_client::args::ClientArgs;

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
        let Everything { log, admin, .. } = parse(&[]).unwrap();
        assert_eq!(
            (log.filter.as_str(), log.format),
            ("info,kube_client::client::builder=off", LogFormat::Json)
        );
        assert_eq!(admin.address.to_string(), "0.0.0.0:8080");
        assert_eq!(admin.probes, None);
    }
}
