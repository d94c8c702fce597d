//! Mapping between volumes of CSI and claims: from a request to a claim of the management cluster, an
//! answer, or a status that refuses.
//!
//! | Module | What it maps |
//! |---|---|
//! | [`snapshot`] | requests about snapshots |
//! | [`uses`] | how a volume is to be used |
//! | [`topology`] | classes to zones |
//! | [`capacity`] | quotas to what is left |
//! | [`attributes`] | VolumeAttributesClasses to those of the management cluster |
//! | [`page`] | lists to pages |
//!
//! Invariant: pure; the same request makes the same claim, and a claim that is there already is
//! never taken for a volume that it could not be.

use std::collections::BTreeMap;

use api::names::{LABEL_COMPONENT, LABEL_MANAGED_BY, LABEL_TENANT_UID, MANAGED_BY};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use proto::csi::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use proto::csi::{CapacityRange, CreateVolumeRequest, VolumeContentSource};
use serde_json::json;

use crate::cache::objects::{Origin, Volume};
use crate::names;
use crate::settings::{Class, Offer, Settings};
use crate::status::Status;

pub mod attributes;
pub mod capacity;
pub mod page;
pub mod snapshot;
pub mod topology;
pub mod uses;

/// Bytes of a volume for which no size is asked.
pub const DEFAULT_SIZE: i64 = 1 << 30;
/// Sizes are rounded up to this many bytes where the limit allows it: storage counts in larger steps
/// anyway, and what is asked for stays readable.
const STEP: i64 = 1 << 20;
/// Longest string in a request (CSI, "Size Limits").
const LONGEST: usize = 128;
/// A volume that is to be there.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its identifier, and the name of the claim.
    pub id: String,
    /// The claim.
    pub claim: PersistentVolumeClaim,
    /// Under which name the tenant cluster asks.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// Several machines may have it.
    pub shared: bool,
    /// What it is made of, if it is.
    pub source: Option<Origin>,
    /// VolumeAttributesClass in the management cluster that it is to have.
    pub attributes: Option<String>,
    /// Bytes that it has at least, and at most.
    pub range: Range,
}

/// A size that is asked for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// At least; 0 when nothing is said.
    pub required: i64,
    /// At most; none when nothing is said.
    pub limit: Option<i64>,
}

impl Range {
    /// Reads the range of a request.
    ///
    /// # Errors
    /// INVALID_ARGUMENT when it is none.
    pub fn read(range: Option<&CapacityRange>) -> Result<Self, Status> {
        let CapacityRange {
            required_bytes: required,
            limit_bytes: limit,
        } = range.copied().unwrap_or_default();
        if required < 0 || limit < 0 {
            return Err(Status::invalid_argument(
                "sizes are in bytes and never below 0",
            ));
        }
        if limit > 0 && required > limit {
            return Err(Status::invalid_argument(format!(
                "a volume of at least {required} bytes cannot have at most {limit} bytes"
            )));
        }
        Ok(Self {
            required,
            limit: (limit > 0).then_some(limit),
        })
    }

    /// Whether a size is within it.
    #[must_use]
    pub fn has(&self, size: i64) -> bool {
        size >= self.required && self.limit.is_none_or(|limit| size <= limit)
    }

    /// Bytes to ask for, at least this many if nothing is required.
    fn size(&self, class: &Class, default: i64) -> Result<i64, Status> {
        let least = if self.required > 0 {
            self.required
        } else {
            default
        };
        let rounded = least
            .div_euclid(STEP)
            .saturating_add(i64::from(least % STEP > 0));
        let mut size = rounded.saturating_mul(STEP);
        for most in [self.limit, class.largest].into_iter().flatten() {
            if size > most {
                size = most.min(least);
            }
        }
        match class.largest {
            Some(largest) if self.required > largest => Err(Status::out_of_range(format!(
                "class {} has volumes of at most {largest} bytes, and {} are asked for; ask for \
                 less, or use another class",
                class.name, self.required
            ))),
            _ => Ok(size),
        }
    }
}

/// What a volume is to be a copy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// What it is.
    pub origin: Origin,
    /// Its StorageClass in the management cluster.
    pub storage_class: String,
    /// Its bytes.
    pub size: i64,
}

/// What a request wants a copy of, if it does.
///
/// # Errors
/// INVALID_ARGUMENT when it does not say of what.
pub fn source(request: &CreateVolumeRequest) -> Result<Option<Origin>, Status> {
    let Some(source) = &request.volume_content_source else {
        return Ok(None);
    };
    match &source.r#type {
        Some(Source::Volume(volume)) => Ok(Some(Origin::Volume(volume.volume_id.clone()))),
        Some(Source::Snapshot(from)) => Ok(Some(Origin::Snapshot(from.snapshot_id.clone()))),
        None => Err(Status::invalid_argument(
            "say what the volume is to be a copy of",
        )),
    }
}

