//! What both APIs say of volumes, and questions to that.
//!
//! Invariant: reading never fails; what is missing reads as none.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod,
};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde_json::Value;

/// Both clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// The tenant cluster.
    pub tenant: Tenant,
    /// The management cluster.
    pub management: Management,
}

/// The tenant cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenant {
    /// All PersistentVolumes.
    pub volumes: Vec<PersistentVolume>,
    /// All claims.
    pub claims: Vec<PersistentVolumeClaim>,
    /// What is attached to nodes.
    pub attachments: Vec<VolumeAttachment>,
    /// All pods.
    pub pods: Vec<Pod>,
}

/// The management cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Management {
    /// All PersistentVolumes.
    pub volumes: Vec<PersistentVolume>,
    /// Claims in the namespace of the old driver.
    pub old_claims: Vec<PersistentVolumeClaim>,
    /// Claims in the tenant namespace.
    pub claims: Vec<PersistentVolumeClaim>,
    /// DataVolumes in the namespace of the old driver.
    pub data_volumes: Vec<ObjectMeta>,
    /// By claim of the namespace of the old driver: machines, instances and pods that have it.
    pub users: BTreeMap<String, BTreeSet<String>>,
}

/// The object of this name.
pub(super) fn find<'a, K: kube::Resource>(list: &'a [K], name: &str) -> Option<&'a K> {
    list.iter()
        .find(|one| one.meta().name.as_deref() == Some(name))
}

/// The claim of this namespace and name.
pub(super) fn claim_at<'a>(
    list: &'a [PersistentVolumeClaim],
    namespace: &str,
    name: &str,
) -> Option<&'a PersistentVolumeClaim> {
    list.iter()
        .find(|c| c.namespace().as_deref() == Some(namespace) && c.name_any() == name)
}

/// The source of a volume of a CSI driver.
pub(super) fn csi(volume: &PersistentVolume) -> Option<&CSIPersistentVolumeSource> {
    volume.spec.as_ref()?.csi.as_ref()
}

/// The claim that a volume is of.
pub(super) fn claim_ref(volume: &PersistentVolume) -> Option<&ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// Whether a volume is bound to this very claim.
pub(super) fn is_of(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let uid = claim_ref(volume).and_then(|of| of.uid.as_deref());
    uid.is_some_and(|uid| !uid.is_empty()) && uid == claim.metadata.uid.as_deref()
}

/// What becomes of a volume without a claim.
pub(super) fn policy(volume: &PersistentVolume) -> &str {
    let spec = volume.spec.as_ref();
    let policy = spec.and_then(|s| s.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or("Retain")
}

/// Name of the volume that a claim has, or is to have.
pub(super) fn volume_of(claim: &PersistentVolumeClaim) -> &str {
    let spec = claim.spec.as_ref();
    spec.and_then(|s| s.volume_name.as_deref()).unwrap_or("")
}

/// Whether a claim is bound, as it says.
pub(super) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    phase == Some("Bound")
}

/// Whether an object is being deleted.
pub(super) fn is_deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// Value of an annotation.
pub(super) fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Names of claims that a pod has and may still use.
pub fn claims_of(pod: &Pod) -> BTreeSet<String> {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return BTreeSet::new();
    }
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| {
            let named = volume.persistent_volume_claim.as_ref();
            let own = volume.ephemeral.as_ref();
            named
                .map(|claim| claim.claim_name.clone())
                .or_else(|| own.map(|_| format!("{}-{}", pod.name_any(), volume.name)))
        })
        .collect()
}

/// Names of claims that a VirtualMachine or an instance has, is to get, or has not let go of. What is
/// plugged has the name of its DataVolume, or that with `disk-` before it.
pub fn claims_of_machine(machine: &Value) -> BTreeSet<String> {
    const LISTS: [&str; 4] = [
        "/spec/template/spec/volumes",
        "/spec/volumes",
        "/status/volumeStatus",
        "/status/volumeRequests",
    ];
    const PLACES: [&str; 4] = [
        "/name",
        "/dataVolume/name",
        "/persistentVolumeClaim/claimName",
        "/addVolumeOptions/name",
    ];
    let lists = LISTS
        .iter()
        .filter_map(|list| machine.pointer(list)?.as_array());
    let mut names = BTreeSet::new();
    for volume in lists.flatten() {
        let found = PLACES
            .iter()
            .filter_map(|place| volume.pointer(place)?.as_str());
        for name in found {
            names.insert(name.to_owned());
            names.extend(name.strip_prefix("disk-").map(str::to_owned));
        }
    }
    names
}
