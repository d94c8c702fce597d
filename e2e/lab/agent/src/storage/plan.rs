//! Decides from claims and volumes what the lab's storage has to do next. Pure.
//!
//! Invariant: only volumes that carry our provisioner and this node are touched, and a directory
//! is named for removal only if it is `<storage directory>/pvc-<UID of the claim>`.
//! Conventions of volumes made outside the controller-manager: kubernetes-sigs
//! `sig-storage-lib-external-provisioner` and `external-resizer`.

use std::{
    borrow::Borrow,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use k8s_openapi::{
    api::core::v1::{
        LocalVolumeSource, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
        ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec,
        PersistentVolumeSpec, VolumeNodeAffinity,
    },
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::ObjectMeta},
};

use super::{CLASS, PROVISIONER, quantity::bytes};

/// Says who made a volume and who removes it; with this the controller-manager leaves it to us.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The node whose agent keeps the volume's directory.
pub const KEPT_ON: &str = "covey.dev/lab-node";
/// Set by the scheduler, or by whoever wants a volume on a certain node.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Annotation of a claim that waits for a volume: whose it is to be.
const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// Where volumes of this agent live.
#[derive(Clone, Debug)]
pub struct Place {
    /// The node, as its `kubernetes.io/hostname` label says.
    pub node: String,
    /// The directory, absolute, in which every volume has its own.
    pub directory: PathBuf,
}

/// One thing to do. All of them can be done again without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Make the directory, then the volume.
    Provision {
        /// The directory to make.
        directory: PathBuf,
        /// The volume, already bound to its claim.
        volume: Box<PersistentVolume>,
    },
    /// Raise a volume's capacity.
    GrowVolume {
        /// Its name.
        volume: String,
        /// The new capacity.
        capacity: Quantity,
    },
    /// Tell a claim that it has what it asked for.
    GrowClaim {
        /// The claim's namespace.
        namespace: String,
        /// The claim's name.
        claim: String,
        /// The new capacity.
        capacity: Quantity,
    },
    /// Remove the directory, then the volume.
    Remove {
        /// The volume's name.
        volume: String,
        /// The volume's UID, so that no namesake is removed.
        uid: Option<String>,
        /// The directory to remove.
        directory: PathBuf,
    },
}

impl Action {
    /// A few words for the log.
    pub fn summary(&self) -> String {
        match self {
            Self::Provision { volume, .. } => {
                format!(
                    "provision {}",
                    volume.metadata.name.as_deref().unwrap_or_default()
                )
            }
            Self::GrowVolume { volume, capacity } => format!("grow {volume} to {}", capacity.0),
            Self::GrowClaim {
                namespace,
                claim,
                capacity,
            } => {
                format!("grow {namespace}/{claim} to {}", capacity.0)
            }
            Self::Remove { volume, .. } => format!("remove {volume}"),
        }
    }
}

/// What to do, and what cannot be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In no particular order.
    pub actions: Vec<Action>,
    /// One sentence for each object that is left alone for good.
    pub refusals: Vec<String>,
}

/// Compares what is with what should be.
pub fn plan<C, V>(place: &Place, claims: &[C], volumes: &[V]) -> Plan
where
    C: Borrow<PersistentVolumeClaim>,
    V: Borrow<PersistentVolume>,
{
    let mut plan = Plan::default();
    let by_name: BTreeMap<&str, &PersistentVolume> = volumes
        .iter()
        .map(Borrow::borrow)
        .filter_map(|volume| Some((volume.metadata.name.as_deref()?, volume)))
        .collect();
    for claim in claims.iter().map(Borrow::borrow) {
        let Some(spec) = &claim.spec else { continue };
        if !is_meant(claim, spec) {
            continue;
        }
        match spec.volume_name.as_deref() {
            None | Some("") => match provision(place, claim, spec, &by_name) {
                Ok(action) => plan.actions.extend(action),
                Err(reason) => plan
                    .refusals
                    .push(format!("claim {}: {reason}", label(claim))),
            },
            Some(name) => {
                let volume = by_name.get(name).filter(|volume| is_ours(place, volume));
                plan.actions
                    .extend(volume.and_then(|volume| grow(claim, spec, volume)));
            }
        }
    }
    for volume in by_name.values().filter(|volume| is_ours(place, volume)) {
        match remove(place, volume) {
            Ok(action) => plan.actions.extend(action),
            Err(reason) => {
                let name = volume.metadata.name.as_deref().unwrap_or_default();
                plan.refusals.push(format!("volume {name}: {reason}"));
            }
        }
    }
    plan
}

/// Whether a claim is of the class that the agent writes, or of another one that names its provisioner: the controller
/// manager writes on it which that is.
fn is_meant(claim: &PersistentVolumeClaim, spec: &PersistentVolumeClaimSpec) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    let provisioner = annotations.and_then(|all| all.get(STORAGE_PROVISIONER));
    spec.storage_class_name.as_deref() == Some(CLASS)
        || provisioner.is_some_and(|provisioner| provisioner == PROVISIONER)
}

/// Whether this agent made the volume and keeps its directory.
pub fn is_ours(place: &Place, volume: &PersistentVolume) -> bool {
    let is = |key: &str, value: &str| {
        let annotations = volume.metadata.annotations.as_ref();
        annotations
            .and_then(|all| all.get(key))
            .is_some_and(|found| found == value)
    };
    is(PROVISIONED_BY, PROVISIONER) && is(KEPT_ON, &place.node)
}

fn label(claim: &PersistentVolumeClaim) -> String {
    let metadata = &claim.metadata;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    format!(
        "{namespace}/{}",
        metadata.name.as_deref().unwrap_or_default()
    )
}

