//! Calls CreateSnapshot, DeleteSnapshot, GetSnapshot and ListSnapshots.
//!
//! Invariant: what is answered has been cut: the time and the size are the management cluster's.

use std::time::Duration;

use proto::csi::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
    list_snapshots_response,
};

use serde_json::Value;

use super::volumes;
use crate::cache::objects::Snapshot;
use crate::cache::state::State;
use crate::context::Context;
use crate::mapping::page::page;
use crate::mapping::snapshot;
use crate::names;
use crate::places;
use crate::refusal;
use crate::status::Status;

/// Where no class has snapshots, the calls are not there.
fn offered(ctx: &Context) -> Result<(), Status> {
    match ctx.settings.offer.has_snapshots() {
        true => Ok(()),
        false => Err(Status::unimplemented(
            "no class of storage has snapshots; ask who runs the management cluster for one",
        )),
    }
}

pub(super) async fn create_snapshot(
    ctx: &Context,
    request: &CreateSnapshotRequest,
    patience: Duration,
) -> Result<CreateSnapshotResponse, Status> {
    offered(ctx)?;
    snapshot::check(request)?;
    let id = names::snapshot(&request.name);
    let _held = ctx.in_flight.take(&id)?;
    let there = ctx.cache.read(|state| state.snapshots.get(&id).cloned());
    let made = match there {
        Some(made) => made,
        None => {
            let source = &request.source_volume_id;
            let volume = ctx.client.volume(source).await?;
            let volume = volume.ok_or_else(|| volumes::missing(source))?;
            let wanted = snapshot::create(request, &ctx.settings, &volume)?;
            make(ctx, &id, wanted.object).await?
        }
    };
    snapshot::same(&made, &request.name, &request.source_volume_id)?;
    let cut = |state: &State| match state.snapshots.get(&id) {
        Some(now) if now.version.uid == made.version.uid => snapshot::answer(now).map(Some),
        _ => Some(None),
    };
    match ctx.cache.wait(patience, cut).await {
        Some(Some(answer)) => Ok(CreateSnapshotResponse {
            snapshot: Some(answer),
        }),
        Some(None) => Err(Status::aborted(format!(
            "snapshot {id} was deleted meanwhile; try again"
        ))),
        None => {
            let complaint = |state: &State| state.snapshots.get(&id)?.complaint.clone();
            let why = ctx.cache.read(complaint);
            if let Some(complaint) = &why {
                tracing::warn!(
                    snapshot.id = %id, complaint = %complaint,
                    "storage complains about snapshot {id}"
                );
            }
            let why = refusal::of_storage(why.as_deref());
            Err(Status::deadline_exceeded(format!(
                "snapshot {id} is not cut yet: {why}"
            )))
        }
    }
}

/// Makes a snapshot, unless it is there. What is there already needs no place.
async fn make(ctx: &Context, id: &str, object: Value) -> Result<Snapshot, Status> {
    let most = ctx.settings.max_snapshots();
    let count = |state: &State, making: &_| places::count(&state.snapshots, making);
    let Some(mut place) = ctx.snapshots.take(id, most, &ctx.cache, count) else {
        let there = match ctx.snapshots.is_doubted(id) {
            true => ctx.client.snapshot(id).await?,
            false => None,
        };
        return there.ok_or_else(|| places::none_left("snapshots", most));
    };
    let made = ctx.client.create_snapshot(id, object).await;
    place.judge(&made);
    made?.ok_or_else(|| {
        Status::already_exists(format!(
            "the management cluster has a snapshot {id} that is not this driver's; use another name"
        ))
    })
}

pub(super) async fn delete_snapshot(
    ctx: &Context,
    request: &DeleteSnapshotRequest,
    patience: Duration,
) -> Result<DeleteSnapshotResponse, Status> {
    offered(ctx)?;
    let id = &request.snapshot_id;
    if id.is_empty() {
        return Err(Status::invalid_argument("say which snapshot: snapshot_id"));
    }
    let _held = ctx.in_flight.take(id)?;
    let Some(snapshot) = ctx.client.snapshot(id).await? else {
        return Ok(DeleteSnapshotResponse {});
    };
    if !snapshot.deleting {
        ctx.client.delete_snapshot(&snapshot).await?;
    }
    let gone = |state: &State| {
        let now = state.snapshots.get(id);
        now.is_none_or(|now| now.version.uid != snapshot.version.uid)
            .then_some(())
    };
    if ctx.cache.wait(patience, gone).await.is_none() {
        return Err(Status::deadline_exceeded(format!(
            "snapshot {id} is not gone yet; the management cluster still uses it"
        )));
    }
    Ok(DeleteSnapshotResponse {})
}

pub(super) async fn get_snapshot(
    ctx: &Context,
    request: &GetSnapshotRequest,
    _: Duration,
) -> Result<GetSnapshotResponse, Status> {
    offered(ctx)?;
    let id = &request.snapshot_id;
    if id.is_empty() {
        return Err(Status::invalid_argument("say which snapshot: snapshot_id"));
    }
    let found = ctx.client.snapshot(id).await?;
    let found = found.filter(|snapshot| !snapshot.deleting);
    // One that is not cut yet has neither time nor size.
    let snapshot = found.as_ref().and_then(snapshot::answer);
    let snapshot =
        snapshot.ok_or_else(|| Status::not_found(format!("there is no snapshot {id}")))?;
    Ok(GetSnapshotResponse {
        snapshot: Some(snapshot),
    })
}

pub(super) async fn list_snapshots(
    ctx: &Context,
    request: &ListSnapshotsRequest,
    _: Duration,
) -> Result<ListSnapshotsResponse, Status> {
    offered(ctx)?;
    let ListSnapshotsRequest {
        snapshot_id,
        source_volume_id,
        ..
    } = request;
    ctx.cache.read(|state| {
        let is_meant = |snapshot: &&Snapshot| {
            (snapshot_id.is_empty() || snapshot.id == *snapshot_id)
                && (source_volume_id.is_empty() || snapshot.volume == *source_volume_id)
                && !snapshot.deleting
                && snapshot.created.is_some()
        };
        let meant: Vec<_> = state.snapshots.values().filter(is_meant).cloned().collect();
        let page = page(&meant, request.max_entries, &request.starting_token)?;
        let entry = |found: &Snapshot| list_snapshots_response::Entry {
            snapshot: snapshot::answer(found),
        };
        Ok(ListSnapshotsResponse {
            entries: page.items.iter().map(entry).collect(),
            next_token: page.next,
        })
    })
}
