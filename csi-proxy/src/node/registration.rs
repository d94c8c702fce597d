//! gRPC service Registration (pluginregistration v1): the kubelet finds a socket in its folder of
//! plugins, and asks there for the driver.
//!
//! Invariant: what the kubelet refused is an end, so that whoever watches the process sees it.

use std::path::Path;

use anyhow::Context as _;
use proto::pluginregistration::registration_server::{Registration, RegistrationServer};
use proto::pluginregistration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::{names, socket};

/// Versions of CSI that are spoken, as the kubelet compares them.
const VERSION: &str = "1.0.0";

/// What the kubelet said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    #[default]
    Unknown,
    /// The driver is registered.
    Registered,
    /// It is not, and why.
    Refused(String),
}

/// The service.
#[derive(Clone, Debug)]
pub struct Service {
    endpoint: String,
    state: watch::Sender<State>,
}

impl Service {
    /// One that leads to the driver's socket.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        Self {
            endpoint: socket.display().to_string(),
            state: watch::Sender::new(State::default()),
        }
    }

    /// What the kubelet said, now and later.
    #[must_use]
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Why the kubelet does not want the driver; waits until that is so.
    pub async fn refused(&self) -> String {
        let mut state = self.state.subscribe();
        loop {
            if let State::Refused(why) = &*state.borrow_and_update() {
                return why.clone();
            }
            // The sender is ours, so waiting cannot fail.
            let _ = state.changed().await;
        }
    }
}

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: names::DRIVER.to_owned(),
            endpoint: self.endpoint.clone(),
            supported_versions: vec![VERSION.to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let said = request.into_inner();
        self.state.send_replace(match said.plugin_registered {
            true => {
                tracing::info!("the kubelet has registered the driver");
                State::Registered
            }
            false => State::Refused(said.error),
        });
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

/// Serves Registration on a Unix socket until `stop`.
///
/// # Errors
/// When the socket is lost.
pub async fn serve(
    service: Service,
    listener: UnixListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let served = Server::builder()
        .add_service(RegistrationServer::new(service))
        .serve_with_incoming_shutdown(socket::connections(listener), stop);
    served.await.context("serve the socket of the registration")
}
