//! gRPC service Node of CSI. What each call does is in [`calls`].
//!
//! Invariant: a call goes on when whoever called is gone, and no other one for the volume begins
//! before its end.

use std::time::Duration;

use anyhow::Context as _;
use api::storage::MOST_DISKS;
use kube::Client;
use proto::csi;
use proto::csi::identity_server::IdentityServer;
use proto::csi::node_server::{Node, NodeServer};
use proto::csi::node_service_capability::Rpc;
use proto::csi::node_service_capability::rpc::Type;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tonic::transport::Server;
use tonic::{Request, Response};

use super::host::{Folders, Host};
use super::zone::{self, Zone};
use crate::in_flight::InFlight;
use crate::mapping::topology;
use crate::server::identity;
use crate::socket;
use crate::status::Status;

mod calls;

/// Everything that answers depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Name of the machine, which is the node's identifier.
    pub name: String,
    /// Most volumes on it, where its other disks leave room for as many.
    pub most_volumes: i64,
    /// How long a call waits for a disk, or for its new size.
    pub patience: Duration,
    /// Whether it says in which zone it is.
    pub topology: bool,
    /// Where things are.
    pub folders: Folders,
}

/// What is advertised, and nothing else. Groups of files are the kubelet's work (`fsGroupPolicy:
/// File`): neither filesystem can do that when it is mounted.
pub const CAPABILITIES: [Type; 5] = [
    Type::StageUnstageVolume,
    Type::GetVolumeStats,
    Type::GetVolumeHealth,
    Type::ExpandVolume,
    Type::SingleNodeMultiWriter,
];

/// The service.
#[derive(Clone)]
pub struct Service {
    settings: Settings,
    host: Host,
    in_flight: InFlight,
    zone: watch::Sender<Zone>,
}

impl Service {
    /// One for this node.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let host = Host::new(settings.folders.clone());
        let zone = match settings.topology {
            true => Err(Status::unavailable(
                "the node has not been asked yet where it is; try again",
            )),
            false => Ok(None),
        };
        Self {
            settings,
            host,
            in_flight: InFlight::default(),
            zone: watch::Sender::new(zone),
        }
    }

    /// In which zone the node is, now and later.
    #[must_use]
    pub fn zone(&self) -> watch::Receiver<Zone> {
        self.zone.subscribe()
    }

    /// Whether the node says in which zone it is.
    #[must_use]
    pub fn has_topology(&self) -> bool {
        self.settings.topology
    }

    /// Finds out in which zone the node is; ends when that is known.
    pub async fn find_zone(&self, client: &Client) {
        zone::find(client, &self.settings.name, &self.zone).await;
    }

    fn info(&self) -> Result<csi::NodeGetInfoResponse, Status> {
        let zone = self.zone.borrow().clone()?;
        let others = i64::try_from(self.host.others()?).unwrap_or(i64::MAX);
        // 0 would be no limit.
        let room = i64::from(MOST_DISKS).saturating_sub(others).max(1);
        Ok(csi::NodeGetInfoResponse {
            node_id: self.settings.name.clone(),
            max_volumes_per_node: self.settings.most_volumes.min(room),
            accessible_topology: zone.map(|zone| topology::zone(&zone)),
        })
    }

    /// Does a call's work where waiting for disks and programs holds up nobody.
    async fn work<T: Send + 'static>(
        &self,
        call: &'static str,
        volume: &str,
        work: impl FnOnce(&calls::Node) -> Result<T, Status> + Send + 'static,
    ) -> Answer<T> {
        let work = async {
            if volume.is_empty() {
                return Err(Status::invalid_argument("say which volume: volume_id"));
            }
            let held = self.in_flight.take(volume)?;
            let (host, patience) = (self.host.clone(), self.settings.patience);
            let done = tokio::task::spawn_blocking(move || {
                let _held = held;
                work(&calls::Node { host, patience })
            });
            done.await
                .unwrap_or_else(|error| Err(Status::internal(format!("{call} broke: {error}"))))
        };
        work.await.map(Response::new).map_err(|status| {
            tracing::info!(call, code = ?status.code, "{call} is refused: {status}");
            tonic::Status::from(status)
        })
    }
}

/// Serves Identity and Node on a Unix socket until `stop`.
///
/// # Errors
/// When the socket is lost.
pub async fn serve(
    service: Service,
    listener: UnixListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let served = Server::builder()
        .add_service(IdentityServer::new(identity::Service::on_node(
            service.has_topology(),
        )))
        .add_service(NodeServer::new(service))
        .serve_with_incoming_shutdown(socket::connections(listener), stop);
    served.await.context("serve the socket")
}

type Answer<T> = Result<Response<T>, tonic::Status>;

macro_rules! calls {
    ($($call:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl Node for Service {
            async fn node_get_capabilities(
                &self,
                _: Request<csi::NodeGetCapabilitiesRequest>,
            ) -> Answer<csi::NodeGetCapabilitiesResponse> {
                let capability = |capability: Type| csi::NodeServiceCapability {
                    r#type: Some(csi::node_service_capability::Type::Rpc(Rpc {
                        r#type: capability.into(),
                    })),
                };
                Ok(Response::new(csi::NodeGetCapabilitiesResponse {
                    capabilities: CAPABILITIES.map(capability).into(),
                }))
            }

            async fn node_get_info(
                &self,
                _: Request<csi::NodeGetInfoRequest>,
            ) -> Answer<csi::NodeGetInfoResponse> {
                self.info().map(Response::new).map_err(tonic::Status::from)
            }

            $(async fn $call(&self, request: Request<csi::$request>) -> Answer<csi::$response> {
                let request = request.into_inner();
                let volume = request.volume_id.clone();
                let work = move |node: &calls::Node| node.$call(&request);
                self.work(stringify!($call), &volume, work).await
            })*
        }
    };
}

calls! {
    node_stage_volume(NodeStageVolumeRequest) -> NodeStageVolumeResponse;
    node_unstage_volume(NodeUnstageVolumeRequest) -> NodeUnstageVolumeResponse;
    node_publish_volume(NodePublishVolumeRequest) -> NodePublishVolumeResponse;
    node_unpublish_volume(NodeUnpublishVolumeRequest) -> NodeUnpublishVolumeResponse;
    node_get_volume_stats(NodeGetVolumeStatsRequest) -> NodeGetVolumeStatsResponse;
    node_get_volume_health(NodeGetVolumeHealthRequest) -> NodeGetVolumeHealthResponse;
    node_expand_volume(NodeExpandVolumeRequest) -> NodeExpandVolumeResponse;
}
