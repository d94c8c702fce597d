//! gRPC service Controller of CSI.
//!
//! | Module | Calls |
//! |---|---|
//! | [`volumes`] | CreateVolume, DeleteVolume, ControllerExpandVolume, and what only asks |
//! | [`snapshots`] | CreateSnapshot, DeleteSnapshot, GetSnapshot, ListSnapshots |
//! | [`publish`] | ControllerPublishVolume, ControllerUnpublishVolume |
//!
//! Invariant: what is not advertised answers UNIMPLEMENTED, and nothing is answered before every
//! watch has been through once.

use std::sync::Arc;
use std::time::Duration;

use proto::csi;
use proto::csi::controller_server::Controller;
use proto::csi::controller_service_capability::Rpc;
use proto::csi::controller_service_capability::rpc::Type;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response};

use crate::context::Context;
use crate::settings::Offer;
use crate::status::Status;

mod publish;
mod snapshots;
mod volumes;

/// What is advertised, and nothing else: snapshots and changes of attributes where the offer has them.
#[must_use]
pub fn capabilities(offer: &Offer) -> Vec<Type> {
    let mut all = vec![
        Type::CreateDeleteVolume,
        Type::CloneVolume,
        Type::PublishUnpublishVolume,
        Type::PublishReadonly,
        Type::ListVolumes,
        Type::ListVolumesPublishedNodes,
        Type::GetVolume,
        Type::GetCapacity,
        Type::ExpandVolume,
        Type::SingleNodeMultiWriter,
    ];
    if offer.has_snapshots() {
        all.extend([
            Type::CreateDeleteSnapshot,
            Type::ListSnapshots,
            Type::GetSnapshot,
        ]);
    }
    if offer.has_attributes() {
        all.push(Type::ModifyVolume);
    }
    all
}

/// The service.
#[derive(Clone)]
pub struct Service {
    ctx: Arc<Context>,
}

impl Service {
    /// One that shares this.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// What calls share, once there is something to share.
    fn ready(&self) -> Result<&Context, Status> {
        let missing = self.ctx.cache.missing();
        if missing.is_empty() {
            return Ok(&self.ctx);
        }
        Err(Status::unavailable(format!(
            "the management cluster has not been read yet ({missing:?} are missing); try again"
        )))
    }

    /// How long a call may wait: as long as is configured, or as long as the caller does, less what
    /// it takes to answer.
    fn patience(&self, metadata: &MetadataMap) -> Duration {
        let theirs = metadata
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok());
        let theirs = theirs.and_then(timeout).map(|timeout| timeout.mul_f64(0.9));
        theirs
            .unwrap_or(Duration::MAX)
            .min(self.ctx.settings.patience)
    }
}

/// A time-out as gRPC writes it (gRPC over HTTP/2, "Timeout").
fn timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number.checked_mul(3600)?),
        "M" => Duration::from_secs(number.checked_mul(60)?),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

type Answer<T> = Result<Response<T>, tonic::Status>;

fn answer<T>(call: &'static str, result: Result<T, Status>) -> Answer<T> {
    result.map(Response::new).map_err(|status| {
        tracing::info!(call, code = ?status.code, "{call} is refused: {status}");
        tonic::Status::from(status)
    })
}

macro_rules! calls {
    ($($call:ident($request:ident) -> $response:ident by $module:ident;)*) => {
        #[tonic::async_trait]
        impl Controller for Service {
            async fn controller_get_capabilities(
                &self,
                _: Request<csi::ControllerGetCapabilitiesRequest>,
            ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
                let capability = |capability: Type| csi::ControllerServiceCapability {
                    r#type: Some(csi::controller_service_capability::Type::Rpc(Rpc {
                        r#type: capability.into(),
                    })),
                };
                let all = capabilities(&self.ctx.settings.offer).into_iter();
                Ok(Response::new(csi::ControllerGetCapabilitiesResponse {
                    capabilities: all.map(capability).collect(),
                }))
            }

            $(async fn $call(&self, request: Request<csi::$request>) -> Answer<csi::$response> {
                let patience = self.patience(request.metadata());
                let begun = Instant::now();
                let result = async {
                    $module::$call(self.ready()?, request.get_ref(), patience).await
                };
                let result = result.await;
                let code = result.as_ref().err().map_or(Code::Ok, |status| status.code);
                self.ctx.metrics.answered(stringify!($call), code, begun.elapsed());
                answer(stringify!($call), result)
            })*
        }
    };
}

calls! {
    create_volume(CreateVolumeRequest) -> CreateVolumeResponse by volumes;
    delete_volume(DeleteVolumeRequest) -> DeleteVolumeResponse by volumes;
    controller_expand_volume(ControllerExpandVolumeRequest) -> ControllerExpandVolumeResponse by volumes;
    controller_modify_volume(ControllerModifyVolumeRequest) -> ControllerModifyVolumeResponse by volumes;
    validate_volume_capabilities(ValidateVolumeCapabilitiesRequest) -> ValidateVolumeCapabilitiesResponse by volumes;
    get_capacity(GetCapacityRequest) -> GetCapacityResponse by volumes;
    list_volumes(ListVolumesRequest) -> ListVolumesResponse by volumes;
    controller_get_volume(ControllerGetVolumeRequest) -> ControllerGetVolumeResponse by volumes;
    create_snapshot(CreateSnapshotRequest) -> CreateSnapshotResponse by snapshots;
    delete_snapshot(DeleteSnapshotRequest) -> DeleteSnapshotResponse by snapshots;
    get_snapshot(GetSnapshotRequest) -> GetSnapshotResponse by snapshots;
    list_snapshots(ListSnapshotsRequest) -> ListSnapshotsResponse by snapshots;
    controller_publish_volume(ControllerPublishVolumeRequest) -> ControllerPublishVolumeResponse by publish;
    controller_unpublish_volume(ControllerUnpublishVolumeRequest) -> ControllerUnpublishVolumeResponse by publish;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_of_callers_are_understood() {
        assert_eq!(timeout("15S"), Some(Duration::from_secs(15)));
        assert_eq!(timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(timeout("2M"), Some(Duration::from_secs(120)));
        for wrong in ["", "S", "15", "1x", "-1S", "ü"] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }
}
