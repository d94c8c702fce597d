//! Objects of the cache: of claims, virtual machines, instances and snapshots as much as decisions
//! need.
//!
//! Invariant: reading one of them never fails; what is missing reads as none.

use std::collections::{BTreeMap, BTreeSet};

use api::foreign::kubevirt::virtual_machine::{
    VirtualMachineTemplateSpecDomainDevicesDisks, VirtualMachineTemplateSpecVolumes,
};
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::names::LABEL_TENANT_UID;
use api::storage::{Class, MOST_DISKS, Offer};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};

use crate::names;

/// Which state of an object this is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// UID.
    pub uid: String,
    /// As the API wrote it.
    pub text: String,
    /// The same as a number, to compare (KEP-5504: versions of one resource are ordered).
    pub number: u64,
}

impl Version {
    fn of(meta: &ObjectMeta) -> Self {
        let text = meta.resource_version.clone().unwrap_or_default();
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            number: text.parse().unwrap_or(0),
            text,
        }
    }
}

/// Who is to have a volume, and who may have it: annotations of the claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Machines that are to have it.
    pub wanted: BTreeSet<String>,
    /// Machines that may have it; all of `wanted` among them.
    pub held: BTreeSet<String>,
    /// Attached so that it can only be read.
    pub read_only: bool,
}

/// What a volume can be made of, by identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Another volume.
    Volume(String),
    /// A snapshot.
    Snapshot(String),
}

/// A snapshot of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Name of the VolumeSnapshot.
    pub id: String,
    /// Which state of it.
    pub version: Version,
    /// Under which name the tenant cluster asked for it.
    pub name: String,
    /// The volume that it is of.
    pub volume: String,
    /// StorageClass of that volume.
    pub storage_class: String,
    /// Bytes that a volume made of it has at least; 0 until that is known.
    pub size: i64,
    /// When it was cut; none until it is.
    pub created: Option<jiff::Timestamp>,
    /// A volume can be made of it.
    pub ready: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// What the management cluster complains about.
    pub complaint: Option<String>,
}

impl Snapshot {
    /// Where VolumeSnapshots are.
    #[must_use]
    pub fn resource() -> ApiResource {
        let group = names::SNAPSHOT_GROUP;
        ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: names::SNAPSHOT_KIND.to_owned(),
            plural: "volumesnapshots".to_owned(),
        }
    }

    /// Reads a VolumeSnapshot; none when it is not of this tenant cluster.
    #[must_use]
    pub fn read(object: &DynamicObject, cluster_uid: &str) -> Option<Self> {
        let label = |key: &str| object.labels().get(key).map(String::as_str);
        let id = object.name_any();
        let ours = label(LABEL_TENANT_UID) == Some(cluster_uid)
            && label(api::names::LABEL_COMPONENT) == Some(names::SNAPSHOT_COMPONENT)
            && names::is_snapshot(&id);
        if !ours {
            return None;
        }
        let annotation = |key: &str| object.annotations().get(key).cloned().unwrap_or_default();
        let (spec, status) = (&object.data["spec"], &object.data["status"]);
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let created = status["creationTime"].as_str();
        Some(Self {
            id,
            version: Version::of(&object.metadata),
            name: annotation(names::ANNOTATION_NAME),
            volume: text(&spec["source"]["persistentVolumeClaimName"]).unwrap_or_default(),
            storage_class: annotation(names::ANNOTATION_STORAGE_CLASS),
            size: status["restoreSize"]
                .as_str()
                .and_then(kit_objects::quantity::bytes)
                .unwrap_or(0),
            created: created.and_then(|time| time.parse().ok()),
            ready: status["readyToUse"] == true,
            deleting: object.metadata.deletion_timestamp.is_some(),
            complaint: text(&status["error"]["message"]),
        })
    }
}

/// A claim of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Name of the claim.
    pub id: String,
    /// Which state of it.
    pub version: Version,
    /// Under which name the tenant cluster asked for it.
    pub name: String,
    /// StorageClass in the management cluster.
    pub storage_class: String,
    /// Name of the class that it was made of; none of one that was made before that was written down.
    pub class: Option<String>,
    /// Several machines may have it.
    pub shared: bool,
    /// What it was made of, if it was.
    pub source: Option<Origin>,
    /// Bytes asked for.
    pub requested: i64,
    /// Bytes that there are; 0 until it is bound.
    pub capacity: i64,
    /// There is storage behind it.
    pub bound: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// It is larger already, but whoever uses it has to see it first.
    pub resizing: bool,
    /// Storage said that it can never have as many bytes as are asked for now.
    pub infeasible: bool,
    /// VolumeAttributesClass that it is to have.
    pub attributes: Option<String>,
    /// The one that it has.
    pub current_attributes: Option<String>,
    /// Storage said that it can never have the one that it is to have.
    pub attributes_infeasible: bool,
    /// Who is to have it, and who may.
    pub holders: Holders,
}

