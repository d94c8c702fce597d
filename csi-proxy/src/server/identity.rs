//! gRPC service Identity of CSI.
//!
//! Invariant: ready is said once every watch has been through once, not before; a node has none.
//! Topology is advertised where volumes are out of reach of some machines: elsewhere nodes may be in
//! no zone, and with it the stock provisioner makes no volume for a pod on one that is in none.

use std::sync::Arc;

use proto::csi;
use proto::csi::identity_server::Identity;
use proto::csi::plugin_capability::{self, service, volume_expansion};
use tonic::{Request, Response, Status};

use crate::cache::Cache;
use crate::names;

/// The service, which both halves have.
#[derive(Clone)]
pub struct Service {
    cache: Option<Arc<Cache>>,
    topology: bool,
}

impl Service {
    /// The controller's, which is as ready as its cache.
    #[must_use]
    pub fn new(cache: Arc<Cache>, topology: bool) -> Self {
        Self {
            cache: Some(cache),
            topology,
        }
    }

    /// A node's.
    #[must_use]
    pub fn on_node(topology: bool) -> Self {
        Self {
            cache: None,
            topology,
        }
    }
}

#[tonic::async_trait]
impl Identity for Service {
    async fn get_plugin_info(
        &self,
        _: Request<csi::GetPluginInfoRequest>,
    ) -> Result<Response<csi::GetPluginInfoResponse>, Status> {
        Ok(Response::new(csi::GetPluginInfoResponse {
            name: names::DRIVER.to_owned(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<csi::GetPluginCapabilitiesResponse>, Status> {
        let service = |service: service::Type| {
            plugin_capability::Type::Service(plugin_capability::Service {
                r#type: service.into(),
            })
        };
        let controller = service(service::Type::ControllerService);
        let zones = service(service::Type::VolumeAccessibilityConstraints);
        let zones = self.topology.then_some(zones);
        let expansion =
            plugin_capability::Type::VolumeExpansion(plugin_capability::VolumeExpansion {
                r#type: volume_expansion::Type::Online.into(),
            });
        let capability = |r#type| csi::PluginCapability {
            r#type: Some(r#type),
        };
        Ok(Response::new(csi::GetPluginCapabilitiesResponse {
            capabilities: [controller, expansion]
                .into_iter()
                .chain(zones)
                .map(capability)
                .collect(),
        }))
    }

    async fn probe(
        &self,
        _: Request<csi::ProbeRequest>,
    ) -> Result<Response<csi::ProbeResponse>, Status> {
        let cache = self.cache.as_ref();
        Ok(Response::new(csi::ProbeResponse {
            ready: Some(cache.is_none_or(|cache| cache.missing().is_empty())),
        }))
    }
}
