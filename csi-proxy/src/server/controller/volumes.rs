//! Calls CreateVolume, DeleteVolume, ControllerExpandVolume, and those that only ask.
//!
//! Invariant: a size that is answered is one that the management cluster confirmed, as far as its
//! storage says one before the first use.

use std::time::Duration;

use proto::csi::volume_capability::AccessType;
use proto::csi::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, ControllerGetVolumeRequest,
    ControllerGetVolumeResponse, ControllerModifyVolumeRequest, ControllerModifyVolumeResponse,
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse,
    GetCapacityRequest, GetCapacityResponse, ListVolumesRequest, ListVolumesResponse,
    ValidateVolumeCapabilitiesRequest, ValidateVolumeCapabilitiesResponse,
    controller_get_volume_response, list_volumes_response, validate_volume_capabilities_response,
};

use crate::cache::objects::{Origin, Volume};
use crate::cache::state::State;
use crate::client::Made;
use crate::context::Context;
use crate::mapping::attributes::{self, Progress};
use crate::mapping::page::page;
use crate::mapping::{self, Copied, Expansion, Wanted, capacity, topology, uses};
use crate::places;
use crate::refusal;
use crate::status::Status;

/// There is no such volume.
pub(super) fn missing(id: &str) -> Status {
    Status::not_found(format!("there is no volume {id}"))
}

fn named(id: &str) -> Result<(), Status> {
    match id.is_empty() {
        true => Err(Status::invalid_argument("say which volume: volume_id")),
        false => Ok(()),
    }
}

pub(super) async fn create_volume(
    ctx: &Context,
    request: &CreateVolumeRequest,
    patience: Duration,
) -> Result<CreateVolumeResponse, Status> {
    let source = match mapping::source(request)? {
        Some(origin) => Some(copied(ctx, origin).await?),
        None => None,
    };
    let wanted = mapping::create(request, &ctx.settings, source.as_ref())?;
    let id = &wanted.id;
    let _held = ctx.in_flight.take(id)?;
    let there = ctx.cache.read(|state| state.volumes.get(id).cloned());
    let (volume, made) = match there {
        Some(volume) => (volume, false),
        None => make(ctx, &wanted).await?,
    };
    if let Err(status) = mapping::same(&volume, &wanted) {
        // Nobody would ask for what was made just now, and is not what is wanted.
        if made && volume.holders.held.is_empty() {
            ctx.client.delete(&volume).await?;
        }
        return Err(status);
    }
    if wanted.class.waits_for_consumer && !volume.bound {
        return Ok(created(ctx, &volume));
    }
    let bound = |state: &State| match state.volumes.get(id) {
        Some(now) if now.version.uid == volume.version.uid => {
            (now.bound && now.capacity > 0).then(|| Some(now.clone()))
        }
        _ => Some(None),
    };
    let volume = match ctx.cache.wait(patience, bound).await {
        Some(Some(volume)) => volume,
        Some(None) => {
            return Err(Status::aborted(format!(
                "volume {id} was deleted meanwhile; try again"
            )));
        }
        None => {
            let why = complaint(ctx, &volume).await?;
            return Err(Status::deadline_exceeded(format!(
                "volume {id} has no storage yet: {why}"
            )));
        }
    };
    if !wanted.range.has(volume.size()) {
        // One that was there before may have been used.
        if made && volume.holders.held.is_empty() {
            ctx.client.delete(&volume).await?;
        }
        return Err(Status::out_of_range(format!(
            "storage of class {} makes a volume of {} bytes of this, which is more than the limit; \
             raise the limit, or use another class",
            wanted.class.name,
            volume.size()
        )));
    }
    Ok(created(ctx, &volume))
}

