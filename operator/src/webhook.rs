//! The webhook's process: what it decides from, the server and the admin port, alike in every replica.
//!
//! Invariant: it takes no Lease and writes nothing, so replicas know nothing of each other, and none
//! needs an operator that runs.

use std::sync::Arc;

use anyhow::Context as _;

use crate::admission::server::Webhook;
use crate::admission::stores::Stores;
use crate::args::WebhookArgs;
use crate::process::{Process, Synced};

/// Runs until a signal.
///
/// # Errors
/// When it cannot start, or serve.
pub async fn run(args: WebhookArgs) -> anyhow::Result<()> {
    let WebhookArgs {
        process: args,
        webhook_address,
    } = args;
    let Process {
        shutdown,
        settings,
        requests,
        port,
    } = Process::begin(&args)?;
    let (stores, writers) = Stores::new(settings);
    let client = kit_client::connect::connect(&args.client, &requests).await?;
    let webhook = Webhook::new(stores.validator());
    port.metrics(|registry| webhook.reviews().register(registry));
    let stores = Arc::new(stores);

    let synced = Synced::default();
    synced.gate(&port, "TenantClusters, NodePools and TenantQuotas");
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
        .open(&args.admin, &shutdown)
        .await
        .context("open the admin port")?;
    tracing::info!(%admin_address, "admin port is open");

    let serve = webhook.run(client.clone(), &args.namespace, webhook_address, &shutdown);
    let result = tokio::select! {
        result = serve => result.context("serve the webhook"),
        () = writers.run(client) => Err(anyhow::anyhow!("the watches of the webhook ended")),
        () = synced.note(stores.wait_until_ready()) => Ok(()),
    };
    tracing::info!("stops");
    result
}
