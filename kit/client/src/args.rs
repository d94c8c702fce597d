//! Command-line arguments of every program that speaks with the management cluster's API.
//!
//! Invariant: every flag has an environment variable that starts with `COVEY_`.

use std::path::PathBuf;

/// Requests per second to the management API in the long run that what one tenant writes in its cluster may
/// cause, for each program that works for it: the default.
pub const TENANT_QPS: f64 = 20.0;
/// As many of those at once: the default.
pub const TENANT_BURST: u32 = 50;
/// Requests at once that a reserve has ([`crate::connect::Clients::urgent`]): a machine that is lost takes one
/// for each Service that leads there, and about five for each of its volumes.
pub const RESERVE_BURST: u32 = 600;
/// Requests per second by which a reserve fills again: in a minute, from nothing.
pub const RESERVE_QPS: f64 = 10.0;

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

/// How fast a program that works for one tenant cluster asks the management cluster's API.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ManagementRateArgs {
    /// Requests per second to the management cluster's API in the long run. Those of the Lease, and what has a
    /// reserve, are not held back by it
    #[arg(
        id = "management_qps",
        long = "management-qps",
        env = "COVEY_MANAGEMENT_QPS",
        value_name = "NUMBER"
    )]
    #[arg(default_value_t = TENANT_QPS, value_parser = positive)]
    pub qps: f64,

    /// Requests to the management cluster's API at once, before the rate limit holds them back
    #[arg(
        id = "management_burst",
        long = "management-burst",
        env = "COVEY_MANAGEMENT_BURST",
        value_name = "NUMBER"
    )]
    #[arg(default_value_t = TENANT_BURST, value_parser = clap::value_parser!(u32).range(1..))]
    pub burst: u32,
}

impl ManagementRateArgs {
    /// The API of this kubeconfig at this rate.
    #[must_use]
    pub fn client(self, kubeconfig: Option<PathBuf>) -> ClientArgs {
        ClientArgs {
            kubeconfig,
            qps: self.qps,
            burst: self.burst,
        }
    }
}

/// A number above zero, for [`ClientArgs::qps`] and rates like it: with zero nothing would ever be sent.
///
/// # Errors
/// What it must be.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err("must be a number above 0, for example 50".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Everything {
        #[command(flatten)]
        client: ClientArgs,
    }

    fn parse(args: &[&str]) -> Result<Everything, clap::Error> {
        Everything::try_parse_from([&["test"], args].concat())
    }

    #[test]
    fn defaults_suit_a_pod() {
        let Everything { client } = parse(&[]).unwrap();
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
