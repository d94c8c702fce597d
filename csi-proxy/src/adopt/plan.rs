//! The next step of each volume that is adopted, from what both APIs say now.
//!
//! In this order, each when the one before is seen to be done:
//! 1. the tenant cluster's old PersistentVolume is kept without a claim (Retain),
//! 2. so is the management cluster's, and it is marked with the claim that is to have it,
//! 3. our PersistentVolume is made in the tenant cluster, and keeps the tenant's claim,
//! 4. the DataVolume goes, then the old claim of the management cluster,
//! 5. its PersistentVolume is reserved for our claim, which is made, and bound by Kubernetes,
//! 6. it gets its reclaim policy back,
//! 7. the tenant's claim goes, and is made anew, and bound,
//! 8. our PersistentVolume gets the reclaim policy of the old one, which goes.
//!
//! Nothing is remembered: whoever begins anew at any step goes on from there. Everything in the tenant
//! cluster may be written by the tenant, so nothing there proves whose storage in the management cluster
//! is: labels of the old claim do, and the mark that step 2 leaves.
//!
//! Invariant: pure. What is deleted is never the last way to the data: see [`Write::Delete`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::observed::{
    Observed, annotation, claim_at, claim_ref, csi, find, is_deleting, is_of, volume_of,
};
use super::{Settings, make};
use crate::names;

mod steps;

/// What the names of the old driver's claims begin with: that of the stock provisioner for volumes.
const HANDLE: &str = "pvc-";
const RETAIN: &str = "Retain";

/// One of the two clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// The tenant cluster.
    Tenant,
    /// The management cluster.
    Management,
}

/// A kind that is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A PersistentVolume.
    Volume,
    /// A claim.
    Claim,
    /// A DataVolume.
    DataVolume,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Changes a PersistentVolume; the patch names the version that it was decided on.
    Volume {
        /// Where.
        cluster: Cluster,
        /// Its name.
        name: String,
        /// Merge patch.
        patch: Value,
    },
    /// Makes a PersistentVolume in the tenant cluster.
    MakeVolume(Box<PersistentVolume>),
    /// Makes a claim.
    MakeClaim(Cluster, Box<PersistentVolumeClaim>),
    /// Deletes one object, and no other version of it. Claims and DataVolumes: while the PersistentVolume
    /// behind is kept without them. PersistentVolumes: the tenant cluster's old one alone, once the claim is
    /// bound to ours.
    Delete {
        /// Where.
        cluster: Cluster,
        /// What.
        kind: Kind,
        /// Which.
        meta: Box<ObjectMeta>,
    },
}

/// What is to happen with a volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// This, which the sentence says.
    Write(&'static str, Write),
    /// Somebody else has to do something first.
    Wait(String),
    /// Nothing, until somebody did what the sentence says.
    Refused(String),
    /// Nothing: it is ours.
    Done,
}

/// One volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its PersistentVolume in the tenant cluster: the old one, or ours once that is gone.
    pub volume: String,
    /// Namespace and name of the tenant's claim.
    pub claim: String,
    /// Name of its claim in the tenant namespace.
    pub id: String,
    /// What is to happen.
    pub next: Next,
}

/// Everything that belongs to one volume of the old driver.
struct Subject<'a> {
    observed: &'a Observed,
    settings: &'a Settings,
    /// The old driver's name of it, and of its claim in the management cluster.
    handle: String,
    /// Our name of it.
    id: String,
    /// The tenant cluster's PersistentVolumes of the old driver with this handle; one, if all is well.
    old: Vec<&'a PersistentVolume>,
    /// The one of ours.
    new: Option<&'a PersistentVolume>,
}

/// All volumes of the old driver, and those that are ours already, each with what is to happen.
#[must_use]
pub fn plan(observed: &Observed, settings: &Settings) -> Vec<Line> {
    let mut subjects: BTreeMap<String, Subject<'_>> = BTreeMap::new();
    let mut lines = Vec::new();
    let new = |handle: &str| Subject {
        observed,
        settings,
        handle: handle.to_owned(),
        id: names::volume(handle),
        old: Vec::new(),
        new: None,
    };
    for volume in &observed.tenant.volumes {
        let Some(source) = csi(volume) else { continue };
        let (driver, handle) = (source.driver.as_str(), source.volume_handle.as_str());
        if driver == settings.driver {
            if is_handle(handle) {
                let subject = subjects.entry(handle.to_owned());
                subject.or_insert_with(|| new(handle)).old.push(volume);
            } else {
                lines.push(Line {
                    volume: volume.name_any(),
                    claim: place(claim_ref(volume)),
                    id: String::new(),
                    next: Next::Refused(format!(
                        "its volumeHandle {handle:?} is not how the driver calls claims; it begins with \
                         {HANDLE} and is a DNS label of at most 59 characters"
                    )),
                });
            }
        } else if is_ours(volume, settings) {
            let handle = handle.strip_prefix(names::PREFIX).unwrap_or(handle);
            let subject = subjects.entry(handle.to_owned());
            subject.or_insert_with(|| new(handle)).new = Some(volume);
        }
    }
    lines.extend(subjects.values().map(Subject::line));
    lines.sort_by(|a, b| (&a.claim, &a.volume).cmp(&(&b.claim, &b.volume)));
    lines
}

