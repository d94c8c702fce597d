//! Claims and PersistentVolumes that are made when a volume is adopted.
//!
//! Invariant: pure; the claim in the management cluster is the one that [`crate::mapping`] makes of a new
//! volume, but for what its storage has already: its size, and a filesystem with a disk image in it.

use std::collections::BTreeMap;

use api::names::LABEL_ZONE;
use api::storage::Class;
use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use proto::csi::volume_capability::access_mode::Mode;
use proto::csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use proto::csi::{CapacityRange, CreateVolumeRequest, VolumeCapability};
use serde_json::{Value, json};

use super::Settings;
use super::observed::{claim_ref, csi, policy};
use crate::mapping;
use crate::names;

/// Longest claim that is kept in an annotation, in bytes; all annotations of an object together may have
/// 256 KiB (apimachinery `pkg/api/validation`, `TotalAnnotationSizeLimitB`).
const LONGEST: usize = 200 << 10;
/// What binding and provisioning write on a claim, and will write again.
const WRITTEN: [&str; 3] = [
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/storage-provisioner",
];

/// How a volume is to be, once it is ours.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Its class.
    pub class: Class,
    /// Its claim in the management cluster.
    pub claim: PersistentVolumeClaim,
    /// Access modes that the management cluster's PersistentVolume needs.
    pub modes: Vec<String>,
}

/// How the volume is to be that the tenant cluster knows as `tenant` (either its old PersistentVolume or
/// ours) and the management cluster as `storage`; `handle` is the old driver's name of it.
///
/// # Errors
/// A sentence that says why our driver cannot have it.
pub fn fit(
    handle: &str,
    tenant: &PersistentVolume,
    storage: &PersistentVolume,
    settings: &Settings,
) -> Result<Fit, String> {
    let (inside, outside) = (spec(tenant), spec(storage));
    let inside_class = inside.storage_class_name.clone().unwrap_or_default();
    let outside_class = outside.storage_class_name.clone().unwrap_or_default();
    let class = class(&inside_class, &outside_class, settings)?;
    let (has, wants) = (
        bytes(outside.capacity.as_ref()),
        bytes(inside.capacity.as_ref()),
    );
    if has < wants || has <= 0 {
        return Err(format!(
            "the tenant cluster was told of {wants} bytes, and its PersistentVolume {} in the management \
             cluster has {has}; find out which is right before anything is changed",
            storage.name_any()
        ));
    }
    let request = request(handle, tenant, wants, class);
    // What is there already is not refused for its size.
    let mut to = settings.to.clone();
    for class in &mut to.offer.classes {
        class.largest = None;
        // It is the tenant's own already, and shows nothing of others.
        class.zeroed = true;
    }
    let wanted = mapping::create(&request, &to, None).map_err(|status| status.sentence)?;
    let mut modes = outside.access_modes.clone().unwrap_or_default();
    let needed = if wanted.shared {
        "ReadWriteMany"
    } else {
        "ReadWriteOnce"
    };
    if !modes.iter().any(|mode| mode == needed) {
        // Whoever may be used by many may be used by one.
        if wanted.shared || !modes.iter().any(|mode| mode == "ReadWriteMany") {
            return Err(format!(
                "it is to be {needed}, and its PersistentVolume {} in the management cluster is {}; make a \
                 new volume and copy into it",
                storage.name_any(),
                modes.join(", ")
            ));
        }
        modes.push(needed.to_owned());
    }
    let mut claim = wanted.claim;
    let spec = claim.spec.get_or_insert_default();
    spec.volume_name = Some(storage.name_any());
    // A disk image in a filesystem is plugged as well as a device.
    spec.volume_mode = Some(
        outside
            .volume_mode
            .clone()
            .unwrap_or_else(|| "Filesystem".to_owned()),
    );
    let requests = spec.resources.get_or_insert_default();
    let amount = outside
        .capacity
        .as_ref()
        .and_then(|c| c.get("storage"))
        .cloned();
    requests.requests = amount.map(|amount| BTreeMap::from([("storage".to_owned(), amount)]));
    Ok(Fit {
        class: class.clone(),
        claim,
        modes,
    })
}

