//! Calls ControllerPublishVolume and ControllerUnpublishVolume: they write what is to be on the claim,
//! and wait until it is so. The rest is [`crate::controllers::attach::reconcile`]'s.
//!
//! Invariant: attached is what an instance shows as ready, and detached is what no instance and no
//! virtual machine has any more.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::csi::{
    ControllerPublishVolumeRequest, ControllerPublishVolumeResponse,
    ControllerUnpublishVolumeRequest, ControllerUnpublishVolumeResponse,
};

use super::volumes::missing;
use crate::cache::objects::Volume;
use crate::cache::state::State;
use crate::context::Context;
use crate::controllers::attach::holders;
use crate::mapping::uses;
use crate::names;
use crate::status::Status;

pub(super) async fn controller_publish_volume(
    ctx: &Context,
    request: &ControllerPublishVolumeRequest,
    patience: Duration,
) -> Result<ControllerPublishVolumeResponse, Status> {
    let ControllerPublishVolumeRequest {
        volume_id: id,
        node_id: node,
        ..
    } = request;
    if id.is_empty() || node.is_empty() {
        return Err(Status::invalid_argument(
            "say which volume and which node: volume_id, node_id",
        ));
    }
    let Some(capability) = &request.volume_capability else {
        return Err(Status::invalid_argument(
            "say how the volume is to be used: volume_capability",
        ));
    };
    let _held = ctx.in_flight.take(id)?;
    let volume = ctx.client.volume(id).await?;
    let volume = volume.ok_or_else(|| missing(id))?;
    let machine = ctx.client.machine(node).await?.ok_or_else(|| {
        Status::not_found(format!(
            "there is no machine {node}; nodes of this driver are machines of the tenant cluster"
        ))
    })?;
    let uses = std::slice::from_ref(capability);
    uses::usable(&volume, uses, &ctx.settings.offer)?;
    let holders = ctx.cache.read(|state| {
        let attached = |volume: &&Volume| volume.holders.wanted.contains(node);
        let others = state.volumes.values().filter(|other| other.id != *id);
        let most = ctx.settings.most_volumes.min(machine.capacity());
        if others.filter(attached).count() >= most {
            return Err(Status::resource_exhausted(format!(
                "machine {node} has {most} volumes already, which is the most; move pods to other \
                 nodes"
            )));
        }
        holders::publish(&volume, node, request.readonly, state.elsewhere(id, node))
    })?;
    ctx.client.set_holders(&volume, &holders).await?;
    let attached = |state: &State| match state.volumes.get(id) {
        Some(now) if now.version.uid == volume.version.uid => {
            if !now.holders.wanted.contains(node) {
                return Some(Err(Status::aborted(format!(
                    "volume {id} was detached from machine {node} meanwhile; try again"
                ))));
            }
            state.is_attached(id, node).then_some(Ok(()))
        }
        _ => Some(Err(missing(id))),
    };
    match ctx.cache.wait(patience, attached).await {
        Some(result) => result?,
        None => {
            let complaint = ctx.complaints.of(node, id);
            let why = ctx.cache.read(|state| why_not(state, id, node, complaint));
            let progress = |state: &State| state.instances.get(node)?.volumes.get(id).cloned();
            if let Some(progress) = ctx.cache.read(progress) {
                tracing::info!(
                    volume.id = %id, machine.name = %node, says = %progress.message,
                    "KubeVirt calls volume {id} {}",
                    progress.phase
                );
            }
            return Err(Status::deadline_exceeded(format!(
                "volume {id} is not attached to machine {node} yet: {why}; it goes on"
            )));
        }
    }
    let serial = names::serial(&volume.version.uid);
    Ok(ControllerPublishVolumeResponse {
        publish_context: BTreeMap::from([(names::SERIAL.to_owned(), serial)]),
    })
}

/// How far it is, given what the last write to the machine said of the volume.
fn why_not(state: &State, id: &str, node: &str, complaint: Option<String>) -> String {
    let Some(machine) = state.machines.get(node) else {
        return "the machine is gone".to_owned();
    };
    if machine.deleting {
        return "the machine is being deleted".to_owned();
    }
    let Some(instance) = state.instances.get(node).filter(|i| i.running) else {
        return complaint.unwrap_or_else(|| "the machine does not run; start it".to_owned());
    };
    match instance.volumes.get(id) {
        // Its message names pods and nodes of the management cluster.
        Some(progress) => format!("KubeVirt calls it {}", progress.phase),
        None if machine.has(id) => "KubeVirt has not begun".to_owned(),
        None => complaint.unwrap_or_else(|| "the machine is busy with other volumes".to_owned()),
    }
}

pub(super) async fn controller_unpublish_volume(
    ctx: &Context,
    request: &ControllerUnpublishVolumeRequest,
    patience: Duration,
) -> Result<ControllerUnpublishVolumeResponse, Status> {
    let ControllerUnpublishVolumeRequest {
        volume_id: id,
        node_id: node,
        ..
    } = request;
    if id.is_empty() {
        return Err(Status::invalid_argument("say which volume: volume_id"));
    }
    let _held = ctx.in_flight.take(id)?;
    let node = Some(node.as_str()).filter(|node| !node.is_empty());
    let Some(volume) = ctx.urgent.volume(id).await? else {
        // No claim: nothing can be attached that anybody could still want to detach.
        return Ok(ControllerUnpublishVolumeResponse {});
    };
    ctx.urgent
        .set_holders(&volume, &holders::unpublish(&volume, node))
        .await?;
    let detached = |state: &State| {
        let Some(now) = state.volumes.get(id) else {
            return Some(());
        };
        let free = match node {
            Some(node) => !now.holders.held.contains(node) && !state.has(id, node),
            None => now.holders.held.is_empty() && state.elsewhere(id, "").is_none(),
        };
        free.then_some(())
    };
    if ctx.cache.wait(patience, detached).await.is_none() {
        let holder = node.unwrap_or("some machine");
        return Err(Status::deadline_exceeded(format!(
            "volume {id} is not free of {holder} yet, which may still write to it; it goes on"
        )));
    }
    Ok(ControllerUnpublishVolumeResponse {})
}
