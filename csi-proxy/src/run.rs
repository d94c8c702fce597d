//! Process of either half: logs, signals, admin port, sockets.
//!
//! Invariant: calls that are under way when the process stops are answered first, within the grace.

use std::time::Duration;

use anyhow::Context as _;
use kit::admin::Admin;
use kit::args::AdminArgs;
use kit::shutdown::Shutdown;

pub mod adopt;
pub mod controller;
pub mod node;

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(30);

/// Opens the admin port.
async fn open_admin_port(port: Admin, args: &AdminArgs, shutdown: &Shutdown) -> anyhow::Result<()> {
    let address = port.open(args, shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    Ok(())
}