impl Volume {
    /// Reads a claim; none when it is not a volume of this tenant cluster.
    #[must_use]
    pub fn read(claim: &PersistentVolumeClaim, cluster_uid: &str) -> Option<Self> {
        let label = |key: &str| claim.labels().get(key).map(String::as_str);
        let id = claim.name_any();
        let ours = label(LABEL_TENANT_UID) == Some(cluster_uid)
            && label(api::names::LABEL_COMPONENT) == Some(names::COMPONENT)
            && names::is_volume(&id);
        if !ours {
            return None;
        }
        let annotation = |key: &str| claim.annotations().get(key).map_or("", String::as_str);
        let list = |key: &str| {
            let names = annotation(key).split(',').filter(|name| !name.is_empty());
            names.map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let spec = claim.spec.clone().unwrap_or_default();
        let status = claim.status.clone().unwrap_or_default();
        let attributes = spec.volume_attributes_class_name;
        let modify = status.modify_volume_status.as_ref();
        let modes = spec.access_modes.unwrap_or_default();
        let requested = bytes(spec.resources.and_then(|r| r.requests).as_ref());
        let (wanted, mut held) = (list(names::ANNOTATION_WANTED), list(names::ANNOTATION_HELD));
        held.extend(wanted.iter().cloned());
        Some(Self {
            version: Version::of(&claim.metadata),
            name: annotation(names::ANNOTATION_NAME).to_owned(),
            storage_class: spec.storage_class_name.unwrap_or_default(),
            class: claim.annotations().get(names::ANNOTATION_CLASS).cloned(),
            source: spec.data_source.map(|source| match source.kind.as_str() {
                names::SNAPSHOT_KIND => Origin::Snapshot(source.name),
                _ => Origin::Volume(source.name),
            }),
            shared: modes.iter().any(|mode| mode == "ReadWriteMany"),
            requested,
            // What storage said of another size does not count any more (KEP-1790).
            infeasible: bytes(status.allocated_resources.as_ref()) == requested
                && status
                    .allocated_resource_statuses
                    .iter()
                    .flatten()
                    .any(|(what, how)| what == "storage" && how.ends_with("Infeasible")),
            // Of another one it does not count any more (KEP-3751).
            attributes_infeasible: modify.is_some_and(|modify| {
                modify.status == "Infeasible"
                    && modify.target_volume_attributes_class_name == attributes
            }),
            attributes,
            current_attributes: status.current_volume_attributes_class_name.clone(),
            capacity: bytes(status.capacity.as_ref()),
            bound: status.phase.as_deref() == Some("Bound"),
            deleting: claim.metadata.deletion_timestamp.is_some(),
            resizing: status.conditions.into_iter().flatten().any(|condition| {
                condition.type_ == "FileSystemResizePending" && condition.status == "True"
            }),
            holders: Holders {
                wanted,
                held,
                read_only: annotation(names::ANNOTATION_READ_ONLY) == "true",
            },
            id,
        })
    }

    /// The class that it was made of, if that is still offered; of one that does not say, the first
    /// with its StorageClass.
    #[must_use]
    pub fn class_in<'a>(&self, offer: &'a Offer) -> Option<&'a Class> {
        match &self.class {
            Some(name) => {
                let class = offer.class(Some(name));
                class.filter(|class| class.storage_class == self.storage_class)
            }
            None => offer.of_storage_class(&self.storage_class),
        }
    }

    /// What the tenant cluster calls its class, given the one that [`Self::class_in`] finds. The
    /// management cluster's StorageClass is not for tenants to read.
    #[must_use]
    pub fn class_name<'a>(&'a self, class: Option<&'a Class>) -> &'a str {
        let name = class.map(|class| class.name.as_str());
        let name = name.or(self.class.as_deref());
        name.unwrap_or("(not offered any more)")
    }

    /// Bytes that it has, or will have as far as that is known.
    #[must_use]
    pub fn size(&self) -> i64 {
        if self.capacity > 0 {
            self.capacity
        } else {
            self.requested
        }
    }
}

/// Of a list of amounts, that of storage; 0 when there is none.
fn bytes(amounts: Option<&BTreeMap<String, Quantity>>) -> i64 {
    let amount = amounts.and_then(|amounts| amounts.get("storage"));
    amount
        .and_then(|amount| kit_objects::quantity::bytes(&amount.0))
        .unwrap_or(0)
}

/// A volume in the template of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Its name there.
    pub name: String,
    /// The claim, if it is one.
    pub claim: Option<String>,
    /// Whether it can be taken out of a running machine.
    pub hotplugged: bool,
}

/// A disk in the template of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Name of the volume that it shows.
    pub name: String,
    /// Serial number.
    pub serial: String,
    /// It can only be read.
    pub read_only: bool,
}

/// A virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its name, and that of its node.
    pub name: String,
    /// Which state of it.
    pub version: Version,
    /// It is being deleted.
    pub deleting: bool,
    /// In the order of the template; none when the template has no such list.
    pub slots: Option<Vec<Slot>>,
    /// In the order of the template; none when the template has no such list.
    pub disks: Option<Vec<Disk>>,
    /// Names of volumes that KubeVirt was asked to add, and has not yet.
    pub adding: BTreeSet<String>,
    /// Names of volumes that KubeVirt was asked to remove, and has not yet.
    pub removing: BTreeSet<String>,
}

