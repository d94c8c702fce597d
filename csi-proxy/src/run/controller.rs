//! Process of `csi-proxy controller`.
//!
//! Invariant: it says that it is ready once every watch has been through once, not before; that it is not
//! live only when its loops stand still, never because an API does not answer.

use std::sync::Arc;

use anyhow::Context as _;
use kit::admin::Admin;
use kit_client::count::RequestCounter;

use super::{GRACE, open_admin_port};
use crate::args::ControllerArgs;
use crate::context::Context;
use crate::manager::Manager;
use crate::socket;

/// Runs until a signal.
///
/// # Errors
/// When it cannot start, or the socket is lost.
pub async fn run(args: ControllerArgs) -> anyhow::Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let settings = args.settings()?;
    let requests = RequestCounter::new();
    let client = kit_client::connect::connect_with_reserve(&args.client(), &requests).await;
    let client = client.context("set up the client of the management cluster's API")?;
    let ctx = Arc::new(Context::new(client, settings));
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    port.metrics(|registry| requests.register(registry, "management"));
    port.metrics(|registry| ctx.metrics.register(registry));
    let listed = Arc::clone(&ctx.cache);
    port.ready("watches", move || match listed.missing().as_slice() {
        [] => Ok(()),
        missing => Err(format!("not listed yet: {missing:?}")),
    });
    let shown = Arc::clone(&ctx.cache);
    port.state("csi-proxy", move || {
        shown.read(|state| {
            serde_json::json!({
                "volumes": state.volumes.len(),
                "virtualMachines": state.machines.len(),
                "instances": state.instances.len(),
            })
        })
    });
    let manager = Manager::new(ctx);
    let loops = port.live_while_polled("loops", manager.clone().run());
    open_admin_port(port, &args.admin, &shutdown).await?;
    let shown = args.socket.display();
    let listener = socket::bind(&args.socket).with_context(|| format!("open socket {shown}"))?;
    tracing::info!(socket = %shown, "socket is open");
    let background = tokio::spawn(loops);
    let result = manager.serve(listener, shutdown.triggered()).await;
    background.abort();
    tracing::info!("stops");
    result
}

#[cfg(test)]
mod tests;
