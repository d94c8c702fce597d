//! Steps of a volume, in their order.
//!
//! Invariant: a step that deletes is behind those that keep what is behind the deleted one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde_json::json;

use super::{Cluster, Kind, Next, Place, RETAIN, Subject, Write, place_of, version};
use crate::adopt::make;
use crate::adopt::observed::{
    annotation, claim_at, claim_ref, find, is_bound, is_deleting, is_of, policy, volume_of,
};
use crate::names;

/// The storage of a volume in the management cluster.
struct Storage<'a> {
    /// Its PersistentVolume.
    volume: &'a PersistentVolume,
    /// The old claim, while there is one.
    source: Option<&'a PersistentVolumeClaim>,
    /// Ours, once there is one.
    target: Option<&'a PersistentVolumeClaim>,
}

impl Storage<'_> {
    /// Whether our claim has it.
    fn is_ours(&self) -> bool {
        let target = self.target.filter(|claim| is_bound(claim));
        target.is_some_and(|claim| is_of(self.volume, claim))
    }
}

impl Subject<'_> {
    /// What comes next while the tenant's claim is not on our PersistentVolume.
    pub(super) fn step(
        &self,
        old: Option<&PersistentVolume>,
        place: &Place<'_>,
    ) -> Result<Next, String> {
        let storage = self.storage()?;
        let known = self.new.or(old).ok_or("it has no PersistentVolume")?;
        let fit = make::fit(&self.handle, known, storage.volume, self.settings)?;
        if storage.source.is_some() {
            self.unplugged()?;
        }
        if let Some(old) = old
            && let Some(next) = keep_old(old)
        {
            return Ok(next);
        }
        if !storage.is_ours()
            && let Some(next) = self.keep_storage(storage.volume)?
        {
            return Ok(next);
        }
        let Some(new) = self.new else {
            let (Some(old), Place::Old(claim)) = (old, place) else {
                return Err("it has no claim any more".to_owned());
            };
            let volume = make::tenant_volume(&self.id, old, claim, &fit.class, self.settings)?;
            return Ok(Next::Write(
                "make our PersistentVolume in the tenant cluster",
                Write::MakeVolume(Box::new(volume)),
            ));
        };
        // It has to be there before the tenant's claim may go.
        let anew = make::tenant_claim(new)?;
        if let Some(next) = self.move_storage(&storage, &fit)? {
            return Ok(next);
        }
        match place {
            Place::Old(claim) if is_deleting(&claim.metadata) => {
                let who = self.pod(claim).map_or_else(
                    || "it has a finalizer".to_owned(),
                    |pod| format!("pod {pod} uses it; delete that pod"),
                );
                Ok(Next::Wait(format!(
                    "the tenant's claim {} is being deleted to be made anew: {who}",
                    place_of(old, self.new)
                )))
            }
            Place::Old(claim) => match anew {
                Some(_) => Ok(Next::Write(
                    "delete the tenant's claim, to make it anew",
                    Write::Delete {
                        cluster: Cluster::Tenant,
                        kind: Kind::Claim,
                        meta: Box::new(claim.metadata.clone()),
                    },
                )),
                None => Err(format!(
                    "PersistentVolume {} has lost its annotation {}; delete that PersistentVolume, and run \
                     this again",
                    self.id,
                    names::ANNOTATION_ADOPT_CLAIM
                )),
            },
            _ => match anew {
                Some(claim) => Ok(Next::Write(
                    "make the tenant's claim anew",
                    Write::MakeClaim(Cluster::Tenant, Box::new(claim)),
                )),
                None => Ok(Next::Done),
            },
        }
    }

    /// The storage of the volume, if it is this tenant's.
    fn storage(&self) -> Result<Storage<'_>, String> {
        let management = &self.observed.management;
        let (from, to) = (&self.settings.namespace, &self.settings.to.namespace);
        let source = claim_at(&management.old_claims, from, &self.handle);
        let target = claim_at(&management.claims, to, &self.id);
        let mark = format!("{to}/{}", self.id);
        let marked = |volume: &&PersistentVolume| {
            annotation(&volume.metadata, names::ANNOTATION_ADOPTED_AS) == Some(&mark)
        };
        let all: Vec<_> = management.volumes.iter().filter(marked).collect();
        let volume = match (source, &all[..]) {
            (Some(source), marked) => {
                let volume = self.of_source(source)?;
                if let Some(other) = marked.iter().find(|v| v.name_any() != volume.name_any()) {
                    return Err(format!(
                        "PersistentVolume {} of the management cluster is marked for it, too; take the \
                         annotation {} off the one that is not it",
                        other.name_any(),
                        names::ANNOTATION_ADOPTED_AS
                    ));
                }
                volume
            }
            (None, [one]) => *one,
            (None, []) => {
                return Err(format!(
                    "there is no claim {from}/{} in the management cluster; say where the old driver has its \
                     claims: --source-namespace",
                    self.handle
                ));
            }
            (None, [one, other, ..]) => {
                return Err(format!(
                    "PersistentVolumes {} and {} of the management cluster are both marked for it; take the \
                     annotation {} off the one that is not it",
                    one.name_any(),
                    other.name_any(),
                    names::ANNOTATION_ADOPTED_AS
                ));
            }
        };
        if is_deleting(&volume.metadata) {
            return Err(format!(
                "PersistentVolume {} of the management cluster is being deleted; take a backup now",
                volume.name_any()
            ));
        }
        if let Some(target) = target
            && volume_of(target) != volume.name_any()
        {
            return Err(format!(
                "a claim {mark} is there in the management cluster that is not for this volume; delete it if \
                 nothing is in it"
            ));
        }
        Ok(Storage {
            volume,
            source,
            target,
        })
    }

    /// The PersistentVolume of the old claim, if that is this tenant's.
    fn of_source(&self, source: &PersistentVolumeClaim) -> Result<&PersistentVolume, String> {
        let management = &self.observed.management;
        let named = format!(
            "claim {}/{} of the management cluster",
            self.settings.namespace, self.handle
        );
        // The DataVolume has the labels that the old driver was told, and hands them on to its claim.
        let owner = find_meta(&management.data_volumes, &self.handle);
        let label = |key: &str| {
            let of = |labels: Option<&BTreeMap<String, String>>| {
                labels.and_then(|labels| labels.get(key)).cloned()
            };
            of(source.metadata.labels.as_ref())
                .or_else(|| of(owner.and_then(|o| o.labels.as_ref())))
        };
        for (key, value) in &self.settings.labels {
            if label(key).as_ref() != Some(value) {
                return Err(format!(
                    "{named} has not the label {key}={value}, so it is not known to be this tenant \
                     cluster's; correct --source-labels, or the label if you are certain"
                ));
            }
        }
        let name = volume_of(source);
        if name.is_empty() {
            return Err(format!(
                "{named} is not bound, so there is no data; let a pod use the volume once, or delete its \
                 claim in the tenant cluster"
            ));
        }
        let volume = find(&management.volumes, name);
        let volume = volume.filter(|volume| is_of(volume, source));
        volume.ok_or_else(|| {
            format!("{named} says that it has PersistentVolume {name}, which does not say so; mend that first")
        })
    }

    /// Keeps and marks the management cluster's PersistentVolume; none when that is done.
    fn keep_storage(&self, volume: &PersistentVolume) -> Result<Option<Next>, String> {
        let mark = format!("{}/{}", self.settings.to.namespace, self.id);
        let marked = annotation(&volume.metadata, names::ANNOTATION_ADOPTED_AS);
        if let Some(other) = marked.filter(|marked| *marked != mark) {
            return Err(format!(
                "PersistentVolume {} of the management cluster is being adopted as {other}; take its \
                 annotation {} off if that is not so",
                volume.name_any(),
                names::ANNOTATION_ADOPTED_AS
            ));
        }
        let before = annotation(&volume.metadata, names::ANNOTATION_ADOPT_POLICY);
        if marked.is_some() && before.is_some() && policy(volume) == RETAIN {
            return Ok(None);
        }
        let mut patch = version(&volume.metadata);
        patch["metadata"]["annotations"] = json!({
            names::ANNOTATION_ADOPTED_AS: mark,
            names::ANNOTATION_ADOPT_POLICY: before.unwrap_or_else(|| policy(volume)),
        });
        patch["spec"] = json!({ "persistentVolumeReclaimPolicy": RETAIN });
        Ok(Some(Next::Write(
            "keep the PersistentVolume of the management cluster (Retain)",
            Write::Volume {
                cluster: Cluster::Management,
                name: volume.name_any(),
                patch,
            },
        )))
    }

    /// From the old claim of the management cluster to ours; none when that is done.
    fn move_storage(&self, storage: &Storage<'_>, fit: &make::Fit) -> Result<Option<Next>, String> {
        let delete = |kind, meta: &ObjectMeta| Write::Delete {
            cluster: Cluster::Management,
            kind,
            meta: Box::new(meta.clone()),
        };
        let going = |what: &str| {
            format!(
                "{what} {}/{} of the management cluster is being deleted and has finalizers",
                self.settings.namespace, self.handle
            )
        };
        if let Some(owner) = find_meta(&self.observed.management.data_volumes, &self.handle) {
            // It would make the claim anew, or take it away.
            return Ok(Some(match is_deleting(owner) {
                true => Next::Wait(going("DataVolume")),
                false => Next::Write("delete the DataVolume", delete(Kind::DataVolume, owner)),
            }));
        }
        if let Some(source) = storage.source {
            return Ok(Some(match is_deleting(&source.metadata) {
                true => Next::Wait(going("claim")),
                false => Next::Write(
                    "delete the old claim of the management cluster",
                    delete(Kind::Claim, &source.metadata),
                ),
            }));
        }
        let (volume, to) = (storage.volume, &self.settings.to.namespace);
        let Some(target) = storage.target else {
            let of = claim_ref(volume);
            let reserved = of.is_some_and(|of| {
                of.namespace.as_ref() == Some(to)
                    && of.name.as_ref() == Some(&self.id)
                    && of.uid.as_ref().is_none_or(String::is_empty)
            });
            let modes = volume.spec.as_ref().and_then(|s| s.access_modes.as_ref());
            if !reserved || modes != Some(&fit.modes) {
                return Ok(Some(reserve(volume, to, &self.id, fit)));
            }
            return Ok(Some(Next::Write(
                "make our claim in the management cluster",
                Write::MakeClaim(Cluster::Management, Box::new(fit.claim.clone())),
            )));
        };
        if !storage.is_ours() {
            return Ok(Some(Next::Wait(format!(
                "claim {to}/{} of the management cluster is not bound to PersistentVolume {} yet; Kubernetes \
                 does that",
                target.name_any(),
                volume.name_any()
            ))));
        }
        Ok(restore(Cluster::Management, volume))
    }

    /// What comes next once the tenant's claim is to have our PersistentVolume.
    pub(super) fn finish(
        &self,
        old: Option<&PersistentVolume>,
        new: Option<&PersistentVolume>,
        claim: &PersistentVolumeClaim,
    ) -> Result<Next, String> {
        let place = place_of(old, new);
        let Some(new) = new else {
            return Err(format!(
                "claim {place} is to have PersistentVolume {}, which is not there; the data is in claim {}/{} \
                 of the management cluster",
                self.id, self.settings.to.namespace, self.id
            ));
        };
        if old.is_none() && annotation(&new.metadata, names::ANNOTATION_ADOPT_POLICY).is_none() {
            return Ok(Next::Done);
        }
        // A tenant can bind claims to whatever it likes; only this shows that storage was moved.
        if !self.storage()?.is_ours() {
            return Err(format!(
                "claim {place} has PersistentVolume {} already, and claim {}/{} of the management cluster has no \
                 storage yet; delete both in the tenant cluster if somebody made them by hand",
                self.id, self.settings.to.namespace, self.id
            ));
        }
        if !is_bound(claim) || !is_of(new, claim) {
            return Ok(Next::Wait(format!(
                "the tenant's claim {place} is not bound to PersistentVolume {} yet; Kubernetes does that",
                self.id
            )));
        }
        match restore(Cluster::Tenant, new) {
            Some(next) => Ok(next),
            None => self.leave(old),
        }
    }

    /// Takes the old PersistentVolume away, which has no claim any more.
    pub(super) fn leave(&self, old: Option<&PersistentVolume>) -> Result<Next, String> {
        let Some(old) = old.filter(|old| !is_deleting(&old.metadata)) else {
            return Ok(Next::Done);
        };
        if !self.storage()?.is_ours() {
            return Err(format!(
                "PersistentVolume {} stays: claim {}/{} of the management cluster is not bound to its storage",
                old.name_any(),
                self.settings.to.namespace,
                self.id
            ));
        }
        if let Some(next) = keep_old(old) {
            return Ok(next);
        }
        Ok(Next::Write(
            "delete the old PersistentVolume of the tenant cluster",
            Write::Delete {
                cluster: Cluster::Tenant,
                kind: Kind::Volume,
                meta: Box::new(old.metadata.clone()),
            },
        ))
    }
}