fn provision(
    place: &Place,
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    volumes: &BTreeMap<&str, &PersistentVolume>,
) -> Result<Option<Action>, &'static str> {
    let selected = claim
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(SELECTED_NODE));
    if claim.metadata.deletion_timestamp.is_some()
        || selected.is_some_and(|node| *node != place.node)
    {
        return Ok(None);
    }
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let name = volume_name(uid).ok_or("its UID is not one")?;
    if volumes.contains_key(name.as_str()) {
        return Ok(None);
    }
    if spec
        .volume_mode
        .as_deref()
        .is_some_and(|mode| mode != "Filesystem")
    {
        return Err("lab-local has no block volumes; ask for volumeMode Filesystem");
    }
    if spec.data_source.is_some() || spec.data_source_ref.is_some() {
        return Err("lab-local cannot copy volumes; leave out the data source");
    }
    if spec.selector.is_some() {
        return Err("lab-local makes volumes, none can be selected; leave out the selector");
    }
    let requested = requested(spec).ok_or("it asks for no storage; set a storage request")?;
    let directory = place.directory.join(&name);
    let path = directory
        .to_str()
        .ok_or("the storage directory is not UTF-8")?
        .to_owned();
    let volume = PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name),
            annotations: Some(
                [(PROVISIONED_BY, PROVISIONER), (KEPT_ON, &place.node)]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..Default::default()
        },
        spec: Some(PersistentVolumeSpec {
            access_modes: spec.access_modes.clone(),
            capacity: Some([("storage".to_owned(), requested.clone())].into()),
            claim_ref: Some(ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("PersistentVolumeClaim".to_owned()),
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                uid: claim.metadata.uid.clone(),
                ..Default::default()
            }),
            local: Some(LocalVolumeSource {
                path,
                fs_type: None,
            }),
            node_affinity: Some(affinity(&place.node)),
            persistent_volume_reclaim_policy: Some("Delete".to_owned()),
            storage_class_name: spec.storage_class_name.clone(),
            volume_mode: Some("Filesystem".to_owned()),
            ..Default::default()
        }),
        status: None,
    };
    Ok(Some(Action::Provision {
        directory,
        volume: Box::new(volume),
    }))
}

fn requested(spec: &PersistentVolumeClaimSpec) -> Option<&Quantity> {
    spec.resources.as_ref()?.requests.as_ref()?.get("storage")
}

fn affinity(node: &str) -> VolumeNodeAffinity {
    VolumeNodeAffinity {
        required: Some(NodeSelector {
            node_selector_terms: vec![NodeSelectorTerm {
                match_expressions: Some(vec![NodeSelectorRequirement {
                    key: "kubernetes.io/hostname".to_owned(),
                    operator: "In".to_owned(),
                    values: Some(vec![node.to_owned()]),
                }]),
                match_fields: None,
            }],
        }),
    }
}

/// First the volume, then, once that is seen, the claim: the order of the external resizer.
fn grow(
    claim: &PersistentVolumeClaim,
    spec: &PersistentVolumeClaimSpec,
    volume: &PersistentVolume,
) -> Option<Action> {
    let status = claim.status.as_ref()?;
    let bound_to = volume.spec.as_ref()?.claim_ref.as_ref()?.uid.as_ref();
    if status.phase.as_deref() != Some("Bound") || bound_to != claim.metadata.uid.as_ref() {
        return None;
    }
    let requested = requested(spec)?;
    let has = volume.spec.as_ref()?.capacity.as_ref()?.get("storage")?;
    if bytes(has)? < bytes(requested)? {
        return Some(Action::GrowVolume {
            volume: volume.metadata.name.clone()?,
            capacity: requested.clone(),
        });
    }
    let told = status.capacity.as_ref()?.get("storage")?;
    (bytes(told)? < bytes(requested)?).then_some(Action::GrowClaim {
        namespace: claim.metadata.namespace.clone()?,
        claim: claim.metadata.name.clone()?,
        capacity: has.clone(),
    })
}

fn remove(place: &Place, volume: &PersistentVolume) -> Result<Option<Action>, &'static str> {
    let spec = volume.spec.as_ref().ok_or("it has no spec")?;
    let released = volume
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if released != Some("Released")
        || spec.persistent_volume_reclaim_policy.as_deref() != Some("Delete")
    {
        return Ok(None);
    }
    let name = volume.metadata.name.clone().ok_or("it has no name")?;
    let claim_uid = spec
        .claim_ref
        .as_ref()
        .and_then(|claim| claim.uid.as_deref());
    if claim_uid.and_then(volume_name).as_ref() != Some(&name) {
        return Err("it is not named after its claim, so its directory stays");
    }
    let directory = place.directory.join(&name);
    // Compared byte by byte: `Path` would let "a/./b" pass for "a/b".
    let path = spec
        .local
        .as_ref()
        .map(|local| Path::new(&local.path).as_os_str());
    if path != Some(directory.as_os_str()) {
        return Err("its path is not the one it was made with, so its directory stays");
    }
    Ok(Some(Action::Remove {
        volume: name,
        uid: volume.metadata.uid.clone(),
        directory,
    }))
}

/// The name of a claim's volume and directory. A UID is hexadecimal digits and dashes, so the name
/// is a single path component.
fn volume_name(claim_uid: &str) -> Option<String> {
    let is_uid = !claim_uid.is_empty()
        && claim_uid
            .chars()
            .all(|digit| digit.is_ascii_hexdigit() || digit == '-');
    is_uid.then(|| format!("pvc-{claim_uid}"))
}

#[cfg(test)]
mod tests;
