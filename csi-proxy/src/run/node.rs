//! Process of `csi-proxy node`.
//!
//! Invariant: the kubelet sees the socket for registration last, and it goes with the process.

use std::path::Path;

use anyhow::Context as _;
use kit::admin::Admin;
use kit_client::count::RequestCounter;

use super::{GRACE, open_admin_port};
use crate::args::NodeArgs;
use crate::node::registration::{self, State};
use crate::node::server;
use crate::socket;

/// Runs until a signal.
///
/// # Errors
/// When it cannot start, a socket is lost, or the kubelet does not want the driver.
pub async fn run(args: NodeArgs) -> anyhow::Result<()> {
    let shutdown = kit::process::begin(&args.log, GRACE)?;
    let service = server::Service::new(args.settings());
    let kubelet = registration::Service::new(&args.socket);
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let state = kubelet.state();
    port.ready("registration", move || match &*state.borrow() {
        State::Registered => Ok(()),
        State::Unknown => Err("the kubelet has not asked yet".to_owned()),
        State::Refused(why) => Err(why.clone()),
    });
    let zone = service.zone();
    port.ready("zone", move || match &*zone.borrow() {
        Ok(_) => Ok(()),
        Err(why) => Err(why.to_string()),
    });
    open_admin_port(port, &args.admin, &shutdown).await?;
    let open = |path: &Path| {
        let shown = path.display().to_string();
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| socket::bind(path))
            .with_context(|| format!("open socket {shown}"))
    };
    let listener = open(&args.socket)?;
    let told = async {
        if service.has_topology() {
            let client = kit_client::connect::connect(&args.client, &RequestCounter::new()).await;
            let client = client.context("set up the client of the tenant cluster's API")?;
            service.find_zone(&client).await;
        }
        // The kubelet calls as soon as it sees this one, so it comes last.
        let told = open(&args.registration_socket)?;
        tracing::info!(socket = %args.registration_socket.display(), "waits for the kubelet");
        registration::serve(kubelet.clone(), told, std::future::pending()).await
    };
    let result = tokio::select! {
        result = server::serve(service.clone(), listener, shutdown.triggered()) => result,
        result = told => result,
        why = kubelet.refused() => {
            Err(anyhow::anyhow!("the kubelet does not register the driver: {why}"))
        }
    };
    // The kubelet forgets a driver whose socket is gone.
    let _ = std::fs::remove_file(&args.registration_socket);
    tracing::info!("stops");
    result
}
