//! Two clusters played in memory: what Kubernetes, CDI, storage, and both drivers do with volumes that the
//! plan changes.
//!
//! Invariant: whoever loses its claim is reclaimed as its policy says, by whoever would do it; what was
//! lost once stays lost.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::adopt::observed::{Observed, claim_ref, claims_of, csi, policy, volume_of};
use crate::adopt::plan::{Cluster, Kind, Write, plan};
use crate::adopt::{Settings, make};
use crate::names;
use crate::settings::{Class, Offer};

/// Namespace of the old driver's claims, and ours.
pub(super) const OLD: &str = "old";
pub(super) const NEW: &str = "tenant-demo";

pub(super) fn settings() -> Settings {
    let class = |name: &str, storage_class: &str| Class {
        name: name.to_owned(),
        storage_class: storage_class.to_owned(),
        expandable: true,
        ..Class::default()
    };
    Settings {
        driver: crate::adopt::DRIVER.to_owned(),
        namespace: OLD.to_owned(),
        labels: [("csi-driver/cluster".to_owned(), "demo".to_owned())].into(),
        classes: Default::default(),
        to: crate::settings::Settings {
            namespace: NEW.to_owned(),
            cluster_uid: "uid-of-demo".to_owned(),
            offer: Offer {
                classes: vec![class("fast", "ceph"), class("slow", "nfs")],
                ..Offer::default()
            },
            patience: crate::settings::PATIENCE,
            most_volumes: 64,
        },
    }
}

pub(super) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(super) struct Sim {
    pub(super) observed: Observed,
    /// Storage that is gone for ever.
    pub(super) lost: BTreeSet<String>,
    /// Everything that was deleted on behalf of the plan.
    pub(super) deleted: Vec<String>,
    next: u64,
}

impl Sim {
    pub(super) fn new(volumes: usize) -> Self {
        let mut sim = Self {
            observed: Observed::default(),
            lost: BTreeSet::new(),
            deleted: Vec::new(),
            next: 0,
        };
        for number in 0..volumes {
            sim.volume(number);
        }
        sim
    }

    fn meta(&mut self, meta: &mut ObjectMeta) {
        self.next += 1;
        meta.uid.get_or_insert_with(|| format!("u{}", self.next));
        meta.resource_version = Some(self.next.to_string());
    }

