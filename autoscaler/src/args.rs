//! The command line. Every flag has an environment variable.
//!
//! Invariant: whatever has no sensible default is asked for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use kit::args::AdminArgs;
use kit::args::LogArgs;
use kit_client::args::{ManagementRateArgs, positive};

use crate::settings::{Files, Settings};

/// Between a tenant cluster's Cluster Autoscaler and its NodePools.
#[derive(Clone, Debug, Parser)]
#[command(name = "autoscaler", version)]
pub struct Args {
    /// Log filter and format.
    #[command(flatten)]
    pub log: LogArgs,
    /// Admin port.
    #[command(flatten)]
    pub admin: AdminArgs,

    /// Kubeconfig file of the tenant cluster, with a client certificate
    #[arg(long, env = "COVEY_TENANT_KUBECONFIG", value_name = "FILE")]
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
        default_value_t = 400,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub client_burst: u32,
    /// How fast the management cluster's API is asked.
    #[command(flatten)]
    pub management: ManagementRateArgs,
    /// Tenant namespace, where this runs
    #[arg(long, env = "POD_NAMESPACE")]
    pub namespace: String,
    /// Namespace of the TenantCluster and its NodePools
    #[arg(long, env = "COVEY_USER_NAMESPACE")]
    pub user_namespace: String,
    /// Name of the TenantCluster
    #[arg(long, env = "COVEY_CLUSTER_NAME")]
    pub cluster_name: String,
    /// UID of the TenantCluster
    #[arg(long, env = "COVEY_CLUSTER_UID")]
    pub cluster_uid: String,
    /// Name of this process in Events
    #[arg(long, env = "POD_NAME", default_value = "autoscaler")]
    pub identity: String,
    /// How long the management cluster's API may be out of reach before Refresh fails: 90s, 2m
    #[arg(long, env = "COVEY_PATIENCE", default_value = "2m", value_parser = duration)]
    pub patience: Duration,

    /// Where the Cluster Autoscaler connects
    #[arg(
        long,
        env = "COVEY_LISTEN",
        value_name = "IP:PORT",
        default_value = "0.0.0.0:8086"
    )]
    pub listen: SocketAddr,
    /// Certificate of that port, PEM, leaf first; read again when it changes, as are the next two
    #[arg(long, env = "COVEY_GRPC_CERTIFICATE", value_name = "FILE")]
    pub grpc_certificate: PathBuf,
    /// Its key, PEM
    #[arg(long, env = "COVEY_GRPC_KEY", value_name = "FILE")]
    pub grpc_key: PathBuf,
    /// Authority whose certificates may connect, PEM
    #[arg(long, env = "COVEY_GRPC_CLIENT_CA", value_name = "FILE")]
    pub grpc_client_ca: PathBuf,
}

fn duration(text: &str) -> Result<Duration, String> {
    let given = api::Duration::from(text).get();
    let given = given.filter(|time| !time.is_zero());
    given.ok_or_else(|| "must be hours, minutes and seconds, such as 90s or 2m".to_owned())
}

impl Args {
    /// What answers depend on.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            user_namespace: self.user_namespace.clone(),
            cluster_name: self.cluster_name.clone(),
            cluster_uid: self.cluster_uid.clone(),
            patience: self.patience,
        }
    }

    /// Where the certificates are.
    #[must_use]
    pub fn files(&self) -> Files {
        Files {
            certificate: self.grpc_certificate.clone(),
            key: self.grpc_key.clone(),
            client_ca: self.grpc_client_ca.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const NEEDED: [&str; 9] = [
        "autoscaler",
        "--tenant-kubeconfig=/etc/covey/kubeconfig",
        "--namespace=covey-demo-0a1b2c3d00",
        "--user-namespace=team",
        "--cluster-name=demo",
        "--cluster-uid=0a1b2c3d",
        "--grpc-certificate=/etc/covey/grpc/tls.crt",
        "--grpc-key=/etc/covey/grpc/tls.key",
        "--grpc-client-ca=/etc/covey/grpc/ca.crt",
    ];

    #[test]
    fn command_line_is_consistent_and_every_flag_has_a_variable() {
        testkit::command_line::assert_consistent_with_variables(Args::command());
    }

    #[test]
    fn what_the_operator_says_is_understood_and_the_rest_has_defaults() {
        let args = Args::try_parse_from(NEEDED).unwrap();
        assert_eq!(args.listen.port(), 8086);
        assert_eq!(args.settings().patience, Settings::default().patience);
        assert_eq!(args.settings().user_namespace, "team");
        assert_eq!(
            args.files().client_ca.to_str(),
            Some("/etc/covey/grpc/ca.crt")
        );
    }

    /// Finding D15: at no request per second a client waits for ever, without a word.
    #[test]
    fn no_requests_per_second_is_no_rate() {
        for wrong in ["0", "-1", "NaN", "many"] {
            let flags = NEEDED.into_iter().chain(["--client-qps", wrong]);
            assert!(Args::try_parse_from(flags).is_err(), "{wrong}");
        }
    }

    #[test]
    fn patience_is_a_time_and_never_none() {
        let patience = |text: &str| {
            let flags = NEEDED.into_iter().chain(["--patience", text]);
            Args::try_parse_from(flags).map(|args| args.patience.as_secs())
        };
        assert_eq!(patience("90s").unwrap(), 90);
        for wrong in ["0s", "2", "soon"] {
            assert!(patience(wrong).is_err(), "{wrong}");
        }
    }
}
