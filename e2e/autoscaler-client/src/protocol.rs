//! One method per RPC that the Cluster Autoscaler uses.
//!
//! Invariant: what is remembered, and until when, is as in the stock client: groups and the group of
//! a node until [`Protocol::refresh`] (a node without a group is asked for again), templates for as
//! long, GPUs for ever, sizes, instances and options not at all. No call is made twice; each has
//! [`TIME_LIMIT`].

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use proto::Message as _;
use proto::autoscaler as rpc;
use proto::kubernetes::Node;
use tonic::{Code, Status};

use crate::channel::Channel;
use crate::credentials::Credentials;

mod options;
pub use options::Options;

/// `grpc_timeout` of the stock client unless its configuration says otherwise.
pub const TIME_LIMIT: Duration = Duration::from_secs(5);

/// A request, which says by itself what call it is.
trait Question: proto::Message {
    const PATH: &'static str;
    type Answer: proto::Message + Default;
}

macro_rules! calls {
    ($($call:literal: $question:ident -> $answer:ident;)*) => {
        $(impl Question for rpc::$question {
            const PATH: &'static str = concat!(
                "/clusterautoscaler.cloudprovider.v1.externalgrpc.CloudProvider/",
                $call
            );
            type Answer = rpc::$answer;
        })*
    };
}

calls! {
    "Refresh": RefreshRequest -> RefreshResponse;
    "NodeGroups": NodeGroupsRequest -> NodeGroupsResponse;
    "NodeGroupForNode": NodeGroupForNodeRequest -> NodeGroupForNodeResponse;
    "NodeGroupTargetSize": NodeGroupTargetSizeRequest -> NodeGroupTargetSizeResponse;
    "NodeGroupNodes": NodeGroupNodesRequest -> NodeGroupNodesResponse;
    "NodeGroupTemplateNodeInfo": NodeGroupTemplateNodeInfoRequest -> NodeGroupTemplateNodeInfoResponse;
    "NodeGroupGetOptions": NodeGroupGetOptionsRequest -> NodeGroupGetOptionsResponse;
    "NodeGroupIncreaseSize": NodeGroupIncreaseSizeRequest -> NodeGroupIncreaseSizeResponse;
    "NodeGroupDeleteNodes": NodeGroupDeleteNodesRequest -> NodeGroupDeleteNodesResponse;
    "NodeGroupDecreaseTargetSize": NodeGroupDecreaseTargetSizeRequest -> NodeGroupDecreaseTargetSizeResponse;
    "GPULabel": GpuLabelRequest -> GpuLabelResponse;
    "GetAvailableGPUTypes": GetAvailableGpuTypesRequest -> GetAvailableGpuTypesResponse;
    "Cleanup": CleanupRequest -> CleanupResponse;
}

/// Which of the two generations of fields is read and sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Generation {
    /// Up to 1.34.1: types of Kubernetes.
    Legacy,
    /// From 1.35 on: types of Google's, and bytes.
    New,
}

impl Generation {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Legacy, Self::New];
}

/// A client.
pub struct Protocol {
    channel: Channel,
    generation: Generation,
    time_limit: Duration,
    groups: Option<Vec<rpc::NodeGroup>>,
    of_node: BTreeMap<String, rpc::NodeGroup>,
    templates: BTreeMap<String, Option<Node>>,
    gpu_label: Option<String>,
    gpu_types: Option<Vec<String>>,
}

impl Protocol {
    /// One for `https://<address>`, by which the server's certificate has to be known unless `name`
    /// is another one. Nothing is sent yet.
    ///
    /// # Errors
    /// When address or credentials are none.
    pub fn new(
        address: &str,
        name: &str,
        credentials: &Credentials,
        generation: Generation,
    ) -> Result<Self> {
        let channel = Channel::new(address, name, credentials);
        Ok(Self {
            channel: channel.context("not usable as credentials")?,
            generation,
            time_limit: TIME_LIMIT,
            groups: None,
            of_node: BTreeMap::new(),
            templates: BTreeMap::new(),
            gpu_label: None,
            gpu_types: None,
        })
    }