fn class<'a>(inside: &str, outside: &str, settings: &'a Settings) -> Result<&'a Class, String> {
    let offer = &settings.to.offer;
    let named = settings.classes.get(inside);
    let class = match named {
        Some(name) => offer.class(Some(name)),
        None => offer.of_storage_class(outside),
    };
    let class = class.ok_or_else(|| match named {
        Some(name) => format!("class {name} is not offered; name an offered one: --class {inside}=<class>"),
        None => format!(
            "no offered class has the StorageClass {outside:?} of the management cluster, in which it is; \
             offer one (config.storage of the chart, addons.csi.classes)"
        ),
    })?;
    if class.storage_class != outside {
        return Err(format!(
            "class {} is of StorageClass {:?} of the management cluster, and the volume is of {outside:?}; \
             name another class: --class {inside}=<class>",
            class.name, class.storage_class
        ));
    }
    Ok(class)
}

/// What the stock provisioner would ask for such a volume.
fn request(
    handle: &str,
    tenant: &PersistentVolume,
    size: i64,
    class: &Class,
) -> CreateVolumeRequest {
    let inside = spec(tenant);
    let mut parameters = BTreeMap::from([(names::PARAMETER_CLASS.to_owned(), class.name.clone())]);
    if let Some(of) = claim_ref(tenant) {
        for (key, value) in [("pvc/namespace", &of.namespace), ("pvc/name", &of.name)] {
            let key = format!("{}{key}", names::PARAMETER_PREFIX);
            parameters.insert(key, value.clone().unwrap_or_default());
        }
    }
    let block = inside.volume_mode.as_deref() == Some("Block");
    let fs_type = csi(tenant).and_then(|csi| csi.fs_type.clone());
    let capability = |mode: &String| VolumeCapability {
        access_mode: Some(AccessMode {
            mode: match mode.as_str() {
                "ReadWriteOnce" => Mode::SingleNodeWriter,
                "ReadWriteOncePod" => Mode::SingleNodeSingleWriter,
                "ReadWriteMany" => Mode::MultiNodeMultiWriter,
                "ReadOnlyMany" => Mode::MultiNodeReaderOnly,
                _ => Mode::Unknown,
            }
            .into(),
        }),
        access_type: Some(match block {
            true => AccessType::Block(BlockVolume::default()),
            false => AccessType::Mount(MountVolume {
                fs_type: fs_type.clone().unwrap_or_default(),
                ..MountVolume::default()
            }),
        }),
    };
    CreateVolumeRequest {
        name: handle.to_owned(),
        parameters,
        capacity_range: Some(CapacityRange {
            required_bytes: size,
            limit_bytes: 0,
        }),
        volume_capabilities: inside
            .access_modes
            .iter()
            .flatten()
            .map(capability)
            .collect(),
        ..CreateVolumeRequest::default()
    }
}