/// Makes a claim, unless it is there; true when it was made now. What is there already needs no place.
async fn make(ctx: &Context, wanted: &Wanted) -> Result<(Volume, bool), Status> {
    let (id, most) = (&wanted.id, ctx.settings.max_volumes());
    let count = |state: &State, making: &_| places::count(&state.volumes, making);
    let Some(mut place) = ctx.volumes.take(id, most, &ctx.cache, count) else {
        let there = match ctx.volumes.is_doubted(id) {
            true => ctx.client.volume(id).await?,
            false => None,
        };
        let there = there.ok_or_else(|| places::none_left("volumes", most))?;
        return Ok((there, false));
    };
    let made = ctx.client.create(&wanted.claim).await;
    place.judge(&made);
    match made? {
        Made::Volume(volume) => Ok((*volume, true)),
        Made::Found(volume) => Ok((*volume, false)),
        Made::Foreign => Err(Status::already_exists(format!(
            "the management cluster has a claim {id} that is not this driver's; use another name"
        ))),
    }
}

/// Why a claim is not as it is to be, in the tenant's words.
async fn complaint(ctx: &Context, volume: &Volume) -> Result<&'static str, Status> {
    let complaint = ctx.client.complaint(volume).await?;
    if let Some(complaint) = &complaint {
        tracing::warn!(volume.id = %volume.id, complaint = %complaint, "storage complains about volume {}", volume.id);
    }
    Ok(refusal::of_storage(complaint.as_deref()))
}

/// What quotas leave, and no more than one volume of the class may have; nothing where the class is
/// not. Of a StorageClass that no volume can be made of, without a limit: a pod is held up for
/// missing capacity with a sentence about room alone, and CreateVolume says what is wrong.
pub(super) async fn get_capacity(
    ctx: &Context,
    request: &GetCapacityRequest,
    _: Duration,
) -> Result<GetCapacityResponse, Status> {
    let class = mapping::class(&request.parameters, &ctx.settings);
    let uses = &request.volume_capabilities;
    let class = class.and_then(|class| match uses.is_empty() {
        true => Ok(class),
        false => uses::capabilities(uses, class).map(|_| class),
    });
    let Ok(class) = class else {
        return Ok(capacity::answer(None, None));
    };
    let place = request.accessible_topology.as_ref();
    let left = match place.is_none_or(|there| topology::reaches(class, there)) {
        true => capacity::left(&ctx.client.quotas().await?, &class.storage_class),
        false => Some(0),
    };
    Ok(capacity::answer(left, class.largest))
}

/// What is to be copied, if it is there.
async fn copied(ctx: &Context, origin: Origin) -> Result<Copied, Status> {
    let (storage_class, size) = match &origin {
        Origin::Volume(id) => {
            let volume = ctx.client.volume(id).await?;
            let volume = volume.filter(|volume| !volume.deleting);
            let volume = volume.ok_or_else(|| missing(id))?;
            (volume.storage_class.clone(), volume.size())
        }
        Origin::Snapshot(id) => {
            let snapshot = ctx.client.snapshot(id).await?;
            let snapshot = snapshot.filter(|snapshot| !snapshot.deleting);
            let snapshot =
                snapshot.ok_or_else(|| Status::not_found(format!("there is no snapshot {id}")))?;
            if !snapshot.ready {
                return Err(Status::unavailable(format!(
                    "snapshot {id} is not ready yet; try again"
                )));
            }
            (snapshot.storage_class, snapshot.size)
        }
    };
    Ok(Copied {
        origin,
        storage_class,
        size,
    })
}

fn created(ctx: &Context, volume: &Volume) -> CreateVolumeResponse {
    CreateVolumeResponse {
        volume: Some(mapping::answer(volume, &ctx.settings.offer)),
    }
}