/// Whether the old driver calls claims so, and ours can call one after it.
fn is_handle(handle: &str) -> bool {
    let id = names::volume(handle);
    handle.len() > HANDLE.len()
        && handle.starts_with(HANDLE)
        && names::is_volume(&id)
        && id.strip_prefix(names::PREFIX) == Some(handle)
}

/// Whether a PersistentVolume is one that was made when a volume of this driver was adopted.
fn is_ours(volume: &PersistentVolume, settings: &Settings) -> bool {
    let from = annotation(&volume.metadata, names::ANNOTATION_ADOPTED_FROM);
    csi(volume).is_some_and(|csi| {
        let id = csi.volume_handle.as_str();
        csi.driver == names::DRIVER
            && id == volume.name_any()
            && id.strip_prefix(names::PREFIX).is_some_and(is_handle)
    }) && from == Some(&settings.driver)
}

fn place(of: Option<&ObjectReference>) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    of.map_or_else(String::new, |of| {
        format!("{}/{}", part(&of.namespace), part(&of.name))
    })
}

/// Where the tenant's claim is.
enum Place<'a> {
    /// It is on the old PersistentVolume.
    Old(&'a PersistentVolumeClaim),
    /// It is to have ours.
    New(&'a PersistentVolumeClaim),
    /// There is none of its name.
    Gone,
    /// There is one of its name, and it is on neither.
    Other,
}

impl<'a> Subject<'a> {
    fn line(&self) -> Line {
        let volume = self.old.first().copied().or(self.new);
        Line {
            volume: volume.map(|volume| volume.name_any()).unwrap_or_default(),
            claim: place(volume.and_then(claim_ref)),
            id: format!("{}/{}", self.settings.to.namespace, self.id),
            next: self.next().unwrap_or_else(Next::Refused),
        }
    }

    /// What is to happen, or why nothing can.
    fn next(&self) -> Result<Next, String> {
        let old = match self.old[..] {
            [] => None,
            [one] => Some(one),
            _ => {
                let all: Vec<_> = self.old.iter().map(|one| one.name_any()).collect();
                return Err(format!(
                    "PersistentVolumes {} all have the volumeHandle {}; delete those that no claim is bound \
                     to, after setting their persistentVolumeReclaimPolicy to Retain",
                    all.join(", "),
                    self.handle
                ));
            }
        };
        let place = self.claim(old)?;
        match (&place, self.new) {
            (Place::Other, _) => {
                return Err(format!(
                    "claim {} was made anew by somebody and is not bound to the volume, which is kept; delete \
                     that claim when nothing needs what is in it, and run this again",
                    place_of(old, self.new)
                ));
            }
            (Place::New(claim), new) => return self.finish(old, new, claim),
            // The tenant deleted the claim afterwards, as one may.
            (Place::Gone, Some(new))
                if annotation(&new.metadata, names::ANNOTATION_ADOPT_CLAIM).is_none() =>
            {
                return self.leave(old);
            }
            _ => {}
        }
        if let (Place::Old(claim), Some(old)) = (&place, old)
            && !is_deleting(&claim.metadata)
        {
            self.unused(old, claim)?;
        }
        if self.new.is_none() {
            self.can_begin(old, &place)?;
        }
        self.step(old, &place)
    }

    /// Where the tenant's claim is.
    fn claim(&self, old: Option<&PersistentVolume>) -> Result<Place<'a>, String> {
        let of = |volume: Option<&PersistentVolume>| {
            let of = volume.and_then(claim_ref)?;
            Some((of.namespace.clone()?, of.name.clone()?))
        };
        let (before, after) = (of(old), of(self.new));
        if let (Some(before), Some(after)) = (&before, &after)
            && before != after
        {
            return Err(format!(
                "PersistentVolume {} is for claim {}/{}, and the one that it is adopted as for {}/{}; delete \
                 PersistentVolume {} if it is not wanted",
                self.handle, before.0, before.1, after.0, after.1, self.id
            ));
        }
        let Some((namespace, name)) = after.or(before) else {
            return Err(
                "no claim has it; nothing of it is brought over, and it stays as it is".to_owned(),
            );
        };
        let Some(claim) = claim_at(&self.observed.tenant.claims, &namespace, &name) else {
            return Ok(Place::Gone);
        };
        if volume_of(claim) == self.id {
            return Ok(Place::New(claim));
        }
        let on_old = old.is_some_and(|old| volume_of(claim) == old.name_any() && is_of(old, claim));
        Ok(if on_old {
            Place::Old(claim)
        } else {
            Place::Other
        })
    }

    /// Whether nobody in the tenant cluster uses it.
    fn unused(&self, old: &PersistentVolume, claim: &PersistentVolumeClaim) -> Result<(), String> {
        let tenant = &self.observed.tenant;
        let name = old.name_any();
        if let Some(pod) = self.pod(claim) {
            return Err(format!(
                "pod {pod} uses it; scale down what that pod belongs to, and run this again"
            ));
        }
        let attached = tenant
            .attachments
            .iter()
            .find(|a| a.spec.source.persistent_volume_name.as_ref() == Some(&name));
        match attached {
            Some(attachment) => Err(format!(
                "it is attached to node {}; scale down what uses it, wait until VolumeAttachment {} is gone \
                 (the old driver has to run for that), and run this again",
                attachment.spec.node_name,
                attachment.name_any()
            )),
            None => Ok(()),
        }
    }

    /// A pod that has the tenant's claim.
    fn pod(&self, claim: &PersistentVolumeClaim) -> Option<String> {
        let mut pods = self.observed.tenant.pods.iter();
        let pod = pods.find(|pod| {
            pod.namespace() == claim.namespace()
                && super::observed::claims_of(pod).contains(&claim.name_any())
        })?;
        Some(format!(
            "{}/{}",
            pod.namespace().unwrap_or_default(),
            pod.name_any()
        ))
    }

    /// Whether nobody in the management cluster has the old claim.
    fn unplugged(&self) -> Result<(), String> {
        match self.observed.management.users.get(&self.handle) {
            Some(users) if !users.is_empty() => {
                let users: Vec<_> = users.iter().map(String::as_str).collect();
                Err(format!(
                    "in namespace {} of the management cluster {} has it; take it out there (virtctl \
                     removevolume), or wait until it is gone, and run this again",
                    self.settings.namespace,
                    users.join(", ")
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether a volume of which nothing was moved yet may be.
    fn can_begin(&self, old: Option<&PersistentVolume>, place: &Place<'_>) -> Result<(), String> {
        let foreign = find(&self.observed.tenant.volumes, &self.id);
        if foreign.is_some() {
            return Err(format!(
                "a PersistentVolume {} is there that was not made for it; delete that one, or rename it",
                self.id
            ));
        }
        let (Some(old), Place::Old(claim)) = (old, place) else {
            return Err(format!(
                "claim {} is not there any more; make a claim of this name with volumeName {}, let it be \
                 bound (remove claimRef.uid), and run this again",
                place_of(old, self.new),
                old.map(|volume| volume.name_any()).unwrap_or_default()
            ));
        };
        if is_deleting(&old.metadata) || is_deleting(&claim.metadata) {
            return Err("it is being deleted".to_owned());
        }
        let mut owners = claim.metadata.owner_references.iter().flatten();
        if let Some(pod) = owners.find(|owner| owner.kind == "Pod") {
            return Err(format!(
                "its claim belongs to pod {} and goes with it; volumes of this sort are not for keeping",
                pod.name
            ));
        }
        let spec = claim.spec.clone().unwrap_or_default();
        if spec
            .volume_attributes_class_name
            .is_some_and(|name| !name.is_empty())
        {
            return Err(
                "its claim has a volumeAttributesClassName, which our driver does not know; take it off"
                    .to_owned(),
            );
        }
        let asked = make::bytes(spec.resources.and_then(|r| r.requests).as_ref());
        let has = make::bytes(old.spec.as_ref().and_then(|s| s.capacity.as_ref()));
        if asked > has {
            return Err(format!(
                "its claim asks for {asked} bytes and it has {has}; wait until it has grown, or ask for \
                 less, and run this again"
            ));
        }
        Ok(())
    }
}

/// Namespace and name of the claim, for sentences.
fn place_of(old: Option<&PersistentVolume>, new: Option<&PersistentVolume>) -> String {
    place(old.or(new).and_then(claim_ref))
}

/// A merge patch of this very version of an object.
fn version(meta: &ObjectMeta) -> Value {
    json!({ "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version } })
}

#[cfg(test)]
mod tests;
