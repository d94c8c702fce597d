//! The process: client, admin port and signals around a [`Manager`].
//!
//! Invariant: connections that are held when the process stops get their pod first, within the grace; nothing is kept
//! that another start would miss. It is not live only when its loops stand still, never because an API does not answer.

use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit_client::count::RequestCounter;

use crate::args::Args;
use crate::manager::Manager;

/// How long a stop may take: what is held is held no longer than 20 seconds.
const GRACE: Duration = Duration::from_secs(25);
/// How often a stop looks whether somebody is held.
const LOOK: Duration = Duration::from_millis(100);

/// Runs until a signal.
///
/// # Errors
/// When it cannot start.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let requests = RequestCounter::new();
    let client = kit_client::connect::connect(&args.client, &requests).await;
    let client = client.context("set up the client of the management cluster's API")?;
    port.metrics(|registry| requests.register(registry, "management"));
    let manager = Manager::new(client, &args.namespace, args.listen, &port);
    let held = manager.held();
    let stops = shutdown.clone();
    port.ready("stays", move || match stops.is_triggered() {
        true => Err("stops".to_owned()),
        false => Ok(()),
    });
    let loops = port.live_while_polled("loops", async move { manager.run().await });
    let address = port.open(&args.admin, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let background = tokio::spawn(loops);
    shutdown.triggered().await;
    tracing::info!(held = held.count(), "stops");
    // New connections are still let in for as long as the Service leads here; they are held or handed on as before.
    while held.count() > 0 {
        tokio::time::sleep(LOOK).await;
    }
    background.abort();
    Ok(())
}