/// The volume that a request asks for; `source` is what it wants a copy of.
///
/// # Errors
/// When the request is wrong, or asks for what is not offered.
pub fn create(
    request: &CreateVolumeRequest,
    settings: &Settings,
    source: Option<&Copied>,
) -> Result<Wanted, Status> {
    let CreateVolumeRequest {
        name, parameters, ..
    } = request;
    if name.is_empty() {
        return Err(Status::invalid_argument("a volume needs a name"));
    }
    if name.len() > LONGEST {
        return Err(Status::invalid_argument(format!(
            "a volume's name has at most {LONGEST} bytes, and this one {}",
            name.len()
        )));
    }
    let class = class(parameters, settings)?;
    let shared = uses::capabilities(&request.volume_capabilities, class)?;
    let attributes = attributes::wanted(&request.mutable_parameters, class)?;
    topology::fits(class, request.accessibility_requirements.as_ref())?;
    let range = Range::read(request.capacity_range.as_ref())?;
    let mut size = range.size(class, source.map_or(DEFAULT_SIZE, |source| source.size))?;
    if let Some(source) = source {
        copies(source, class, &range)?;
        size = size.max(source.size);
    }
    match source {
        // A copy of the very same size shows what its source does, and nothing else.
        Some(source) if !class.zeroed && range.required <= source.size => size = source.size,
        _ => zeroed(class)?,
    }
    let wanted = Wanted {
        id: names::volume(name),
        claim: PersistentVolumeClaim::default(),
        name: name.clone(),
        class: class.clone(),
        shared,
        source: source.map(|source| source.origin.clone()),
        attributes: attributes.map(str::to_owned),
        range,
    };
    let mut claim = claim(&wanted, size, request, settings)?;
    if let Some(spec) = &mut claim.spec {
        spec.volume_attributes_class_name = wanted.attributes.clone();
    }
    Ok(Wanted { claim, ..wanted })
}

/// Whether space that storage gives to a volume of this class shows nothing of whoever had it before.
/// It is asked before there is a volume, because nothing can be done later: the disk is plugged into a
/// machine of the tenant's, who reads it past every driver (docs/adr/0014).
fn zeroed(class: &Class) -> Result<(), Status> {
    match class.zeroed {
        true => Ok(()),
        false => Err(Status::failed_precondition(format!(
            "nobody has said that new space of class {} shows nothing of whoever had it before; use \
             another class, or ask whoever runs the platform to see to it and to set `zeroed` of the \
             class",
            class.name
        ))),
    }
}

/// Whether a volume of this class can be a copy of that.
fn copies(source: &Copied, class: &Class, range: &Range) -> Result<(), Status> {
    let (what, can) = match &source.origin {
        Origin::Volume(id) => (format!("volume {id}"), class.cloneable),
        Origin::Snapshot(id) => (format!("snapshot {id}"), class.snapshot_class.is_some()),
    };
    if !can {
        return Err(Status::invalid_argument(format!(
            "storage of class {} makes no copy of {what}; make an empty volume and copy into it",
            class.name
        )));
    }
    if source.storage_class != class.storage_class {
        return Err(Status::invalid_argument(format!(
            "{what} is of another class than {}; a copy has the class of what it is made of",
            class.name
        )));
    }
    let size = source.size;
    if range.limit.is_some_and(|limit| limit < size)
        || (range.required > 0 && range.required < size)
    {
        return Err(Status::out_of_range(format!(
            "{what} has {size} bytes, and a copy cannot have less; ask for {size} or more"
        )));
    }
    Ok(())
}

fn claim(
    wanted: &Wanted,
    size: i64,
    request: &CreateVolumeRequest,
    settings: &Settings,
) -> Result<PersistentVolumeClaim, Status> {
    let mut annotations = BTreeMap::from([
        (names::ANNOTATION_NAME, request.name.clone()),
        (names::ANNOTATION_CLASS, wanted.class.name.clone()),
    ]);
    let extra = |key: &str| {
        request
            .parameters
            .get(&format!("{}{key}", names::PARAMETER_PREFIX))
    };
    if let (Some(namespace), Some(name)) = (extra("pvc/namespace"), extra("pvc/name")) {
        annotations.insert(
            names::ANNOTATION_TENANT_CLAIM,
            format!("{namespace}/{name}"),
        );
    }
    let mut claim = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": wanted.id,
            "namespace": settings.namespace,
            "labels": {
                LABEL_TENANT_UID: settings.cluster_uid,
                LABEL_COMPONENT: names::COMPONENT,
                LABEL_MANAGED_BY: MANAGED_BY,
            },
            "annotations": annotations,
        },
        "spec": {
            "accessModes": [if wanted.shared { "ReadWriteMany" } else { "ReadWriteOnce" }],
            "storageClassName": wanted.class.storage_class,
            "volumeMode": "Block",
            "resources": { "requests": { "storage": size.to_string() } },
        },
    });
    claim["spec"]["dataSource"] = match &wanted.source {
        Some(Origin::Volume(id)) => json!({ "kind": "PersistentVolumeClaim", "name": id }),
        Some(Origin::Snapshot(id)) => {
            json!({ "apiGroup": names::SNAPSHOT_GROUP, "kind": names::SNAPSHOT_KIND, "name": id })
        }
        None => serde_json::Value::Null,
    };
    serde_json::from_value(claim)
        .map_err(|error| Status::internal(format!("make a claim: {error}")))
}

