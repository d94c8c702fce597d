//! The lab's block storage: files on a filesystem that copies by reference, as loop devices, for the
//! stock sidecars of CSI and the kubelet. For the lab alone.
//!
//! | Module | What it decides or does |
//! |---|---|
//! | [`pool`] | volumes and snapshots are files: made, copied, grown, attached |
//! | [`service`] | answers the sidecars and the kubelet |
//!
//! Invariant: what there is follows from the files alone, so an agent that was away goes on where it
//! stopped; nothing is made before the first volume is asked for.

pub mod pool;
pub mod service;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use futures::stream::{self, Stream};
use proto::{
    csi::{
        controller_server::ControllerServer, identity_server::IdentityServer,
        node_server::NodeServer,
    },
    pluginregistration::registration_server::RegistrationServer,
};
use tokio::net::{UnixListener, UnixStream};
use tonic::transport::Server;

use self::{
    pool::Pool,
    service::{Registration, Service},
};

/// Name of the driver, and provisioner of the lab's StorageClass `lab-block`.
pub const DRIVER: &str = "block.lab.covey.dev";
/// Where a kubelet looks for plugins.
const REGISTRY: &str = "/var/lib/kubelet/plugins_registry";

/// Where block storage is and answers.
#[derive(Clone, Debug)]
pub struct Place {
    /// Name of the node.
    pub node: String,
    /// Folder for the volumes.
    pub folder: PathBuf,
    /// Socket for the sidecars and the kubelet.
    pub socket: PathBuf,
}

/// Provides block storage until the process ends.
///
/// # Errors
/// When a socket cannot be opened, or is lost.
pub async fn run(place: Place) -> anyhow::Result<()> {
    let service = Service::new(Pool::new(place.folder), place.node);
    let listener = bind(&place.socket)?;
    // The kubelet calls as soon as it sees this one, so it comes last.
    // With an @, as the kubelet calls the socket by its path (docs/csi.md).
    let told = bind(&Path::new(REGISTRY).join(format!("lab@{DRIVER}-reg.sock")))?;
    let registration = Registration::new(&place.socket);
    let registration = Server::builder()
        .add_service(RegistrationServer::new(registration))
        .serve_with_incoming(connections(told));
    let driver = Server::builder()
        .add_service(IdentityServer::new(service.clone()))
        .add_service(ControllerServer::new(service.clone()))
        .add_service(NodeServer::new(service))
        .serve_with_incoming(connections(listener));
    futures::future::try_join(driver, registration)
        .await
        .map(drop)
        .context("a socket is lost")
}

/// A socket of an agent before us is in the way.
fn bind(socket: &Path) -> anyhow::Result<UnixListener> {
    let open = || {
        if let Some(folder) = socket.parent() {
            fs::create_dir_all(folder)?;
        }
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        UnixListener::bind(socket)
    };
    open().with_context(|| format!("cannot open {}", socket.display()))
}

fn connections(listener: UnixListener) -> impl Stream<Item = io::Result<UnixStream>> {
    stream::unfold(listener, |listener| async move {
        let connection = listener.accept().await.map(|(connection, _)| connection);
        Some((connection, listener))
    })
}
