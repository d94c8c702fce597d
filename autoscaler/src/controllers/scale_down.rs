//! Controller of scale-down: keeps the Cluster Autoscaler from taking nodes away from a pool that replaces its machines: it
//! would take new ones, which are empty still, and the rollout would make them again.
//!
//! Invariant: only an annotation that we put there is taken off; while the operator has not said
//! whether a pool rolls, its nodes stay as they are.

use std::sync::Arc;
use std::time::Duration;

use api::names::{ANNOTATION_SCALE_DOWN_DISABLED, ANNOTATION_SCALE_DOWN_DISABLED_BY};
use k8s_openapi::api::core::v1::Node as ApiNode;
use kit_client::errors::{Class, Classify};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use serde_json::json;

use crate::cache::objects::Node;
use crate::cache::state::{Kind, State, WatchEvent};
use crate::context::Context;
use crate::names::{FIELD_MANAGER, SCALE_DOWN_DISABLED_BY_US};
use crate::node_group;

/// What is written to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Annotation {
    /// Name of the node.
    pub node: String,
    /// This very one.
    pub uid: String,
    /// The annotation is put there, else taken off.
    pub on: bool,
}

/// What has to be written.
#[must_use]
pub fn due(state: &State) -> Vec<Annotation> {
    let annotation = |node: &Node| {
        let on = match rolls(state, node) {
            // Somebody else's stays somebody else's.
            Some(true) if !node.disabled => true,
            Some(false) if node.by_us => false,
            _ => return None,
        };
        Some(Annotation {
            node: node.name.clone(),
            uid: node.version.uid.clone(),
            on,
        })
    };
    state.nodes.values().filter_map(annotation).collect()
}

/// Whether the node's pool rolls; none when that is not known.
fn rolls(state: &State, node: &Node) -> Option<bool> {
    let machine = state.machines.get(&node.name);
    let pool = machine.and_then(|machine| state.pools.get(&machine.pool));
    match pool.and_then(node_group::group) {
        Some(group) => group.pool.rolling,
        None => Some(false),
    }
}

/// Keeps the annotations of nodes right. Ends never.
pub async fn run(ctx: Arc<Context>) {
    let nodes: Api<PartialObjectMeta<ApiNode>> = Api::all(ctx.tenant.clone());
    ctx.cache.listed_once(Kind::Node).await;
    let annotate = |annotation| {
        let (ctx, nodes) = (&ctx, &nodes);
        async move { write(ctx, nodes, &annotation).await }
    };
    ctx.cache.control_loop(due, annotate).await;
}

/// Whether it is as it should be.
async fn write(
    ctx: &Context,
    nodes: &Api<PartialObjectMeta<ApiNode>>,
    annotation: &Annotation,
) -> bool {
    let Annotation { node, uid, on } = annotation;
    let patch = json!({ "metadata": { "uid": uid, "annotations": {
        ANNOTATION_SCALE_DOWN_DISABLED: on.then_some("true"),
        ANNOTATION_SCALE_DOWN_DISABLED_BY: on.then_some(SCALE_DOWN_DISABLED_BY_US),
    } } });
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let run = ctx.metrics.scale_down.begin(Duration::ZERO);
    let written = nodes.patch(node, &params, &Patch::Merge(patch)).await;
    let failed = written.as_ref().err().filter(|error| !is_gone(error));
    run.finish(failed.map(Classify::class));
    match written {
        Ok(written) => {
            ctx.cache.apply(&WatchEvent::Node(Box::new(written)));
            true
        }
        // Gone, or another one of its name: the watch tells.
        Err(error) if is_gone(&error) => true,
        Err(error) => {
            let error = kit_client::errors::chain(&error);
            tracing::warn!(node.name = node, error, "could not annotate node {node}");
            false
        }
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
        || error.class() == Class::Conflict
}

#[cfg(test)]
mod tests;