impl Machine {
    /// Reads a virtual machine.
    #[must_use]
    pub fn read(vm: &VirtualMachine) -> Self {
        let template = vm.spec.template.spec.as_ref();
        let slot = |volume: &VirtualMachineTemplateSpecVolumes| {
            let claim = volume.persistent_volume_claim.as_ref();
            Slot {
                name: volume.name.clone(),
                claim: claim.map(|c| c.claim_name.clone()),
                hotplugged: claim.is_some_and(|c| c.hotpluggable == Some(true)),
            }
        };
        let disk = |disk: &VirtualMachineTemplateSpecDomainDevicesDisks| Disk {
            name: disk.name.clone(),
            serial: disk.serial.clone().unwrap_or_default(),
            read_only: disk.disk.as_ref().is_some_and(|d| d.readonly == Some(true)),
        };
        let slots = template.and_then(|t| t.volumes.as_ref());
        let disks = template.and_then(|t| t.domain.devices.disks.as_ref());
        let requests = vm
            .status
            .iter()
            .flat_map(|s| s.volume_requests.iter().flatten());
        let mut machine = Self {
            name: vm.name_any(),
            version: Version::of(&vm.metadata),
            deleting: vm.metadata.deletion_timestamp.is_some(),
            slots: slots.map(|slots| slots.iter().map(slot).collect()),
            disks: disks.map(|disks| disks.iter().map(disk).collect()),
            ..Self::default()
        };
        for request in requests {
            machine
                .adding
                .extend(request.add_volume_options.iter().map(|o| o.name.clone()));
            let removed = request.remove_volume_options.iter().map(|o| o.name.clone());
            machine.removing.extend(removed);
        }
        machine
    }

    /// Its volumes.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    /// How many volumes of this driver it can have: KubeVirt gives a machine so many disks, and
    /// others have some of them.
    #[must_use]
    pub fn capacity(&self) -> usize {
        let others = self.slots().filter(|slot| !names::is_volume(&slot.name));
        usize::from(MOST_DISKS).saturating_sub(others.count())
    }

    /// The disk that shows a volume.
    #[must_use]
    pub fn disk(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().flatten().find(|disk| disk.name == name)
    }

    /// Whether its template, or what KubeVirt was asked to do with it, has this claim.
    #[must_use]
    pub fn has(&self, claim: &str) -> bool {
        self.adding.contains(claim)
            || self
                .slots()
                .any(|slot| slot.claim.as_deref() == Some(claim) || slot.name == claim)
    }
}

/// How far KubeVirt is with one volume of an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// KubeVirt's word: `Pending`, `Bound`, `AttachedToNode`, `MountedToPod`, `Ready`, `Detaching`,
    /// `UnMountedFromPod`.
    pub phase: String,
    /// Why, if KubeVirt says so.
    pub message: String,
}

/// The instance of a virtual machine: what runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its name, which is that of the virtual machine.
    pub name: String,
    /// Which state of it.
    pub version: Version,
    /// It runs.
    pub running: bool,
    /// It ended and lets go of everything.
    pub ended: bool,
    /// Claims in its specification.
    pub claims: BTreeSet<String>,
    /// By the name of the volume.
    pub volumes: BTreeMap<String, Progress>,
}

impl Instance {
    /// Reads an instance.
    #[must_use]
    pub fn read(vmi: &VirtualMachineInstance) -> Self {
        let status = vmi.status.clone().unwrap_or_default();
        let phase = status.phase.as_deref().unwrap_or_default();
        let volumes = vmi.spec.volumes.iter().flatten();
        let claims = volumes.filter_map(|v| v.persistent_volume_claim.as_ref());
        Self {
            name: vmi.name_any(),
            version: Version::of(&vmi.metadata),
            running: phase == "Running",
            ended: matches!(phase, "Succeeded" | "Failed"),
            claims: claims.map(|claim| claim.claim_name.clone()).collect(),
            volumes: status
                .volume_status
                .into_iter()
                .flatten()
                .map(|volume| {
                    let progress = Progress {
                        phase: volume.phase.unwrap_or_default(),
                        message: volume.message.unwrap_or_default(),
                    };
                    (volume.name, progress)
                })
                .collect(),
        }
    }

    /// Whether it has this claim, or may still have it.
    #[must_use]
    pub fn has(&self, claim: &str) -> bool {
        self.claims.contains(claim) || self.volumes.contains_key(claim)
    }

    /// Whether what runs can use this volume.
    #[must_use]
    pub fn is_ready(&self, name: &str) -> bool {
        self.running && self.volumes.get(name).is_some_and(|p| p.phase == "Ready")
    }
}

/// Whether a machine may still write to a volume: by its template, or by what runs, which outlives
/// the virtual machine's object. One that ended cannot.
#[must_use]
pub fn may_write(volume: &str, machine: Option<&Machine>, instance: Option<&Instance>) -> bool {
    machine.is_some_and(|m| m.has(volume)) || instance.is_some_and(|i| !i.ended && i.has(volume))
}
