//! The wiring of the process: watches, repairs, and the socket that the sidecars use.
//!
//! Invariant: calls that are under way when the process stops are answered first, within the grace.

use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{self, Stream};
use kit::admin::Admin;
use kit::client::RequestCounter;
use kit::shutdown::Shutdown;
use proto::csi::controller_server::ControllerServer;
use proto::csi::identity_server::IdentityServer;
use proto::csi::node_server::NodeServer;
use proto::pluginregistration::registration_server::RegistrationServer;
use tokio::net::{UnixListener, UnixStream};
use tonic::transport::Server;

use crate::args::{ControllerArgs, NodeArgs};
use crate::attach::repair::Repair;
use crate::context::Context;
use crate::controller;
use crate::node::registration::{self, State};
use crate::{identity, node, watch};

/// How long a stop may take.
const GRACE: Duration = Duration::from_secs(30);

/// Runs `csi-proxy controller` until a signal.
///
/// # Errors
/// When it cannot start, or the socket is lost.
pub async fn controller(args: ControllerArgs) -> anyhow::Result<()> {
    kit::telemetry::init(&args.log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let settings = args.settings()?;
    let requests = RequestCounter::new();
    let client = kit::client::connect(&args.client, &requests).await;
    let client = client.context("set up the client of the management cluster's API")?;
    let ctx = Arc::new(Context::new(client, settings));
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    port.metrics(|registry| requests.register(registry));
    let listed = Arc::clone(&ctx.world);
    port.ready("watches", move || match listed.missing().as_slice() {
        [] => Ok(()),
        missing => Err(format!("not listed yet: {missing:?}")),
    });
    let shown = Arc::clone(&ctx.world);
    port.state("csi-proxy", move || {
        shown.look(|state| {
            serde_json::json!({
                "volumes": state.volumes.len(),
                "virtualMachines": state.machines.len(),
                "instances": state.instances.len(),
            })
        })
    });
    let address = port.serve(args.admin.address, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let socket = args.socket.display();
    let listener = bind(&args.socket).with_context(|| format!("open socket {socket}"))?;
    tracing::info!(%socket, "socket is open");
    let background = tokio::spawn(background(Arc::clone(&ctx)));
    let result = serve(&ctx, listener, shutdown.triggered()).await;
    background.abort();
    tracing::info!("stops");
    result
}

/// Watches and repairs. Never ends.
pub async fn background(ctx: Arc<Context>) {
    let watches = watch::all(&ctx.world, &ctx.client, &ctx.settings);
    futures::future::join(watches, Repair::new(Arc::clone(&ctx)).run()).await;
}

/// Serves Identity and Controller on a Unix socket until `stop`.
///
/// # Errors
/// When the socket is lost.
pub async fn serve(
    ctx: &Arc<Context>,
    listener: UnixListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let served = Server::builder()
        .add_service(IdentityServer::new(identity::Service::new(
            Arc::clone(&ctx.world),
            ctx.settings.offer.has_zones(),
        )))
        .add_service(ControllerServer::new(controller::Service::new(Arc::clone(
            ctx,
        ))))
        .serve_with_incoming_shutdown(connections(listener), stop);
    served.await.context("serve the socket")
}

fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async move {
        let connection = listener.accept().await.map(|(connection, _)| connection);
        Some((connection, listener))
    })
}

/// Runs `csi-proxy node` until a signal.
///
/// # Errors
/// When it cannot start, a socket is lost, or the kubelet does not want the driver.
pub async fn node(args: NodeArgs) -> anyhow::Result<()> {
    kit::telemetry::init(&args.log)?;
    kit::client::install_crypto();
    let shutdown = Shutdown::on_signals(GRACE)?;
    let service = node::Service::new(args.settings());
    let registration = registration::Service::new(&args.socket);
    let port = Admin::new();
    port.metrics(kit::metrics::ProcessMetrics::register);
    let state = registration.state();
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
    let address = port.serve(args.admin.address, &shutdown).await;
    let address = address.context("open the admin port")?;
    tracing::info!(%address, "admin port is open");
    let open = |socket: &Path| {
        let shown = socket.display().to_string();
        let made = socket.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| bind(socket))
            .with_context(|| format!("open socket {shown}"))
    };
    let listener = open(&args.socket)?;
    let told = async {
        if service.has_topology() {
            let client = kit::client::connect(&args.client, &RequestCounter::new()).await;
            let client = client.context("set up the client of the tenant cluster's API")?;
            service.find_zone(&client).await;
        }
        // The kubelet calls as soon as it sees this one, so it comes last.
        let told = open(&args.registration_socket)?;
        tracing::info!(socket = %args.registration_socket.display(), "waits for the kubelet");
        serve_registration(registration.clone(), told, std::future::pending()).await
    };
    let result = tokio::select! {
        result = serve_node(service.clone(), listener, shutdown.triggered()) => result,
        result = told => result,
        why = registration.refused() => {
            Err(anyhow::anyhow!("the kubelet does not register the driver: {why}"))
        }
    };
    // The kubelet forgets a driver whose socket is gone.
    let _ = std::fs::remove_file(&args.registration_socket);
    tracing::info!("stops");
    result
}

/// Serves Identity and Node on a Unix socket until `stop`.
///
/// # Errors
/// When the socket is lost.
pub async fn serve_node(
    service: node::Service,
    listener: UnixListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let served = Server::builder()
        .add_service(IdentityServer::new(identity::Service::on_node(
            service.has_topology(),
        )))
        .add_service(NodeServer::new(service))
        .serve_with_incoming_shutdown(connections(listener), stop);
    served.await.context("serve the socket")
}

/// Serves Registration on a Unix socket until `stop`.
///
/// # Errors
/// When the socket is lost.
pub async fn serve_registration(
    service: registration::Service,
    listener: UnixListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let served = Server::builder()
        .add_service(RegistrationServer::new(service))
        .serve_with_incoming_shutdown(connections(listener), stop);
    served.await.context("serve the socket of the registration")
}

/// Opens a Unix socket. One that a process before us left is in the way, and nobody answers there any
/// more; what is no socket stays.
///
/// # Errors
/// When there is something else of this name, or no such folder.
pub fn bind(socket: &Path) -> io::Result<UnixListener> {
    match std::fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(socket)?,
        _ => {}
    }
    UnixListener::bind(socket)
}
