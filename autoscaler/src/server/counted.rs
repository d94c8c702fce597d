//! Counts calls of the Cluster Autoscaler by what was answered.
//!
//! Invariant: the answer is the service's, untouched.

use proto::autoscaler as rpc;
use proto::autoscaler::cloud_provider_server::CloudProvider;
use tonic::{Code, Request, Response, Status};

use crate::metrics::Metrics;
use crate::server::calls::Service;

/// The service, counted.
#[derive(Clone)]
pub struct Counted {
    service: Service,
    metrics: Metrics,
}

impl Counted {
    /// Counts there.
    #[must_use]
    pub fn new(service: Service, metrics: Metrics) -> Self {
        Self { service, metrics }
    }
}

macro_rules! calls {
    ($($call:ident($request:ident) -> $response:ident;)*) => {
        #[tonic::async_trait]
        impl CloudProvider for Counted {
            $(async fn $call(
                &self,
                request: Request<rpc::$request>,
            ) -> Result<Response<rpc::$response>, Status> {
                let answer = self.service.$call(request).await;
                let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
                self.metrics.answered(stringify!($call), code);
                answer
            })*
        }
    };
}

calls! {
    refresh(RefreshRequest) -> RefreshResponse;
    node_groups(NodeGroupsRequest) -> NodeGroupsResponse;
    node_group_for_node(NodeGroupForNodeRequest) -> NodeGroupForNodeResponse;
    node_group_target_size(NodeGroupTargetSizeRequest) -> NodeGroupTargetSizeResponse;
    node_group_nodes(NodeGroupNodesRequest) -> NodeGroupNodesResponse;
    node_group_template_node_info(NodeGroupTemplateNodeInfoRequest) -> NodeGroupTemplateNodeInfoResponse;
    node_group_get_options(NodeGroupGetOptionsRequest) -> NodeGroupGetOptionsResponse;
    node_group_increase_size(NodeGroupIncreaseSizeRequest) -> NodeGroupIncreaseSizeResponse;
    node_group_delete_nodes(NodeGroupDeleteNodesRequest) -> NodeGroupDeleteNodesResponse;
    node_group_decrease_target_size(NodeGroupDecreaseTargetSizeRequest) -> NodeGroupDecreaseTargetSizeResponse;
    gpu_label(GpuLabelRequest) -> GpuLabelResponse;
    get_available_gpu_types(GetAvailableGpuTypesRequest) -> GetAvailableGpuTypesResponse;
    cleanup(CleanupRequest) -> CleanupResponse;
    pricing_node_price(PricingNodePriceRequest) -> PricingNodePriceResponse;
    pricing_pod_price(PricingPodPriceRequest) -> PricingPodPriceResponse;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kit::admin::Admin;
    use kube::{Client, Config};
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::manager::Manager;
    use crate::testing::settings;

    #[tokio::test]
    async fn every_answer_is_counted_and_handed_on() {
        kit_client::crypto::install_crypto();
        let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = Client::try_from(nowhere).unwrap();
        let manager = Manager::new(client.clone(), client, settings(), "test", &Admin::new());
        let ctx = &manager.context;
        let service = Counted::new(Service::new(Arc::clone(ctx)), ctx.metrics.clone());
        let refused = service.refresh(Request::new(Default::default())).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        let label = service.gpu_label(Request::new(Default::default())).await;
        assert!(!label.unwrap().into_inner().label.is_empty());
        let mut registry = Registry::default();
        let (cache, staleness) = (Arc::clone(&ctx.cache), Arc::clone(&ctx.staleness));
        ctx.metrics.register(&mut registry, cache, staleness);
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        for labels in [
            r#"method="refresh",code="UNAVAILABLE""#,
            r#"method="gpu_label",code="OK""#,
        ] {
            let line = format!("covey_autoscaler_calls_total{{{labels}}} 1");
            assert!(shown.contains(&line), "{line}: {shown}");
        }
    }
}
