//! The process: clients, Lease, admin port and signals around the [`Manager`].
//!
//! Invariant: a replica that loses the Lease ends; it never goes on with what it had in hand.

use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::lease::{Candidate, LeaseConfig, Timing};
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;

use crate::args::Args;
use crate::manager::Manager;
use crate::names;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(15);

/// Runs until a signal, or until the Lease is lost.
///
/// # Errors
/// When it cannot start, or has to end because it no longer leads.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let (settings, management_kubeconfig) = args.settings()?;
    let Args {
        admin,
        tenant_kubeconfig,
        client_qps,
        client_burst,
        management,
        identity,
        concurrency,
        ..
    } = args;
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let (leadership, candidate) = Candidate::new();
    let client = async |api: &'static str, args: ClientArgs| {
        let requests = RequestCounter::new();
        let client =
            kit_client::connect::connect_fenced_with_reserve(&args, &requests, &leadership).await;
        port.metrics(|registry| requests.register(registry, api));
        client.with_context(|| format!("set up the client of the {api} cluster's API"))
    };
    let tenant = ClientArgs {
        kubeconfig: Some(tenant_kubeconfig),
        qps: client_qps,
        burst: client_burst,
    };
    let management = management.client(management_kubeconfig);
    let tenant = client("tenant", tenant).await?.usual;
    let management = client("management", management).await?;
    let lease = LeaseConfig {
        namespace: settings.namespace.clone(),
        name: names::LEASE.to_owned(),
        identity: identity.clone(),
        timing: Timing {
            // Another replica takes over within two seconds of a release.
            retry: Duration::from_secs(1),
            ..Timing::default()
        },
    };
    let election = candidate.campaign(management.usual.clone(), lease);
    let manager = Manager::new(tenant, management, settings, leadership, &identity, &port);
    let address = port.open(&admin, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let watches = tokio::spawn(manager.watches());
    let result = manager.lead(concurrency, shutdown).await;
    tracing::info!("stops");
    watches.abort();
    election.release().await;
    result
}
