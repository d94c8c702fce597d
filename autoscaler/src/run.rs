//! The process: clients, admin port, certificates and signals around a [`Manager`].
//!
//! Invariant: calls that are under way when the process stops are answered first, within the grace;
//! nothing is kept that another start would miss. It is not live only when its loops stand still, never
//! because an API does not answer.

use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit_client::args::ClientArgs;
use kit_client::count::RequestCounter;

use crate::args::Args;
use crate::manager::Manager;
use crate::server::tls::Tls;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(15);

/// Runs until a signal.
///
/// # Errors
/// When it cannot start.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let (settings, files) = (args.settings(), args.files());
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let client = async |api: &'static str, client: ClientArgs| {
        let requests = RequestCounter::new();
        let client = kit_client::connect::connect(&client, &requests).await;
        port.metrics(|registry| requests.register(registry, api));
        client.with_context(|| format!("set up the client of the {api} cluster's API"))
    };
    let tenant = ClientArgs {
        kubeconfig: Some(args.tenant_kubeconfig.clone()),
        qps: args.client_qps,
        burst: args.client_burst,
    };
    let management = args.management.client(args.management_kubeconfig.clone());
    let tenant = client("tenant", tenant).await?;
    let management = client("management", management).await?;
    let tls = Tls::load(&files).context("use the certificates of the port")?;
    let manager = Manager::new(tenant, management, settings, &args.identity, &port);
    let loops = port.live_while_polled("loops", manager.run());
    let address = port.open(&args.admin, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let background = tokio::spawn(loops);
    let reload = tokio::spawn(tls.clone().run(files));
    let server = manager.serve(args.listen, &tls, &shutdown).await?;
    tracing::info!(address = %server.address, "waits for the Cluster Autoscaler");
    server.ended().await;
    tracing::info!("stops");
    background.abort();
    reload.abort();
    Ok(())
}

#[cfg(test)]
mod tests;
