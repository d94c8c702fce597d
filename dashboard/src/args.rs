//! The command line. Every flag has an environment variable.
//!
//! Invariant: whatever has no sensible default is asked for; there is no flag for a credential.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use kit::args::{AdminArgs, LogArgs};

/// Pages of tenant clusters for people, with no rights but those of whoever looks.
#[derive(Clone, Debug, Parser)]
#[command(name = "covey-dashboard", version)]
pub struct Args {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Address on which browsers are served, by TLS
    #[arg(
        long,
        env = "COVEY_LISTEN",
        value_name = "IP:PORT",
        default_value = "[::]:8443"
    )]
    pub listen: SocketAddr,
    /// Certificate chain to serve with, PEM; read anew every minute
    #[arg(long, env = "COVEY_TLS_CERT_FILE", value_name = "FILE")]
    pub tls_cert_file: PathBuf,
    /// Its private key, PEM
    #[arg(long, env = "COVEY_TLS_KEY_FILE", value_name = "FILE")]
    pub tls_key_file: PathBuf,
    /// The management cluster's API
    #[arg(
        long,
        env = "COVEY_SERVER",
        value_name = "URL",
        default_value = "https://kubernetes.default.svc"
    )]
    pub server: String,
    /// Authority of its certificate, PEM
    #[arg(long, env = "COVEY_SERVER_CA_FILE", value_name = "FILE")]
    pub server_ca_file: PathBuf,
    /// Most people who are logged in at once
    #[arg(
        long,
        env = "COVEY_SESSIONS",
        value_name = "NUMBER",
        default_value_t = 100
    )]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub sessions: u16,
    /// Only shows: nothing can be made, changed or deleted
    #[arg(long, env = "COVEY_READ_ONLY")]
    pub read_only: bool,
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
    fn certificate_and_authority_are_asked_for() {
        assert!(Args::try_parse_from(["covey-dashboard"]).is_err());
        let args = Args::try_parse_from([
            "covey-dashboard",
            "--tls-cert-file=a",
            "--tls-key-file=b",
            "--server-ca-file=c",
        ])
        .unwrap();
        assert_eq!(args.listen.port(), 8443);
        assert_eq!(args.server, "https://kubernetes.default.svc");
        assert!(!args.read_only);
    }
}
