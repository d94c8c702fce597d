//! The calls of one loop, in the order of the stock client: Refresh, NodeGroups, TargetSize and Nodes
//! of each group, NodeGroupForNode of each node, TemplateNodeInfo of groups without a good node,
//! GetOptions of each node and group.
//!
//! They go out one after another, but for Nodes: `GetCloudProviderNodeInstances`
//! (`cluster-autoscaler/clusterstate/utils/node_instances_cache.go`) asks for all groups that it does
//! not know at once, and a routine beside the loops asks for all of them again every two minutes. Here
//! they are asked for in each loop. GetOptions goes out once for each value that is wanted of it and
//! is not remembered (`processors/nodegroupconfig/node_group_config_processor.go`), so at least twice
//! for each node that may go (`core/scaledown/eligibility/eligibility.go`, for DaemonSets and for the
//! threshold) and a third time when it is unneeded (`core/scaledown/unneeded/nodes.go`). Here it is
//! once.
//!
//! Invariant: an error has the consequence that it has there ([`Aborted`]); nothing is tried again.

use std::collections::BTreeMap;

use proto::autoscaler::{ExternalGrpcNode, Instance};
use tonic::{Code, Status};

use crate::cluster::Node;
use crate::protocol::{Options, Protocol};

/// One group as a loop sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its id.
    pub id: String,
    /// Fewest machines.
    pub min: i32,
    /// Most machines.
    pub max: i32,
    /// How many it is to have.
    pub target: i32,
    /// Its machines.
    pub instances: Vec<Instance>,
    /// The node that it would get; asked for only when it has no good one.
    pub template: Option<Node>,
    /// By which rules its nodes are taken away.
    pub options: Options,
}

/// What a loop saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loop {
    /// In the provider's order.
    pub groups: Vec<Group>,
    /// Id of the group of each node that has one, by name.
    pub group_of: BTreeMap<String, String>,
}

/// Why a loop ended before anything was decided.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Aborted {
    /// Harmless: the next one begins in ten seconds.
    #[error("Refresh failed: {0}")]
    Refresh(Status),
    /// No group at all is scaled, whichever it was (autoscaler#7928).
    #[error("the target size of {group} is not known: {status}")]
    TargetSize {
        /// Whose.
        group: String,
        /// As the provider said.
        status: Status,
    },
    /// As before, when it is the first time.
    #[error("the machines of {group} are not known: {status}")]
    Nodes {
        /// Whose.
        group: String,
        /// As the provider said.
        status: Status,
    },
    /// The stock client would have died.
    #[error("the answer about the template of {group} makes the stock client crash: {status}")]
    Crash {
        /// Whose.
        group: String,
        /// What was wrong with it.
        status: Status,
    },
}

/// Makes the calls.
///
/// # Errors
/// [`Aborted`], when an error of the provider ends a loop.
pub async fn observe(
    protocol: &mut Protocol,
    nodes: &[Node],
    defaults: &Options,
) -> Result<Loop, Aborted> {
    protocol.refresh().await.map_err(Aborted::Refresh)?;
    // The stock client takes an error for no groups.
    let told = protocol.node_groups().await.unwrap_or_default();
    let mut groups = Vec::with_capacity(told.len());
    for group in told {
        let id = group.id;
        let target = protocol.target_size(&id).await;
        let target = target.map_err(|status| Aborted::TargetSize {
            group: id.clone(),
            status,
        })?;
        groups.push(Group {
            min: group.min_size,
            max: group.max_size,
            target,
            instances: Vec::new(),
            template: None,
            options: defaults.clone(),
            id,
        });
    }
    let ids: Vec<_> = groups.iter().map(|group| group.id.as_str()).collect();
    let told = protocol.nodes_of(&ids).await;
    for (group, instances) in groups.iter_mut().zip(told) {
        group.instances = instances.map_err(|status| Aborted::Nodes {
            group: group.id.clone(),
            status,
        })?;
    }
    let mut group_of = BTreeMap::new();
    for node in nodes {
        // An error is logged there, and the node left out.
        if let Ok(Some(group)) = protocol.node_group_for_node(&external(node)).await {
            group_of.insert(node.name.clone(), group.id);
        }
    }
    for group in &mut groups {
        let own = |node: &&Node| group_of.get(&node.name) == Some(&group.id);
        if !nodes.iter().filter(own).any(Node::is_good) {
            group.template = match protocol.template(&group.id).await {
                Ok(node) => node.as_ref().map(Node::from_template),
                Err(status) if status.code() == Code::DataLoss => {
                    let group = group.id.clone();
                    return Err(Aborted::Crash { group, status });
                }
                Err(_) => None,
            };
        }
    }
    for id in group_of.values() {
        let _ = protocol.options(id, defaults).await;
    }
    for group in &mut groups {
        if let Ok(Some(options)) = protocol.options(&group.id, defaults).await {
            group.options = options;
        }
    }
    Ok(Loop { groups, group_of })
}

/// A node as the stock client sends it.
#[must_use]
pub fn external(node: &Node) -> ExternalGrpcNode {
    ExternalGrpcNode {
        provider_id: node.provider_id.clone(),
        name: node.name.clone(),
        labels: node.labels.clone().into_iter().collect(),
        annotations: node.annotations.clone().into_iter().collect(),
    }
}
