//! Calls of the Cluster Autoscaler, all 15: the gRPC service `externalgrpc`.
//!
//! Invariant: what only asks is answered from memory and never fails, but for `Refresh`: an error of
//! any other would end a loop over all pools. A group that is gone is one with nothing in it. But before
//! everything was listed once nobody is told that there is no group.

use std::sync::Arc;

use kit_client::errors::{Class, Classify};
use proto::autoscaler as rpc;
use proto::autoscaler::cloud_provider_server::CloudProvider;
use tonic::{Code, Request, Response, Status};

use crate::cache::state::State;
use crate::context::Context;
use crate::controllers::refusals;
use crate::error::{Error, Refusal};
use crate::node_group::decide::{self, Decision};
use crate::node_group::instances::instances;
use crate::node_group::options::options;
use crate::node_group::{self, Group, template};

/// The service.
#[derive(Clone)]
pub struct Service {
    ctx: Arc<Context>,
}

/// A node with this label that does not offer `nvidia.com/gpu` yet counts as one that starts still, instead
/// of one that pods do not fit. It is that of Cluster API's provider; people put it on pools.
const GPU_LABEL: &str = "cluster-api/accelerator";

type Answer<T> = Result<Response<T>, Status>;

impl Service {
    /// One that shares this.
    #[must_use]
    pub fn new(ctx: Arc<Context>) -> Self {
        Self { ctx }
    }