pub(super) async fn delete_volume(
    ctx: &Context,
    request: &DeleteVolumeRequest,
    patience: Duration,
) -> Result<DeleteVolumeResponse, Status> {
    let id = &request.volume_id;
    named(id)?;
    let _held = ctx.in_flight.take(id)?;
    let Some(volume) = ctx.client.volume(id).await? else {
        return Ok(DeleteVolumeResponse {});
    };
    let holder = volume.holders.held.first().cloned();
    let holder = holder.or_else(|| ctx.cache.read(|s| s.elsewhere(id, "").map(str::to_owned)));
    if let Some(holder) = holder {
        return Err(Status::failed_precondition(format!(
            "volume {id} is attached to machine {holder}; it can be deleted once it is detached"
        )));
    }
    if !volume.deleting {
        ctx.client.delete(&volume).await?;
    }
    let gone = |state: &State| {
        let now = state.volumes.get(id);
        now.is_none_or(|now| now.version.uid != volume.version.uid)
            .then_some(())
    };
    if ctx.cache.wait(patience, gone).await.is_none() {
        return Err(Status::deadline_exceeded(format!(
            "volume {id} is not gone yet; something in the management cluster still uses its claim"
        )));
    }
    Ok(DeleteVolumeResponse {})
}

pub(super) async fn controller_expand_volume(
    ctx: &Context,
    request: &ControllerExpandVolumeRequest,
    patience: Duration,
) -> Result<ControllerExpandVolumeResponse, Status> {
    let id = &request.volume_id;
    named(id)?;
    let _held = ctx.in_flight.take(id)?;
    let volume = ctx.client.volume(id).await?.ok_or_else(|| missing(id))?;
    let class = volume.class_in(&ctx.settings.offer);
    let access = request
        .volume_capability
        .as_ref()
        .and_then(|c| c.access_type.as_ref());
    let answer = |bytes| ControllerExpandVolumeResponse {
        capacity_bytes: bytes,
        // A device is larger by itself; a filesystem on it is not.
        node_expansion_required: !matches!(access, Some(AccessType::Block(_))),
    };
    let bytes = match mapping::expand(&volume, request.capacity_range.as_ref(), class)? {
        Expansion::Enough => return Ok(answer(volume.size())),
        Expansion::Grow(bytes) => bytes,
    };
    // Fewer than before are asked for once the tenant has taken a wish back that cannot be had.
    if bytes != volume.requested {
        ctx.client.resize(&volume, bytes).await?;
    }
    let grown = |state: &State| match state.volumes.get(id) {
        Some(now) if now.version.uid == volume.version.uid => {
            if now.infeasible && now.requested == bytes {
                // For the resizer this code is final: it asks again slowly, and takes a lower wish
                // (external-resizer, "infeasible": INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE).
                return Some(Err(Status::out_of_range(format!(
                    "storage cannot give volume {id} {bytes} bytes; it has {}; lower the request \
                     of its claim to a size above that",
                    now.size()
                ))));
            }
            // What is not bound grows when it is made; what is pending is larger underneath.
            let is = !now.bound || now.capacity >= bytes || now.resizing;
            (is && now.requested >= bytes).then(|| Ok(now.size().max(bytes)))
        }
        _ => Some(Err(missing(id))),
    };
    match ctx.cache.wait(patience, grown).await {
        Some(bytes) => Ok(answer(bytes?)),
        None => {
            let why = complaint(ctx, &volume).await?;
            Err(Status::deadline_exceeded(format!(
                "volume {id} is not larger yet: {why}"
            )))
        }
    }
}