    /// The same with another limit for each call.
    #[must_use]
    pub fn within(mut self, time_limit: Duration) -> Self {
        self.time_limit = time_limit;
        self
    }

    /// Which fields it reads and sends.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.generation
    }

    async fn call<Q: Question>(&self, question: Q) -> Result<Q::Answer, Status> {
        let limit = self.time_limit;
        self.channel.unary(Q::PATH, &question, limit).await
    }

    /// Begins a loop: forgets groups, and asks the provider to look anew.
    ///
    /// # Errors
    /// Whatever the provider said; the loop ends then.
    pub async fn refresh(&mut self) -> Result<(), Status> {
        self.groups = None;
        self.of_node.clear();
        self.templates.clear();
        let call = self.call(rpc::RefreshRequest {});
        call.await.map(drop)
    }

    /// All groups.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn node_groups(&mut self) -> Result<Vec<rpc::NodeGroup>, Status> {
        if let Some(groups) = &self.groups {
            return Ok(groups.clone());
        }
        let call = self.call(rpc::NodeGroupsRequest {});
        let groups = call.await?.node_groups;
        self.groups = Some(groups.clone());
        Ok(groups)
    }

    /// The group of a node; none when it has none.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn node_group_for_node(
        &mut self,
        node: &rpc::ExternalGrpcNode,
    ) -> Result<Option<rpc::NodeGroup>, Status> {
        let key = match node.provider_id.is_empty() {
            true => &node.name,
            false => &node.provider_id,
        };
        if let Some(group) = self.of_node.get(key) {
            return Ok(Some(group.clone()));
        }
        let request = rpc::NodeGroupForNodeRequest {
            node: Some(node.clone()),
        };
        let call = self.call(request);
        let answer = call.await?;
        let group = answer.node_group.filter(|group| !group.id.is_empty());
        if let Some(group) = &group {
            self.of_node.insert(key.clone(), group.clone());
        }
        Ok(group)
    }

    /// How many machines a group is to have.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn target_size(&mut self, id: &str) -> Result<i32, Status> {
        let request = rpc::NodeGroupTargetSizeRequest { id: id.to_owned() };
        let call = self.call(request);
        Ok(call.await?.target_size)
    }

    /// Machines of a group.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn nodes(&self, id: &str) -> Result<Vec<rpc::Instance>, Status> {
        let request = rpc::NodeGroupNodesRequest { id: id.to_owned() };
        let call = self.call(request);
        Ok(call.await?.instances)
    }

    /// Machines of several groups, asked for all at once.
    pub async fn nodes_of(&self, ids: &[&str]) -> Vec<Result<Vec<rpc::Instance>, Status>> {
        join_all(ids.iter().map(|id| self.nodes(id))).await
    }

    /// The node that a group would get; none when the provider knows no such thing.
    ///
    /// # Errors
    /// Whatever else the provider said; [`Code::DataLoss`] where the stock client would crash,
    /// because there is no node in the answer.
    pub async fn template(&mut self, id: &str) -> Result<Option<Node>, Status> {
        if let Some(template) = self.templates.get(id) {
            return Ok(template.clone());
        }
        let request = rpc::NodeGroupTemplateNodeInfoRequest { id: id.to_owned() };
        let call = self.call(request);
        let template = match call.await {
            Err(status) if status.code() == Code::Unimplemented => None,
            Err(status) => return Err(status),
            Ok(answer) => Some(self.decode(&answer)?),
        };
        self.templates.insert(id.to_owned(), template.clone());
        Ok(template)
    }

    fn decode(&self, answer: &rpc::NodeGroupTemplateNodeInfoResponse) -> Result<Node, Status> {
        let bytes = match self.generation {
            Generation::Legacy => &answer.legacy_node_info,
            Generation::New => &answer.node_bytes,
        };
        if bytes.is_empty() {
            return Err(Status::data_loss("an answer without a node"));
        }
        let node = Node::decode(bytes.as_slice());
        node.map_err(|error| Status::data_loss(format!("not a Node: {error}")))
    }

    /// By which rules nodes of a group are taken away; none: the defaults hold.
    ///
    /// # Errors
    /// Whatever the provider said, but that it knows no such thing.
    pub async fn options(
        &mut self,
        id: &str,
        defaults: &Options,
    ) -> Result<Option<Options>, Status> {
        let request = rpc::NodeGroupGetOptionsRequest {
            id: id.to_owned(),
            defaults: Some(defaults.sent(self.generation)),
        };
        let call = self.call(request);
        let answer = match call.await {
            Err(status) if status.code() == Code::Unimplemented => return Ok(None),
            answer => answer?.node_group_autoscaling_options,
        };
        Ok(answer.map(|answer| Options::read(&answer, self.generation)))
    }

    /// So many machines more.
    ///
    /// # Errors
    /// Whatever the provider said; the stock client leaves the group alone for a while then.
    pub async fn increase(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let id = id.to_owned();
        let request = rpc::NodeGroupIncreaseSizeRequest { delta, id };
        let call = self.call(request);
        call.await.map(drop)
    }

    /// These machines, and the size with them.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn delete(
        &mut self,
        id: &str,
        nodes: Vec<rpc::ExternalGrpcNode>,
    ) -> Result<(), Status> {
        let id = id.to_owned();
        let request = rpc::NodeGroupDeleteNodesRequest { nodes, id };
        let call = self.call(request);
        call.await.map(drop)
    }

    /// So many machines less of those that do not exist yet; `delta` is below 0.
    ///
    /// # Errors
    /// Whatever the provider said; the loop ends then.
    pub async fn decrease(&mut self, id: &str, delta: i32) -> Result<(), Status> {
        let id = id.to_owned();
        let request = rpc::NodeGroupDecreaseTargetSizeRequest { delta, id };
        let call = self.call(request);
        call.await.map(drop)
    }

    /// The label of nodes with GPUs.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn gpu_label(&mut self) -> Result<String, Status> {
        if let Some(label) = &self.gpu_label {
            return Ok(label.clone());
        }
        let call = self.call(rpc::GpuLabelRequest {});
        let label = call.await?.label;
        self.gpu_label = Some(label.clone());
        Ok(label)
    }

    /// Kinds of GPUs.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn gpu_types(&mut self) -> Result<Vec<String>, Status> {
        if let Some(types) = &self.gpu_types {
            return Ok(types.clone());
        }
        let request = rpc::GetAvailableGpuTypesRequest {};
        let call = self.call(request);
        let answer = call.await?;
        let types: Vec<_> = answer.gpu_types.into_keys().collect();
        self.gpu_types = Some(types.clone());
        Ok(types)
    }

    /// Says that the client ends.
    ///
    /// # Errors
    /// Whatever the provider said.
    pub async fn cleanup(&mut self) -> Result<(), Status> {
        let call = self.call(rpc::CleanupRequest {});
        call.await.map(drop)
    }
}

/// A node that never came: its instance's id stands for all of it, and `reason` for why it goes.
#[must_use]
pub fn fake(id: &str, reason: FakeReason) -> rpc::ExternalGrpcNode {
    let annotation = (
        "k8s.io/cluster-autoscaler/fake-node-reason",
        reason.as_str(),
    );
    rpc::ExternalGrpcNode {
        provider_id: id.to_owned(),
        name: id.to_owned(),
        annotations: [(annotation.0.to_owned(), annotation.1.to_owned())].into(),
        ..rpc::ExternalGrpcNode::default()
    }
}

/// Why a machine goes that is no node.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum FakeReason {
    /// It has not become one in time.
    Unregistered,
    /// It could not be made.
    CreateError,
}

impl FakeReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unregistered => "unregistered",
            Self::CreateError => "create-error",
        }
    }
}