    /// A volume of the old driver as it leaves it, with its claim.
    pub(super) fn volume(&mut self, number: usize) {
        let handle = format!("pvc-{number}");
        let bound = |uid: &str, ns: &str, name: &str| json!({ "kind": "PersistentVolumeClaim", "namespace": ns, "name": name, "uid": uid });
        let (data, source) = (format!("data-{number}"), format!("s{number}"));
        let mut tenant: PersistentVolume = object(json!({
            "metadata": { "name": handle, "uid": format!("old-{number}") },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
                "claimRef": bound(&format!("c{number}"), "default", &data),
                "csi": { "driver": crate::adopt::DRIVER, "volumeHandle": handle, "fsType": "ext4",
                    "volumeAttributes": { "bus": "scsi", "serial": "0a1b" } },
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "kubevirt",
                "volumeMode": "Filesystem",
            },
            "status": { "phase": "Bound" },
        }));
        let mut claim: PersistentVolumeClaim = object(json!({
            "metadata": {
                "name": data, "namespace": "default", "uid": format!("c{number}"),
                "labels": { "app": "db" },
                "annotations": { "pv.kubernetes.io/bind-completed": "yes", "team": "one" },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "kubevirt",
                "volumeMode": "Filesystem", "volumeName": handle,
                "resources": { "requests": { "storage": "1Gi" } },
            },
            "status": { "phase": "Bound" },
        }));
        let mut store: PersistentVolume = object(json!({
            "metadata": { "name": format!("store-{number}") },
            "spec": {
                "accessModes": ["ReadWriteMany"], "capacity": { "storage": "1100Mi" },
                "claimRef": bound(&source, OLD, &handle),
                "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "ceph",
                "volumeMode": "Block",
            },
        }));
        let mut old: PersistentVolumeClaim = object(json!({
            "metadata": {
                "name": handle, "namespace": OLD, "uid": source,
                "labels": { "csi-driver/cluster": "demo" },
            },
            "spec": {
                "accessModes": ["ReadWriteMany"], "storageClassName": "ceph", "volumeMode": "Block",
                "volumeName": format!("store-{number}"),
                "resources": { "requests": { "storage": "1100Mi" } },
            },
            "status": { "phase": "Bound" },
        }));
        let mut owner: ObjectMeta = object(json!({ "name": handle, "namespace": OLD }));
        for meta in [
            &mut tenant.metadata,
            &mut claim.metadata,
            &mut store.metadata,
            &mut old.metadata,
            &mut owner,
        ] {
            self.meta(meta);
        }
        self.observed.tenant.volumes.push(tenant);
        self.observed.tenant.claims.push(claim);
        self.observed.management.volumes.push(store);
        self.observed.management.old_claims.push(old);
        self.observed.management.data_volumes.push(owner);
    }

    pub(super) fn volumes(&mut self, cluster: Cluster) -> &mut Vec<PersistentVolume> {
        match cluster {
            Cluster::Tenant => &mut self.observed.tenant.volumes,
            Cluster::Management => &mut self.observed.management.volumes,
        }
    }

    fn claims(&mut self, cluster: Cluster, namespace: &str) -> &mut Vec<PersistentVolumeClaim> {
        match cluster {
            Cluster::Tenant => &mut self.observed.tenant.claims,
            Cluster::Management if namespace == OLD => &mut self.observed.management.old_claims,
            Cluster::Management => &mut self.observed.management.claims,
        }
    }

    /// Sends a request; nothing comes of one that is out of date.
    pub(super) fn send(&mut self, write: &Write) {
        match write {
            Write::Volume {
                cluster,
                name,
                patch,
            } => {
                let mut version = ObjectMeta::default();
                self.meta(&mut version);
                let all = self.volumes(*cluster);
                let Some(volume) = all.iter_mut().find(|one| one.name_any() == *name) else {
                    return;
                };
                if is_version(&volume.metadata, &patch["metadata"]) {
                    merge(volume, patch);
                    volume.metadata.resource_version = version.resource_version;
                }
            }
            Write::MakeVolume(volume) => {
                let mut volume = volume.as_ref().clone();
                let there = self
                    .observed
                    .tenant
                    .volumes
                    .iter()
                    .any(|v| v.name_any() == volume.name_any());
                if !there {
                    self.meta(&mut volume.metadata);
                    self.observed.tenant.volumes.push(volume);
                }
            }
            Write::MakeClaim(cluster, claim) => self.make_claim(*cluster, claim),
            Write::Delete {
                cluster,
                kind,
                meta,
            } => self.delete(*cluster, *kind, meta),
        }
    }

    pub(super) fn make_claim(&mut self, cluster: Cluster, claim: &PersistentVolumeClaim) {
        let mut claim = claim.clone();
        self.meta(&mut claim.metadata);
        let all = self.claims(cluster, &claim.namespace().unwrap());
        let same = |one: &PersistentVolumeClaim| {
            (one.namespace(), one.name_any()) == (claim.namespace(), claim.name_any())
        };
        if !all.iter().any(same) {
            all.push(claim);
        }
    }

    fn delete(&mut self, cluster: Cluster, kind: Kind, meta: &ObjectMeta) {
        self.deleted
            .push(format!("{kind:?} {}", meta.name.clone().unwrap()));
        let of = serde_json::to_value(meta).unwrap();
        let begin = |one: &mut ObjectMeta| {
            if one.name == meta.name && is_version(one, &of) {
                one.deletion_timestamp = Some(Time(Default::default()));
            }
        };
        match kind {
            Kind::Volume => self
                .volumes(cluster)
                .iter_mut()
                .for_each(|v| begin(&mut v.metadata)),
            Kind::Claim => {
                let namespace = meta.namespace.clone().unwrap();
                let all = self.claims(cluster, &namespace);
                all.iter_mut().for_each(|c| begin(&mut c.metadata));
            }
            Kind::DataVolume => {
                self.observed
                    .management
                    .data_volumes
                    .iter_mut()
                    .for_each(begin);
            }
        }
    }

    /// Lets everybody but the plan come to rest.
    pub(super) fn rest(&mut self) {
        loop {
            let before = self.observed.clone();
            (0..5).for_each(|who| self.act(who));
            if before == self.observed {
                return;
            }
        }
    }

    /// Lets one of the others act.
    pub(super) fn act(&mut self, who: u8) {
        match who % 5 {
            0 => self.bind(Cluster::Tenant),
            1 => self.bind(Cluster::Management),
            2 => self.collect(),
            3 => self.reclaim_inside(),
            _ => self.reclaim_outside(),
        }
    }

    fn all_claims(&self, cluster: Cluster) -> Vec<PersistentVolumeClaim> {
        match cluster {
            Cluster::Tenant => self.observed.tenant.claims.clone(),
            Cluster::Management => {
                let management = &self.observed.management;
                [management.old_claims.clone(), management.claims.clone()].concat()
            }
        }
    }

    /// Kubernetes binds claims to the volume that they name, if it suits and is for them.
    fn bind(&mut self, cluster: Cluster) {
        for claim in self.all_claims(cluster) {
            let suits = |volume: &PersistentVolume| {
                let (have, want) = (volume.spec.clone().unwrap(), claim.spec.clone().unwrap());
                let Some(of) = have.claim_ref else {
                    return false;
                };
                let modes = have.access_modes.unwrap();
                volume.name_any() == volume_of(&claim)
                    && volume.metadata.deletion_timestamp.is_none()
                    && (of.namespace, of.name) == (claim.namespace(), claim.metadata.name.clone())
                    && (of.uid.is_none() || of.uid == claim.metadata.uid)
                    && have.storage_class_name == want.storage_class_name
                    && have.volume_mode == want.volume_mode
                    && want
                        .access_modes
                        .unwrap()
                        .iter()
                        .all(|mode| modes.contains(mode))
                    && make::bytes(have.capacity.as_ref())
                        >= make::bytes(want.resources.unwrap().requests.as_ref())
            };
            let mut version = ObjectMeta::default();
            self.meta(&mut version);
            let Some(volume) = self
                .volumes(cluster)
                .iter_mut()
                .find(|volume| suits(volume))
            else {
                continue;
            };
            let of = volume.spec.as_mut().unwrap().claim_ref.as_mut().unwrap();
            if of.uid.is_none() {
                of.uid = claim.metadata.uid.clone();
                volume.metadata.resource_version = version.resource_version;
            }
            let all = self.claims(cluster, &claim.namespace().unwrap());
            let there = all
                .iter_mut()
                .find(|c| c.metadata.uid == claim.metadata.uid)
                .unwrap();
            let status = there.status.get_or_insert_default();
            status.phase = Some("Bound".to_owned());
        }
    }

    /// What is being deleted goes, unless it is in use; claims go with their DataVolume.
    fn collect(&mut self) {
        let gone = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        let pods: Vec<_> = self
            .observed
            .tenant
            .pods
            .iter()
            .flat_map(claims_of)
            .collect();
        self.observed
            .tenant
            .claims
            .retain(|c| !gone(&c.metadata) || pods.contains(&c.name_any()));
        self.observed.tenant.volumes.retain(|v| !gone(&v.metadata));
        let management = &mut self.observed.management;
        let owners: Vec<_> = management
            .data_volumes
            .iter()
            .filter(|m| gone(m))
            .cloned()
            .collect();
        management.data_volumes.retain(|m| !gone(m));
        let users = &management.users;
        management.old_claims.retain(|claim| {
            let owned = owners.iter().any(|owner| owner.name == claim.metadata.name);
            !(owned || gone(&claim.metadata)) || users.contains_key(&claim.name_any())
        });
        management.claims.retain(|claim| !gone(&claim.metadata));
    }

    fn without_claim(&self, cluster: Cluster) -> Vec<PersistentVolume> {
        let claims = self.all_claims(cluster);
        let volumes = match cluster {
            Cluster::Tenant => &self.observed.tenant.volumes,
            Cluster::Management => &self.observed.management.volumes,
        };
        let lone = volumes.iter().filter(|volume| {
            let uid = claim_ref(volume).and_then(|of| of.uid.clone());
            uid.is_some() && !claims.iter().any(|claim| claim.metadata.uid == uid)
        });
        lone.filter(|volume| policy(volume) == "Delete")
            .cloned()
            .collect()
    }

    /// Both drivers take volumes of the tenant cluster back.
    fn reclaim_inside(&mut self) {
        for volume in self.without_claim(Cluster::Tenant) {
            let source = csi(&volume).unwrap();
            let management = &mut self.observed.management;
            let handle = Some(&source.volume_handle);
            if source.driver == names::DRIVER {
                management
                    .claims
                    .retain(|claim| claim.metadata.name.as_ref() != handle);
            } else {
                management
                    .data_volumes
                    .retain(|meta| meta.name.as_ref() != handle);
                management
                    .old_claims
                    .retain(|claim| claim.metadata.name.as_ref() != handle);
            }
            self.observed
                .tenant
                .volumes
                .retain(|one| one.name_any() != volume.name_any());
        }
    }

    /// Storage takes volumes of the management cluster back, and what was in them is gone.
    fn reclaim_outside(&mut self) {
        for volume in self.without_claim(Cluster::Management) {
            self.lost.insert(volume.name_any());
            let name = volume.name_any();
            self.observed
                .management
                .volumes
                .retain(|one| one.name_any() != name);
        }
    }

    /// A pod that uses a claim of the tenant cluster, and what follows from it.
    pub(super) fn pod(&mut self, claim: &str, volume: &str) {
        let pod: Pod = object(json!({
            "metadata": { "name": format!("pod-{claim}"), "namespace": "default" },
            "spec": { "containers": [], "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": claim } },
            ] },
        }));
        self.observed.tenant.pods.push(pod);
        let attachment: VolumeAttachment = object(json!({
            "metadata": { "name": format!("csi-{volume}") },
            "spec": { "attacher": "any", "nodeName": "n1", "source": { "persistentVolumeName": volume } },
        }));
        self.observed.tenant.attachments.push(attachment);
    }

    pub(super) fn scale_down(&mut self) {
        self.observed.tenant.pods.clear();
        self.observed.tenant.attachments.clear();
    }

    /// The volume in the tenant cluster with this name.
    pub(super) fn inside(&mut self, name: &str) -> &mut PersistentVolume {
        let found = self
            .observed
            .tenant
            .volumes
            .iter_mut()
            .find(|v| v.name_any() == name);
        found.unwrap()
    }

    /// Goes on until nothing is written and everybody is at rest; how many writes there were.
    pub(super) fn run(&mut self, settings: &Settings) -> usize {
        let mut writes = 0;
        loop {
            self.rest();
            let lines = plan(&self.observed, settings);
            let before = writes;
            for line in lines {
                if let crate::adopt::plan::Next::Write(_, write) = line.next {
                    self.send(&write);
                    writes += 1;
                }
            }
            if writes == before {
                return writes;
            }
            assert!(writes < 500, "it does not come to rest");
        }
    }
}

fn is_version(meta: &ObjectMeta, wanted: &Value) -> bool {
    let meta = serde_json::to_value(meta).unwrap();
    meta["uid"] == wanted["uid"] && meta["resourceVersion"] == wanted["resourceVersion"]
}

/// RFC 7396.
fn merge<K: Resource + Serialize + DeserializeOwned>(object: &mut K, patch: &Value) {
    fn into(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        for (key, value) in patch {
            match value {
                Value::Null => {
                    target.as_object_mut().unwrap().remove(key);
                }
                value => into(&mut target[key], value),
            }
        }
    }
    let mut value = serde_json::to_value(&*object).unwrap();
    into(&mut value, patch);
    *object = serde_json::from_value(value).unwrap();
}
