//! The webhook's process: what it decides from, the server and the admin port, alike in every replica.
//!
//! Invariant: it takes no Lease and writes nothing, so replicas know nothing of each other, and none
//! needs an operator that runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::shutdown::Shutdown;

use crate::admission::server::Webhook;
use crate::admission::stores::Stores;
use crate::args::WebhookArgs;
use crate::configuration;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(25);

/// Runs until a signal.
///
/// # Errors
/// When it cannot start, or serve.
pub async fn run(args: WebhookArgs) -> anyhow::Result<()> {
    let WebhookArgs {
        log,
        admin,
        client,
        config,
        namespace,
        webhook_address,
    } = args;
    kit::telemetry::init(&log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let (stores, writers) = Stores::new(configuration::read(config.as_deref())?);
    let requests = kit::client::RequestCounter::new();
    let client = kit::client::connect(&client, &requests).await?;
    let webhook = Webhook::new(stores.validator());
    let stores = Arc::new(stores);

    let port = Admin::new();
    port.metrics(|registry| requests.register(registry));
    port.metrics(kit::metrics::ProcessMetrics::register);
    let synced = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&synced);
    port.ready("store", move || match flag.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err("TenantClusters, NodePools and TenantQuotas are not listed yet".to_owned()),
    });
    port.ready("webhook", webhook.readiness());
    let known = Arc::clone(&stores);
    port.state("webhook", move || {
        serde_json::json!({
            "tenantClusters": known.clusters.len(),
            "nodePools": known.pools.len(),
            "tenantQuotas": known.quotas.len(),
            "reservedRanges": known.ranges.settings().network.reserved,
        })
    });
    let admin_address = port
        .open(&admin, &shutdown)
        .await
        .context("open the admin port")?;
    tracing::info!(%admin_address, "admin port is open");

    let ready = async {
        if stores.wait_until_ready().await.is_ok() {
            synced.store(true, Ordering::Relaxed);
        }
        std::future::pending::<()>().await;
    };
    let serve = webhook.run(client.clone(), &namespace, webhook_address, &shutdown);
    let result = tokio::select! {
        result = serve => result.context("serve the webhook"),
        () = writers.run(client) => Err(anyhow::anyhow!("the watches of the webhook ended")),
        () = ready => Ok(()),
    };
    tracing::info!("stops");
    result
}
