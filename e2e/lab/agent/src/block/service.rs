//! The three services of CSI, and what the kubelet asks before it uses them.
//!
//! Invariant: volumes are block devices alone; whoever asks for a filesystem is told so, because
//! nothing here makes one.

use std::{path::Path, sync::Arc};

use proto::{
    Timestamp, csi,
    csi::{
        controller_server::Controller,
        controller_service_capability::{self, rpc::Type as Can},
        identity_server::Identity,
        node_server::Node,
        node_service_capability::{self, rpc::Type as NodeCan},
        plugin_capability::{self, service, volume_expansion},
        volume_capability::AccessType,
        volume_content_source,
    },
    pluginregistration::{
        self as registration, registration_server::Registration as RegistrationService,
    },
};
use tonic::{Code, Request, Response, Status};

use super::{
    DRIVER,
    pool::{Origin, Pool, Refusal},
};

const CONTROLLER: [Can; 4] = [
    Can::CreateDeleteVolume,
    Can::CreateDeleteSnapshot,
    Can::CloneVolume,
    Can::ExpandVolume,
];

type Answer<T> = Result<Response<T>, Status>;

/// The driver.
#[derive(Clone, Debug)]
pub struct Service {
    pool: Arc<Pool>,
    node: String,
}

impl Service {
    /// One for this pool on this node.
    #[must_use]
    pub fn new(pool: Pool, node: String) -> Self {
        let pool = Arc::new(pool);
        Self { pool, node }
    }

    /// Works where waiting for the kernel holds up nobody.
    async fn work<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&Pool) -> Result<T, Refusal> + Send + 'static,
    ) -> Answer<T> {
        let pool = Arc::clone(&self.pool);
        let done = tokio::task::spawn_blocking(move || work(&pool)).await;
        let done = done.unwrap_or_else(|error| {
            Err(Refusal::new(
                Code::Internal,
                format!("{call} broke: {error}"),
            ))
        });
        done.map(Response::new).map_err(|refusal| {
            tracing::info!(call, code = ?refusal.code, "refused: {}", refusal.message);
            Status::new(refusal.code, refusal.message)
        })
    }
}