    /// What there is about a group; the default when there is no such group.
    fn of_group<T: Default>(&self, id: &str, answer: impl FnOnce(Group<'_>, &State) -> T) -> T {
        self.ctx
            .cache
            .read(|state| node_group::find(state, id).map(|group| answer(group, state)))
            .unwrap_or_default()
    }

    fn listed(&self) -> Result<(), Status> {
        match self.ctx.cache.missing().as_slice() {
            [] => Ok(()),
            missing => Err(Status::unavailable(format!(
                "the management cluster has not been read yet ({missing:?} are missing); try again"
            ))),
        }
    }

    async fn change(
        &self,
        call: &'static str,
        id: &str,
        decide: impl Fn(Group<'_>, &State) -> Decision,
    ) -> Result<(), Status> {
        self.listed()?;
        let Err(error) = self.ctx.node_pools.change(id, decide).await else {
            return Ok(());
        };
        let message = kit_client::errors::chain(&error);
        let code = code(&error);
        tracing::warn!(call, group = id, ?code, "{call} is refused: {message}");
        self.ctx.metrics.refused(call, &error);
        if let Error::Refused(refusal) = &error {
            refusals::report(&self.ctx, id, refusal);
        }
        Err(Status::new(code, message))
    }
}

fn code(error: &Error) -> Code {
    match error {
        Error::Unknown(_) => Code::NotFound,
        Error::Refused(Refusal::Invalid(_)) => Code::InvalidArgument,
        Error::Refused(Refusal::Bounds(_) | Refusal::Room(_)) => Code::FailedPrecondition,
        Error::Contended(_) => Code::Aborted,
        Error::Request { source, .. } => match source.class() {
            Class::Transient => Code::Unavailable,
            Class::Conflict => Code::Aborted,
            Class::Invalid => Code::FailedPrecondition,
            Class::Bug => Code::Internal,
        },
    }
}

#[tonic::async_trait]
impl CloudProvider for Service {
    async fn refresh(&self, _: Request<rpc::RefreshRequest>) -> Answer<rpc::RefreshResponse> {
        self.listed()?;
        let broken = self.ctx.staleness.broken_for();
        if let Some(time) = broken.filter(|time| *time > self.ctx.settings.patience) {
            return Err(Status::unavailable(format!(
                "the management cluster's API has not answered for {} s",
                time.as_secs()
            )));
        }
        Ok(Response::new(rpc::RefreshResponse {}))
    }

    async fn node_groups(
        &self,
        _: Request<rpc::NodeGroupsRequest>,
    ) -> Answer<rpc::NodeGroupsResponse> {
        self.listed()?;
        let groups = |state: &State| node_group::groups(state).map(|g| g.told()).collect();
        let node_groups = self.ctx.cache.read(groups);
        Ok(Response::new(rpc::NodeGroupsResponse { node_groups }))
    }

    async fn node_group_for_node(
        &self,
        request: Request<rpc::NodeGroupForNodeRequest>,
    ) -> Answer<rpc::NodeGroupForNodeResponse> {
        self.listed()?;
        let node = request.into_inner().node.unwrap_or_default();
        let cache = &self.ctx.cache;
        let found = cache.read(|state| node_group::of_node(state, &node).map(|g| g.told()));
        let node_group = Some(found.unwrap_or_default());
        Ok(Response::new(rpc::NodeGroupForNodeResponse { node_group }))
    }

    async fn node_group_target_size(
        &self,
        request: Request<rpc::NodeGroupTargetSizeRequest>,
    ) -> Answer<rpc::NodeGroupTargetSizeResponse> {
        let id = request.into_inner().id;
        let target_size = self.of_group(&id, |group, _| group.pool.replicas);
        Ok(Response::new(rpc::NodeGroupTargetSizeResponse {
            target_size,
        }))
    }

    async fn node_group_nodes(
        &self,
        request: Request<rpc::NodeGroupNodesRequest>,
    ) -> Answer<rpc::NodeGroupNodesResponse> {
        let instances = self.of_group(&request.into_inner().id, instances);
        Ok(Response::new(rpc::NodeGroupNodesResponse { instances }))
    }

    /// UNIMPLEMENTED makes the client pass over the group; any other error would end its loop, and
    /// an empty node would end its process.
    async fn node_group_template_node_info(
        &self,
        request: Request<rpc::NodeGroupTemplateNodeInfoRequest>,
    ) -> Answer<rpc::NodeGroupTemplateNodeInfoResponse> {
        let id = request.into_inner().id;
        let node = self.of_group(&id, template::bytes);
        let node = node.filter(|node| !node.is_empty()).ok_or_else(|| {
            Status::unimplemented(format!("nobody knows what a node of {id} would be"))
        })?;
        Ok(Response::new(rpc::NodeGroupTemplateNodeInfoResponse {
            legacy_node_info: node.clone(),
            node_bytes: node,
        }))
    }

    async fn node_group_get_options(
        &self,
        request: Request<rpc::NodeGroupGetOptionsRequest>,
    ) -> Answer<rpc::NodeGroupGetOptionsResponse> {
        let rpc::NodeGroupGetOptionsRequest { id, defaults } = request.into_inner();
        let answer = self.of_group(&id, |group, state| options(group, state, defaults.as_ref()));
        Ok(Response::new(rpc::NodeGroupGetOptionsResponse {
            node_group_autoscaling_options: answer,
        }))
    }

    async fn node_group_increase_size(
        &self,
        request: Request<rpc::NodeGroupIncreaseSizeRequest>,
    ) -> Answer<rpc::NodeGroupIncreaseSizeResponse> {
        let rpc::NodeGroupIncreaseSizeRequest { delta, id } = request.into_inner();
        let decide = |group: Group<'_>, state: &State| decide::increase(group, state, delta);
        self.change("IncreaseSize", &id, decide).await?;
        Ok(Response::new(rpc::NodeGroupIncreaseSizeResponse {}))
    }

    async fn node_group_delete_nodes(
        &self,
        request: Request<rpc::NodeGroupDeleteNodesRequest>,
    ) -> Answer<rpc::NodeGroupDeleteNodesResponse> {
        let rpc::NodeGroupDeleteNodesRequest { nodes, id } = request.into_inner();
        let decide = |group: Group<'_>, state: &State| decide::delete(group, state, &nodes);
        self.change("DeleteNodes", &id, decide).await?;
        Ok(Response::new(rpc::NodeGroupDeleteNodesResponse {}))
    }

    /// An error would end a loop over all pools. The client reads the size again and goes on from
    /// there, so nothing is lost when nothing was cancelled.
    async fn node_group_decrease_target_size(
        &self,
        request: Request<rpc::NodeGroupDecreaseTargetSizeRequest>,
    ) -> Answer<rpc::NodeGroupDecreaseTargetSizeResponse> {
        let rpc::NodeGroupDecreaseTargetSizeRequest { delta, id } = request.into_inner();
        let decide = |group: Group<'_>, state: &State| decide::decrease(group, state, delta);
        match self.change("DecreaseTargetSize", &id, decide).await {
            Err(refused) if refused.code() == Code::InvalidArgument => Err(refused),
            _ => Ok(Response::new(rpc::NodeGroupDecreaseTargetSizeResponse {})),
        }
    }

    async fn gpu_label(&self, _: Request<rpc::GpuLabelRequest>) -> Answer<rpc::GpuLabelResponse> {
        let label = GPU_LABEL.to_owned();
        Ok(Response::new(rpc::GpuLabelResponse { label }))
    }

    async fn get_available_gpu_types(
        &self,
        _: Request<rpc::GetAvailableGpuTypesRequest>,
    ) -> Answer<rpc::GetAvailableGpuTypesResponse> {
        Ok(Response::new(rpc::GetAvailableGpuTypesResponse::default()))
    }

    async fn cleanup(&self, _: Request<rpc::CleanupRequest>) -> Answer<rpc::CleanupResponse> {
        Ok(Response::new(rpc::CleanupResponse::default()))
    }

    async fn pricing_node_price(
        &self,
        _: Request<rpc::PricingNodePriceRequest>,
    ) -> Answer<rpc::PricingNodePriceResponse> {
        Err(no_price())
    }

    async fn pricing_pod_price(
        &self,
        _: Request<rpc::PricingPodPriceRequest>,
    ) -> Answer<rpc::PricingPodPriceResponse> {
        Err(no_price())
    }
}

fn no_price() -> Status {
    Status::unimplemented("no provider has prices; choose another expander than price")
}

#[cfg(test)]
mod tests;
