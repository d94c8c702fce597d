//! Carries one step of a node out.
//!
//! Invariant: each write states the resource version or the UID that it was decided on, and is
//! fenced by the Lease; an answer other than "not found" never counts as one.

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node as ApiNode, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kit::apply::{Deletion, kinds};
use kit::events::Notice;
use kube::Api;
use kube::api::{Patch, PatchParams, PropagationPolicy};
use serde_json::json;
use tokio::time::Instant;

use super::plan::{Action, Observed, Pulse, Sight};
use crate::error::Error;
use crate::model::{Instance, Node, Vm};
use crate::names;
use crate::queue::Key;
use crate::run::Context;

/// Does it, and brings `observed` up to what the APIs answered. True when the Node is gone.
///
/// # Errors
/// [`Error`].
pub async fn apply(ctx: &Context, action: &Action, observed: &mut Observed) -> Result<bool, Error> {
    let name = observed.node.name.clone();
    let nodes = Api::<ApiNode>::all(ctx.tenant.clone());
    let params = PatchParams::default();
    match action {
        Action::MakeSure => {
            make_sure(ctx, observed).await?;
            return Ok(false);
        }
        Action::Listen => {
            listen(ctx, observed).await?;
            return Ok(false);
        }
        Action::NotReady { resource_version } => {
            ctx.leadership.ensure()?;
            let patch = json!({
                "metadata": { "resourceVersion": resource_version },
                "status": { "conditions": [{
                    "type": "Ready",
                    "status": "Unknown",
                    "reason": "MachineIsOff",
                    "message": "The machine is off for certain, and its kubelet is silent.",
                    "lastTransitionTime": Time(jiff::Timestamp::now()),
                }] },
            });
            // Strategic: the other conditions stay.
            let patch = Patch::Strategic(patch);
            let patched = nodes.patch_status(&name, &params, &patch).await;
            let patched =
                patched.map_err(|e| Error::request("set the readiness of", "Node", &name, e))?;
            observed.node = Node::from(&patched);
        }
        Action::PatchStatus(patch) => {
            ctx.leadership.ensure()?;
            let patched = nodes
                .patch_status(&name, &params, &Patch::Merge(patch))
                .await;
            let patched =
                patched.map_err(|e| Error::request("set the addresses of", "Node", &name, e))?;
            observed.node = Node::from(&patched);
        }
        Action::Patch(patch) => {
            ctx.leadership.ensure()?;
            let patched = nodes.patch(&name, &params, &Patch::Merge(patch)).await;
            let patched = patched.map_err(|e| Error::request("change", "Node", &name, e))?;
            observed.node = Node::from(&patched);
        }
        Action::Delete { uid } => {
            ctx.leadership.ensure()?;
            let deletion = Deletion {
                kind: kinds::NODE,
                namespace: None,
                name: &name,
                uid,
                resource_version: Some(&observed.node.resource_version),
                propagation: PropagationPolicy::Background,
            };
            let deleted = kit::apply::delete(&ctx.tenant, &deletion).await;
            deleted.map_err(|source| Error::Write {
                doing: "delete the Node",
                source,
            })?;
            tracing::info!(node.name = name, "deleted Node {name}: its machine is gone");
            return Ok(true);
        }
    }
    ctx.world.learn_node(&observed.node);
    Ok(false)
}

/// Asks the management API for what the watch does not know.
async fn make_sure(ctx: &Context, observed: &mut Observed) -> Result<(), Error> {
    let Some(machine) = observed.node.machine().map(ToOwned::to_owned) else {
        return Ok(());
    };
    let namespace = &ctx.settings.namespace;
    if observed.vm.get().is_none() {
        let vms = Api::<VirtualMachine>::namespaced(ctx.management.clone(), namespace);
        let found = vms.get_opt(&machine).await;
        let found = found.map_err(|e| Error::request("look for", "VirtualMachine", &machine, e))?;
        observed.vm = found.map_or(Sight::Missing { certain: true }, |vm| {
            Sight::There(Vm::from(&vm))
        });
    }
    if observed.instance.get().is_none() {
        let kind = "VirtualMachineInstance";
        let instances =
            Api::<VirtualMachineInstance>::namespaced(ctx.management.clone(), namespace);
        let found = instances.get_opt(&machine).await;
        let found = found.map_err(|e| Error::request("look for", kind, &machine, e))?;
        observed.instance = found.map_or(Sight::Missing { certain: true }, |instance| {
            Sight::There(Instance::from(&instance))
        });
    }
    Ok(())
}

/// Reads the kubelet's Lease. One that is not there tells nothing: then it is waited for the node not
/// to be Ready.
async fn listen(ctx: &Context, observed: &mut Observed) -> Result<(), Error> {
    let (name, uid) = (&observed.node.name, &observed.node.uid);
    let leases = Api::<Lease>::namespaced(ctx.tenant.clone(), names::NAMESPACE_LEASES);
    let found = leases.get_opt(name).await;
    let found = found.map_err(|e| Error::request("look for", "Lease", name, e))?;
    observed.pulse = Pulse::Felt;
    if let Some(version) = found.and_then(|lease| lease.metadata.resource_version) {
        match ctx.pulses.listen(uid, &version, Instant::now()) {
            Some(wait) => ctx.queue.add_after(Key::Node(name.clone()), wait),
            None => observed.pulse = Pulse::Silent,
        }
    }
    Ok(())
}

/// Publishes Events about a node.
pub async fn tell(ctx: &Context, node: &Node, notices: &[Notice]) {
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