pub(super) async fn controller_modify_volume(
    ctx: &Context,
    request: &ControllerModifyVolumeRequest,
    patience: Duration,
) -> Result<ControllerModifyVolumeResponse, Status> {
    let id = &request.volume_id;
    named(id)?;
    if !ctx.settings.offer.has_attributes() {
        return Err(Status::unimplemented(
            "no class of storage has attributes that can be changed; ask who runs the management \
             cluster for some",
        ));
    }
    let _held = ctx.in_flight.take(id)?;
    let volume = ctx.client.volume(id).await?.ok_or_else(|| missing(id))?;
    let class = volume.class_in(&ctx.settings.offer).ok_or_else(|| {
        Status::invalid_argument(format!(
            "the class of volume {id} is not offered any more, so it stays as it is"
        ))
    })?;
    let Some(wanted) = attributes::wanted(&request.mutable_parameters, class)? else {
        return Ok(ControllerModifyVolumeResponse {});
    };
    match attributes::progress(&volume, wanted)? {
        Progress::Done => return Ok(ControllerModifyVolumeResponse {}),
        Progress::Ask => ctx.client.set_attributes(&volume, wanted).await?,
        Progress::Waits => {}
    }
    let changed = |state: &State| match state.volumes.get(id) {
        Some(now) if now.version.uid == volume.version.uid => {
            match attributes::progress(now, wanted) {
                Ok(Progress::Done) => Some(Ok(())),
                Ok(Progress::Waits) => None,
                // What was written is in the cache already: the API took no notice, or somebody else
                // wrote, too.
                Ok(Progress::Ask) if now.attributes.is_none() => Some(Err(attributes::unserved())),
                Ok(Progress::Ask) => Some(Err(Status::aborted(format!(
                    "volume {id} was given other attributes meanwhile; try again"
                )))),
                Err(status) => Some(Err(status)),
            }
        }
        _ => Some(Err(missing(id))),
    };
    match ctx.cache.wait(patience, changed).await {
        Some(done) => done.map(|()| ControllerModifyVolumeResponse {}),
        None => {
            let why = complaint(ctx, &volume).await?;
            Err(Status::deadline_exceeded(format!(
                "volume {id} does not have these attributes yet: {why}"
            )))
        }
    }
}

pub(super) async fn validate_volume_capabilities(
    ctx: &Context,
    request: &ValidateVolumeCapabilitiesRequest,
    _: Duration,
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    let id = &request.volume_id;
    named(id)?;
    let capabilities = &request.volume_capabilities;
    if capabilities.is_empty() {
        return Err(Status::invalid_argument(
            "say how the volume is to be used: volume_capabilities",
        ));
    }
    let volume = ctx.client.volume(id).await?.ok_or_else(|| missing(id))?;
    let usable = uses::usable(&volume, capabilities, &ctx.settings.offer);
    Ok(match usable {
        Ok(_) => ValidateVolumeCapabilitiesResponse {
            confirmed: Some(validate_volume_capabilities_response::Confirmed {
                volume_context: request.volume_context.clone(),
                volume_capabilities: capabilities.clone(),
                parameters: request.parameters.clone(),
                ..Default::default()
            }),
            message: String::new(),
        },
        Err(status) => ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message: status.sentence,
        },
    })
}

pub(super) async fn list_volumes(
    ctx: &Context,
    request: &ListVolumesRequest,
    _: Duration,
) -> Result<ListVolumesResponse, Status> {
    ctx.cache.read(|state| {
        let there = state.volumes.values().filter(|volume| !volume.deleting);
        let volumes: Vec<_> = there.cloned().collect();
        let page = page(&volumes, request.max_entries, &request.starting_token)?;
        let entry = |volume: &Volume| list_volumes_response::Entry {
            volume: Some(mapping::answer(volume, &ctx.settings.offer)),
            status: Some(list_volumes_response::VolumeStatus {
                published_node_ids: state.attached(volume),
            }),
        };
        Ok(ListVolumesResponse {
            entries: page.items.iter().map(entry).collect(),
            next_token: page.next,
        })
    })
}

pub(super) async fn controller_get_volume(
    ctx: &Context,
    request: &ControllerGetVolumeRequest,
    _: Duration,
) -> Result<ControllerGetVolumeResponse, Status> {
    let id = &request.volume_id;
    named(id)?;
    let volume = ctx.client.volume(id).await?.ok_or_else(|| missing(id))?;
    Ok(ControllerGetVolumeResponse {
        volume: Some(mapping::answer(&volume, &ctx.settings.offer)),
        status: Some(controller_get_volume_response::VolumeStatus {
            published_node_ids: ctx.cache.read(|state| state.attached(&volume)),
        }),
    })
}