fn find_meta<'a>(list: &'a [ObjectMeta], name: &str) -> Option<&'a ObjectMeta> {
    list.iter().find(|meta| meta.name.as_deref() == Some(name))
}

/// Lets the tenant cluster's old PersistentVolume stay without its claim; none when it does.
fn keep_old(old: &PersistentVolume) -> Option<Next> {
    if policy(old) == RETAIN {
        return None;
    }
    let before = annotation(&old.metadata, names::ANNOTATION_ADOPT_POLICY);
    let mut patch = version(&old.metadata);
    patch["metadata"]["annotations"] =
        json!({ names::ANNOTATION_ADOPT_POLICY: before.unwrap_or_else(|| policy(old)) });
    patch["spec"] = json!({ "persistentVolumeReclaimPolicy": RETAIN });
    Some(Next::Write(
        "keep the old PersistentVolume of the tenant cluster (Retain)",
        Write::Volume {
            cluster: Cluster::Tenant,
            name: old.name_any(),
            patch,
        },
    ))
}

/// Lets our claim alone have a PersistentVolume of the management cluster.
fn reserve(volume: &PersistentVolume, namespace: &str, id: &str, fit: &make::Fit) -> Next {
    let mut patch = version(&volume.metadata);
    patch["spec"] = json!({
        "accessModes": fit.modes,
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": id,
            "uid": null, "resourceVersion": null, "fieldPath": null,
        },
    });
    Next::Write(
        "reserve the PersistentVolume of the management cluster for our claim",
        Write::Volume {
            cluster: Cluster::Management,
            name: volume.name_any(),
            patch,
        },
    )
}

/// Gives a PersistentVolume its reclaim policy back; none when that is done.
fn restore(cluster: Cluster, volume: &PersistentVolume) -> Option<Next> {
    let before = annotation(&volume.metadata, names::ANNOTATION_ADOPT_POLICY)?;
    let mut patch = version(&volume.metadata);
    patch["metadata"]["annotations"] = json!({
        names::ANNOTATION_ADOPT_POLICY: null,
        names::ANNOTATION_ADOPT_CLAIM: null,
    });
    // Others are deprecated, or a mistake.
    let policy = if before == "Delete" { "Delete" } else { RETAIN };
    patch["spec"] = json!({ "persistentVolumeReclaimPolicy": policy });
    Some(Next::Write(
        match cluster {
            Cluster::Tenant => "give our PersistentVolume its reclaim policy",
            Cluster::Management => {
                "give the PersistentVolume of the management cluster its reclaim policy"
            }
        },
        Write::Volume {
            cluster,
            name: volume.name_any(),
            patch,
        },
    ))
}
