//! Process of either half: logs, signals, admin port, sockets.
//!
//! Invariant: calls that are under way when the process stops are answered first, within the grace.

use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::args::{AdminArgs, LogArgs};
use kit::shutdown::Shutdown;

pub mod controller;
pub mod node;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(30);

/// Begins: logs and signals.
fn begin(log: &LogArgs) -> anyhow::Result<Shutdown> {
    kit::telemetry::init(log)?;
    kit::panics::abort_unless_contained();
    kit::client::install_crypto();
    Ok(Shutdown::on_signals(GRACE)?)
}

/// Opens the admin port.
async fn open_admin_port(port: Admin, args: &AdminArgs, shutdown: &Shutdown) -> anyhow::Result<()> {
    let address = port.open(args, shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    Ok(())
}