/// The class of storage that the parameters of a StorageClass name.
///
/// # Errors
/// INVALID_ARGUMENT when there is no such class, or a parameter that means nothing.
pub fn class<'a>(
    parameters: &BTreeMap<String, String>,
    settings: &'a Settings,
) -> Result<&'a Class, Status> {
    let known =
        |key: &&String| *key == names::PARAMETER_CLASS || key.starts_with(names::PARAMETER_PREFIX);
    if let Some(key) = parameters.keys().find(|key| !known(key)) {
        return Err(Status::invalid_argument(format!(
            "the StorageClass has a parameter {key}, which means nothing here; the only one is \
             {}",
            names::PARAMETER_CLASS
        )));
    }
    let name = parameters.get(names::PARAMETER_CLASS).map(String::as_str);
    let offered = || {
        let names: Vec<_> = settings
            .offer
            .classes
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        names.join(", ")
    };
    settings.offer.class(name).ok_or_else(|| {
        Status::invalid_argument(match name {
            Some(name) => format!(
                "storage of class {name} is not offered; there is: {}",
                offered()
            ),
            None => format!(
                "no class of storage is the default one; name one in the parameter {} of the \
                 StorageClass: {}",
                names::PARAMETER_CLASS,
                offered()
            ),
        })
    })
}

/// Whether the volume that is there is the one that is wanted.
///
/// # Errors
/// ALREADY_EXISTS naming the difference; ABORTED while it is being deleted.
pub fn same(volume: &Volume, wanted: &Wanted) -> Result<(), Status> {
    let differs = |what: String| {
        Err(Status::already_exists(format!(
            "a volume named {} is there already, and {what}; use another name",
            wanted.name
        )))
    };
    if volume.deleting {
        return Err(Status::aborted(format!(
            "the volume named {} that was there before is not gone yet; try again",
            wanted.name
        )));
    }
    if volume.name != wanted.name {
        return differs(format!("was asked for as {:?}", volume.name));
    }
    if volume.storage_class != wanted.class.storage_class {
        return differs("is of another class".to_owned());
    }
    if volume.shared != wanted.shared {
        return differs("has another access mode".to_owned());
    }
    if volume.source != wanted.source {
        return differs("has another source".to_owned());
    }
    if wanted.attributes.is_some() && volume.attributes.is_none() {
        return Err(attributes::unserved());
    }
    // They can be changed afterwards, so others are no other volume.
    if !wanted.range.has(volume.size()) {
        return differs(format!("has {} bytes", volume.size()));
    }
    Ok(())
}

/// A volume as the tenant cluster is told of it.
#[must_use]
pub fn answer(volume: &Volume, offer: &Offer) -> proto::csi::Volume {
    let class = offer.of_storage_class(&volume.storage_class);
    proto::csi::Volume {
        capacity_bytes: volume.size(),
        volume_id: volume.id.clone(),
        content_source: volume.source.clone().map(|source| VolumeContentSource {
            r#type: Some(match source {
                Origin::Volume(volume_id) => Source::Volume(VolumeSource { volume_id }),
                Origin::Snapshot(snapshot_id) => Source::Snapshot(SnapshotSource { snapshot_id }),
            }),
        }),
        accessible_topology: class.map(topology::of).unwrap_or_default(),
        ..Default::default()
    }
}

/// What an expansion comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// It is large enough.
    Enough,
    /// The claim has to ask for this many bytes, which may be fewer than it asks for now.
    Grow(i64),
}

/// How a volume is to grow; the class is that of its claim, if it is still offered.
///
/// # Errors
/// When it cannot have this size, or cannot grow.
pub fn expand(
    volume: &Volume,
    range: Option<&CapacityRange>,
    class: Option<&Class>,
) -> Result<Expansion, Status> {
    let range = Range::read(range)?;
    if range == Range::default() {
        return Err(Status::invalid_argument(
            "say how large the volume is to be: capacity_range",
        ));
    }
    let size = volume.size();
    if range.limit.is_some_and(|limit| limit < size) {
        return Err(Status::out_of_range(format!(
            "volume {} has {size} bytes already, and a volume never shrinks; ask for {size} or more",
            volume.id
        )));
    }
    if size >= range.required {
        return Ok(Expansion::Enough);
    }
    let Some(class) = class.filter(|class| class.expandable) else {
        return Err(Status::invalid_argument(format!(
            "storage of class {} cannot grow; make a larger volume and copy into it",
            volume.class_name(class)
        )));
    };
    let wanted = range.size(class, DEFAULT_SIZE)?;
    zeroed(class)?;
    Ok(Expansion::Grow(wanted))
}

#[cfg(test)]
mod tests;