#[tonic::async_trait]
impl Identity for Service {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Answer<csi::GetPluginInfoResponse> {
        Ok(Response::new(csi::GetPluginInfoResponse {
            name: DRIVER.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Answer<csi::GetPluginCapabilitiesResponse> {
        let controller = plugin_capability::Type::Service(plugin_capability::Service {
            r#type: service::Type::ControllerService.into(),
        });
        let expansion =
            plugin_capability::Type::VolumeExpansion(plugin_capability::VolumeExpansion {
                r#type: volume_expansion::Type::Online.into(),
            });
        let capabilities =
            [controller, expansion].map(|can| csi::PluginCapability { r#type: Some(can) });
        Ok(Response::new(csi::GetPluginCapabilitiesResponse {
            capabilities: capabilities.into(),
        }))
    }

    async fn probe(&self, _: Request<csi::ProbeRequest>) -> Answer<csi::ProbeResponse> {
        Ok(Response::new(csi::ProbeResponse { ready: Some(true) }))
    }
}

#[tonic::async_trait]
impl Controller for Service {
    async fn controller_get_capabilities(
        &self,
        _: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        use controller_service_capability::{Rpc, Type};
        let capabilities = CONTROLLER.map(|can| csi::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: can.into() })),
        });
        Ok(Response::new(csi::ControllerGetCapabilitiesResponse {
            capabilities: capabilities.into(),
        }))
    }

    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Answer<csi::CreateVolumeResponse> {
        let request = request.into_inner();
        self.work("CreateVolume", move |pool| {
            block(&request.volume_capabilities)?;
            let (least, most) = limits(request.capacity_range)?;
            let source = request.volume_content_source;
            let size = pool.create(&request.name, &origin(source.as_ref())?, least, most)?;
            Ok(csi::CreateVolumeResponse {
                volume: Some(csi::Volume {
                    capacity_bytes: signed(size)?,
                    volume_id: request.name,
                    content_source: source,
                    ..Default::default()
                }),
            })
        })
        .await
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Answer<csi::DeleteVolumeResponse> {
        let id = request.into_inner().volume_id;
        self.work("DeleteVolume", move |pool| {
            pool.delete(&id)?;
            Ok(csi::DeleteVolumeResponse {})
        })
        .await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        use csi::validate_volume_capabilities_response::Confirmed;
        let asked = request.into_inner().volume_capabilities;
        let (confirmed, message) = match block(&asked) {
            Ok(()) => (true, String::new()),
            Err(refusal) => (false, refusal.message),
        };
        let confirmed = confirmed.then(|| Confirmed {
            volume_capabilities: asked,
            ..Default::default()
        });
        Ok(Response::new(csi::ValidateVolumeCapabilitiesResponse {
            confirmed,
            message,
        }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let request = request.into_inner();
        self.work("ControllerExpandVolume", move |pool| {
            let (least, _) = limits(request.capacity_range)?;
            let size = pool.grow(&request.volume_id, least)?;
            Ok(csi::ControllerExpandVolumeResponse {
                capacity_bytes: signed(size)?,
                // The devices are larger already.
                node_expansion_required: false,
            })
        })
        .await
    }

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        let request = request.into_inner();
        self.work("CreateSnapshot", move |pool| {
            let cut = pool.cut(&request.source_volume_id, &request.name)?;
            Ok(csi::CreateSnapshotResponse {
                snapshot: Some(csi::Snapshot {
                    size_bytes: signed(cut.size)?,
                    snapshot_id: cut.id,
                    source_volume_id: request.source_volume_id,
                    creation_time: Some(Timestamp {
                        seconds: signed(cut.cut)?,
                        nanos: 0,
                    }),
                    ready_to_use: true,
                    ..Default::default()
                }),
            })
        })
        .await
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        let id = request.into_inner().snapshot_id;
        self.work("DeleteSnapshot", move |pool| {
            pool.forget(&id)?;
            Ok(csi::DeleteSnapshotResponse {})
        })
        .await
    }
}

#[tonic::async_trait]
impl Node for Service {
    async fn node_get_capabilities(
        &self,
        _: Request<csi::NodeGetCapabilitiesRequest>,
    ) -> Answer<csi::NodeGetCapabilitiesResponse> {
        use node_service_capability::{Rpc, Type};
        let capability = csi::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: NodeCan::StageUnstageVolume.into(),
            })),
        };
        Ok(Response::new(csi::NodeGetCapabilitiesResponse {
            capabilities: vec![capability],
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<csi::NodeGetInfoRequest>,
    ) -> Answer<csi::NodeGetInfoResponse> {
        Ok(Response::new(csi::NodeGetInfoResponse {
            node_id: self.node.clone(),
            ..Default::default()
        }))
    }

    async fn node_stage_volume(
        &self,
        request: Request<csi::NodeStageVolumeRequest>,
    ) -> Answer<csi::NodeStageVolumeResponse> {
        let request = request.into_inner();
        self.work("NodeStageVolume", move |pool| {
            block(request.volume_capability.as_slice())?;
            pool.attach(&request.volume_id)?;
            Ok(csi::NodeStageVolumeResponse {})
        })
        .await
    }

    async fn node_unstage_volume(
        &self,
        request: Request<csi::NodeUnstageVolumeRequest>,
    ) -> Answer<csi::NodeUnstageVolumeResponse> {
        let id = request.into_inner().volume_id;
        self.work("NodeUnstageVolume", move |pool| {
            pool.detach(&id)?;
            Ok(csi::NodeUnstageVolumeResponse {})
        })
        .await
    }

    async fn node_publish_volume(
        &self,
        request: Request<csi::NodePublishVolumeRequest>,
    ) -> Answer<csi::NodePublishVolumeResponse> {
        let request = request.into_inner();
        self.work("NodePublishVolume", move |pool| {
            block(request.volume_capability.as_slice())?;
            pool.show(&request.volume_id, Path::new(&request.target_path))?;
            Ok(csi::NodePublishVolumeResponse {})
        })
        .await
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<csi::NodeUnpublishVolumeRequest>,
    ) -> Answer<csi::NodeUnpublishVolumeResponse> {
        let at = request.into_inner().target_path;
        self.work("NodeUnpublishVolume", move |pool| {
            pool.hide(Path::new(&at))?;
            Ok(csi::NodeUnpublishVolumeResponse {})
        })
        .await
    }
}

/// Tells the kubelet of the driver.
#[derive(Clone, Debug)]
pub struct Registration {
    endpoint: String,
}

impl Registration {
    /// One that leads to this socket.
    #[must_use]
    pub fn new(socket: &Path) -> Self {
        let endpoint = socket.display().to_string();
        Self { endpoint }
    }
}

#[tonic::async_trait]
impl RegistrationService for Registration {
    async fn get_info(
        &self,
        _: Request<registration::InfoRequest>,
    ) -> Answer<registration::PluginInfo> {
        Ok(Response::new(registration::PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: DRIVER.to_owned(),
            endpoint: self.endpoint.clone(),
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<registration::RegistrationStatus>,
    ) -> Answer<registration::RegistrationStatusResponse> {
        let said = request.into_inner();
        match said.plugin_registered {
            true => tracing::info!("the kubelet has registered block storage"),
            false => tracing::warn!(said.error, "the kubelet does not register block storage"),
        }
        Ok(Response::new(registration::RegistrationStatusResponse {}))
    }
}

/// Refuses what is no block device.
fn block(asked: &[csi::VolumeCapability]) -> Result<(), Refusal> {
    let is_block =
        |one: &csi::VolumeCapability| matches!(one.access_type, Some(AccessType::Block(_)));
    if asked.is_empty() || !asked.iter().all(is_block) {
        let message = "these volumes are block devices: say volumeMode: Block in the claim";
        return Err(Refusal::new(Code::InvalidArgument, message));
    }
    Ok(())
}

fn origin(source: Option<&csi::VolumeContentSource>) -> Result<Origin, Refusal> {
    use volume_content_source::Type;
    match source.and_then(|source| source.r#type.as_ref()) {
        None if source.is_none() => Ok(Origin::Nothing),
        Some(Type::Volume(volume)) => Ok(Origin::Volume(volume.volume_id.clone())),
        Some(Type::Snapshot(snapshot)) => Ok(Origin::Snapshot(snapshot.snapshot_id.clone())),
        None => {
            let message = "the source is neither a volume nor a snapshot";
            Err(Refusal::new(Code::InvalidArgument, message))
        }
    }
}

fn limits(range: Option<csi::CapacityRange>) -> Result<(u64, u64), Refusal> {
    let range = range.unwrap_or_default();
    let bytes = |bytes: i64| {
        u64::try_from(bytes)
            .map_err(|_| Refusal::new(Code::InvalidArgument, format!("{bytes} is no size")))
    };
    Ok((bytes(range.required_bytes)?, bytes(range.limit_bytes)?))
}

fn signed(number: u64) -> Result<i64, Refusal> {
    i64::try_from(number)
        .map_err(|_| Refusal::new(Code::Internal, format!("{number} is too large")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(access_type: AccessType) -> csi::VolumeCapability {
        csi::VolumeCapability {
            access_type: Some(access_type),
            ..Default::default()
        }
    }

    #[test]
    fn filesystems_are_refused_with_what_to_do() {
        let disk = capability(AccessType::Block(Default::default()));
        let mount = capability(AccessType::Mount(Default::default()));
        assert!(block(std::slice::from_ref(&disk)).is_ok());
        for bad in [vec![], vec![mount.clone()], vec![disk, mount]] {
            let refusal = block(&bad).unwrap_err();
            assert!(refusal.message.contains("volumeMode"));
        }
    }

    #[test]
    fn sources_are_told_apart() {
        let source = |r#type| csi::VolumeContentSource { r#type };
        assert_eq!(origin(None).unwrap(), Origin::Nothing);
        let volume = volume_content_source::VolumeSource {
            volume_id: "a".to_owned(),
        };
        let of_volume = source(Some(volume_content_source::Type::Volume(volume)));
        assert_eq!(
            origin(Some(&of_volume)).unwrap(),
            Origin::Volume("a".to_owned())
        );
        assert!(origin(Some(&source(None))).is_err());
    }
}
