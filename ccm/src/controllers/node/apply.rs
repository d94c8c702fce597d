//! Carries one step of a node out.
//!
//! Invariant: each write states the resource version or the UID that it was decided on.

use api::Reason;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::events::Notice;
use serde_json::json;

use super::observe::{check_heartbeat, make_sure};
use super::plan::{Action, Observed};
use crate::cache::events::Write;
use crate::cache::objects::Node;
use crate::context::Context;
use crate::error::Error;

/// Does it, and brings `observed` up to what the APIs answered. True when the Node is gone.
///
/// # Errors
/// [`Error`].
pub async fn apply(ctx: &Context, action: &Action, observed: &mut Observed) -> Result<bool, Error> {
    let name = observed.node.name.clone();
    let patched = match action {
        Action::MakeSure => {
            make_sure(ctx, observed).await?;
            return Ok(false);
        }
        Action::CheckHeartbeat => {
            check_heartbeat(ctx, observed).await?;
            return Ok(false);
        }
        Action::NotReady { resource_version } => {
            let patch = json!({
                "metadata": { "resourceVersion": resource_version },
                "status": { "conditions": [{
                    "type": "Ready",
                    "status": "Unknown",
                    "reason": Reason::MachineIsOff,
                    "message": "The machine is off for certain, and its kubelet is silent.",
                    "lastTransitionTime": Time(jiff::Timestamp::now()),
                }] },
            });
            ctx.client.set_readiness(&name, &patch).await?
        }
        Action::PatchStatus(patch) => ctx.client.set_addresses(&name, patch).await?,
        Action::Patch(patch) => ctx.client.patch_node(&name, patch).await?,
        Action::Delete { uid } => {
            let version = &observed.node.resource_version;
            ctx.client.delete_node(&name, uid, version).await?;
            tracing::info!(node.name = name, "deleted Node {name}: its machine is gone");
            return Ok(true);
        }
    };
    observed.node = Node::from(&patched);
    ctx.observe_write(Write::Node(Box::new(observed.node.clone())));
    Ok(false)
}

/// Publishes Events about a node.
pub async fn publish(ctx: &Context, node: &Node, notices: &[Notice]) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name.clone()),
        uid: Some(node.uid.clone()),
        ..ObjectReference::default()
    };
    for notice in notices {
        ctx.events.publish(&about, notice).await;
    }
}