/// The PersistentVolume of the tenant cluster that takes the place of `old`, as the stock provisioner
/// would make it, with everything that is needed to make `claim` anew. Its policy is Retain until that is
/// bound.
///
/// # Errors
/// A sentence when the claim cannot be made anew.
pub fn tenant_volume(
    id: &str,
    old: &PersistentVolume,
    claim: &PersistentVolumeClaim,
    class: &Class,
    settings: &Settings,
) -> Result<PersistentVolume, String> {
    let kept = kept(claim, id).to_string();
    if kept.len() > LONGEST {
        return Err(format!(
            "its claim has {} bytes without what binding wrote on it, and at most {LONGEST} can be kept while \
             it is made anew; remove large annotations",
            kept.len()
        ));
    }
    let spec = spec(old);
    let zone = |zone: &String| json!({ "matchExpressions": [{ "key": LABEL_ZONE, "operator": "In", "values": [zone] }] });
    let terms: Vec<_> = class.zones.iter().map(zone).collect();
    let affinity =
        (!terms.is_empty()).then(|| json!({ "required": { "nodeSelectorTerms": terms } }));
    let policy = super::observed::annotation(&old.metadata, names::ANNOTATION_ADOPT_POLICY);
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": id,
            "labels": old.metadata.labels,
            "annotations": {
                "pv.kubernetes.io/provisioned-by": names::DRIVER,
                names::ANNOTATION_ADOPTED_FROM: settings.driver,
                names::ANNOTATION_ADOPT_POLICY: policy.unwrap_or_else(|| self::policy(old)),
                names::ANNOTATION_ADOPT_CLAIM: kept,
            },
        },
        "spec": {
            "accessModes": spec.access_modes,
            "capacity": spec.capacity,
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(), "name": claim.name_any(),
            },
            "csi": {
                "driver": names::DRIVER,
                "volumeHandle": id,
                "fsType": csi(old).and_then(|csi| csi.fs_type.clone()),
            },
            "mountOptions": spec.mount_options,
            "nodeAffinity": affinity,
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": spec.storage_class_name,
            "volumeMode": spec.volume_mode,
        },
    });
    serde_json::from_value(volume).map_err(|error| format!("make PersistentVolume {id}: {error}"))
}

/// A claim as it is made anew for the volume `id`.
fn kept(claim: &PersistentVolumeClaim, id: &str) -> Value {
    let stays = |key: &str| !WRITTEN.iter().any(|start| key.starts_with(start));
    let meta = &claim.metadata;
    let annotations = meta.annotations.iter().flatten();
    let annotations: BTreeMap<_, _> = annotations.filter(|(key, _)| stays(key)).collect();
    let spec = PersistentVolumeClaimSpec {
        volume_name: Some(id.to_owned()),
        ..claim.spec.clone().unwrap_or_default()
    };
    json!({
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": meta.labels,
            "annotations": annotations,
            "ownerReferences": meta.owner_references,
        },
        "spec": spec,
    })
}

/// The claim of the tenant cluster that our PersistentVolume keeps; none when it keeps none.
///
/// # Errors
/// A sentence when it is not the claim that the PersistentVolume is for.
pub fn tenant_claim(volume: &PersistentVolume) -> Result<Option<PersistentVolumeClaim>, String> {
    let kept = super::observed::annotation(&volume.metadata, names::ANNOTATION_ADOPT_CLAIM);
    let Some(kept) = kept else { return Ok(None) };
    let name = volume.name_any();
    let wrong = |why: &str| {
        format!(
            "annotation {} of PersistentVolume {name} {why}; make the claim by hand, with volumeName {name}",
            names::ANNOTATION_ADOPT_CLAIM
        )
    };
    let claim: PersistentVolumeClaim =
        serde_json::from_str(kept).map_err(|_| wrong("is no claim any more"))?;
    let of = claim_ref(volume);
    let place = (
        claim.metadata.namespace.as_ref(),
        claim.metadata.name.as_ref(),
    );
    let named = of.map(|of| (of.namespace.as_ref(), of.name.as_ref()));
    if named != Some(place) || super::observed::volume_of(&claim) != name {
        return Err(wrong(
            "is another claim than the one that the volume is for",
        ));
    }
    let meta = claim.metadata;
    Ok(Some(PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: meta.name,
            namespace: meta.namespace,
            labels: meta.labels,
            annotations: meta.annotations,
            owner_references: meta.owner_references,
            ..ObjectMeta::default()
        },
        spec: claim.spec,
        status: None,
    }))
}

fn spec(volume: &PersistentVolume) -> PersistentVolumeSpec {
    volume.spec.clone().unwrap_or_default()
}

/// Of a list of amounts, that of storage; 0 when there is none.
pub(super) fn bytes(amounts: Option<&BTreeMap<String, Quantity>>) -> i64 {
    let amount = amounts.and_then(|amounts| amounts.get("storage"));
    let bytes = amount.and_then(|amount| kit_objects::quantity::bytes(&amount.0));
    bytes.unwrap_or(0)
}
