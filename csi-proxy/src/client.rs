//! Client of the management cluster's API: requests about claims, machines and snapshots, all of them
//! in the tenant namespace.
//!
//! Invariant: only claims of ours are read as volumes, changed or deleted; every change names the
//! version that it was decided on, so of two who decide at once one is refused.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use k8s_openapi::api::core::v1::{Event, PersistentVolumeClaim, ResourceQuota};
use kube::api::{
    DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::cache::objects::{Holders, Instance, Machine, Snapshot, Volume};
use crate::cache::{Cache, Object};
use crate::error::Error;
use crate::names::{self, FIELD_MANAGER};
use crate::settings::Settings;

/// The API of the management cluster, as far as it concerns one tenant cluster.
pub struct ManagementClient {
    claims: Api<PersistentVolumeClaim>,
    vms: Api<VirtualMachine>,
    vmis: Api<VirtualMachineInstance>,
    events: Api<Event>,
    quotas: Api<ResourceQuota>,
    /// What was last read of them, and when.
    last_quotas: Mutex<Option<(Instant, Arc<[ResourceQuota]>)>>,
    snapshots: Api<DynamicObject>,
    cluster_uid: String,
    cache: Arc<Cache>,
}

/// What came of making a claim.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// This one was made now.
    Volume(Box<Volume>),
    /// There was a volume of this name: this one.
    Found(Box<Volume>),
    /// There is a claim of this name, and it is none of ours.
    Foreign,
}

/// What there is of a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A volume.
    Ours(Box<Volume>),
    /// A claim of somebody else.
    Foreign,
    /// No claim.
    Nothing,
}

const CLAIM: &str = "PersistentVolumeClaim";
const SNAPSHOT: &str = names::SNAPSHOT_KIND;

impl ManagementClient {
    /// One for the tenant namespace; what is answered goes into the cache.
    #[must_use]
    pub fn new(client: &Client, settings: &Settings, cache: Arc<Cache>) -> Self {
        let ns = &settings.namespace;
        Self {
            claims: Api::namespaced(client.clone(), ns),
            vms: Api::namespaced(client.clone(), ns),
            vmis: Api::namespaced(client.clone(), ns),
            events: Api::namespaced(client.clone(), ns),
            quotas: Api::namespaced(client.clone(), ns),
            last_quotas: Mutex::new(None),
            snapshots: Api::namespaced_with(client.clone(), ns, &Snapshot::resource()),
            cluster_uid: settings.cluster_uid.clone(),
            cache,
        }
    }

    /// A volume as it is now; none when there is no claim of ours with this name.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn volume(&self, id: &str) -> Result<Option<Volume>, Error> {
        if !names::is_volume(id) {
            return Ok(None);
        }
        Ok(match self.claim(id).await? {
            Found::Ours(volume) => Some(*volume),
            Found::Foreign | Found::Nothing => None,
        })
    }

    /// What there is of this name now.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn claim(&self, id: &str) -> Result<Found, Error> {
        let claim = get(&self.claims, "persistentvolumeclaims", id).await;
        let claim = claim.map_err(|source| Error::new("read", CLAIM, id, source))?;
        let Some(claim) = claim else {
            return Ok(Found::Nothing);
        };
        let volume = self.observe_claim(claim);
        Ok(volume.map_or(Found::Foreign, |volume| Found::Ours(Box::new(volume))))
    }

    /// A virtual machine as it is now.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn machine(&self, name: &str) -> Result<Option<Machine>, Error> {
        if !names::is_machine(name) {
            return Ok(None);
        }
        let vm = get(&self.vms, "virtualmachines", name).await;
        let vm = vm.map_err(|source| Error::new("read", "VirtualMachine", name, source))?;
        Ok(vm.as_ref().map(Machine::read))
    }

    /// An instance as it is now.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn instance(&self, name: &str) -> Result<Option<Instance>, Error> {
        if !names::is_machine(name) {
            return Ok(None);
        }
        let vmi = get(&self.vmis, "virtualmachineinstances", name).await;
        let vmi =
            vmi.map_err(|source| Error::new("read", "VirtualMachineInstance", name, source))?;
        Ok(vmi.as_ref().map(Instance::read))
    }

    /// Makes a claim, unless one of its name is there.
    ///
    /// # Errors
    /// When the API refuses, for example because a quota is used up.
    pub async fn create(&self, claim: &PersistentVolumeClaim) -> Result<Made, Error> {
        let id = claim.metadata.name.clone().unwrap_or_default();
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match self.claims.create(&params, claim).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let there = self.claims.get(&id).await;
                let there = there.map_err(|source| Error::new("read", CLAIM, &id, source))?;
                let found = self.observe_claim(there).map(Box::new);
                Ok(found.map_or(Made::Foreign, Made::Found))
            }
            made => {
                let made = made.map_err(|source| Error::new("create", CLAIM, &id, source))?;
                let made = self.observe_claim(made).map(Box::new);
                Ok(made.map_or(Made::Foreign, Made::Volume))
            }
        }
    }

    /// Writes who is to have a volume, and who may; nothing when that is so already.
    ///
    /// # Errors
    /// A conflict when the claim changed since it was read.
    pub async fn set_holders(&self, volume: &Volume, holders: &Holders) -> Result<(), Error> {
        if volume.holders == *holders {
            return Ok(());
        }
        let list = |names: &BTreeSet<String>| match names.is_empty() {
            true => Value::Null,
            false => names.iter().cloned().collect::<Vec<_>>().join(",").into(),
        };
        let read_only = holders.read_only.then_some("true");
        let annotations = json!({
            names::ANNOTATION_WANTED: list(&holders.wanted),
            names::ANNOTATION_HELD: list(&holders.held),
            names::ANNOTATION_READ_ONLY: read_only,
        });
        self.patch(
            "mark",
            volume,
            json!({ "metadata": { "annotations": annotations } }),
        )
        .await
    }

    /// Lets a claim ask for more bytes, or for fewer while it has not got them.
    ///
    /// # Errors
    /// A conflict when the claim changed since it was read; whatever else the API refuses.
    pub async fn resize(&self, volume: &Volume, bytes: i64) -> Result<(), Error> {
        let requests = json!({ "storage": bytes.to_string() });
        let patch = json!({ "spec": { "resources": { "requests": requests } } });
        self.patch("resize", volume, patch).await
    }

    /// Lets a claim have these attributes: the name of a VolumeAttributesClass.
    ///
    /// # Errors
    /// A conflict when the claim changed since it was read; whatever else the API refuses.
    pub async fn set_attributes(&self, volume: &Volume, name: &str) -> Result<(), Error> {
        let patch = json!({ "spec": { "volumeAttributesClassName": name } });
        self.patch("change", volume, patch).await
    }

    async fn patch(
        &self,
        verb: &'static str,
        volume: &Volume,
        mut patch: Value,
    ) -> Result<(), Error> {
        patch["metadata"]["uid"] = volume.version.uid.as_str().into();
        patch["metadata"]["resourceVersion"] = volume.version.text.as_str().into();
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let claim = self
            .claims
            .patch(&volume.id, &params, &Patch::Merge(patch))
            .await;
        let claim = claim.map_err(|source| Error::new(verb, CLAIM, &volume.id, source))?;
        self.observe_claim(claim);
        Ok(())
    }

    /// Deletes a claim; one that is gone is no error.
    ///
    /// # Errors
    /// A conflict when the claim changed since it was read.
    pub async fn delete(&self, volume: &Volume) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(volume.version.uid.clone()),
                resource_version: Some(volume.version.text.clone()),
            }),
            ..DeleteParams::default()
        };
        match self.claims.delete(&volume.id, &params).await {
            Err(error) if is_gone(&error, "persistentvolumeclaims", &volume.id) => {}
            Err(source) => return Err(Error::new("delete", CLAIM, &volume.id, source)),
            Ok(_) => {}
        }
        Ok(())
    }

    /// What the management cluster last complained about a claim.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn complaint(&self, volume: &Volume) -> Result<Option<String>, Error> {
        let uid = &volume.version.uid;
        let params =
            ListParams::default().fields(&format!("involvedObject.uid={uid},type=Warning"));
        let events = self.events.list(&params).await;
        let events =
            events.map_err(|source| Error::new("list", "Events of", &volume.id, source))?;
        let when = |event: &Event| {
            let last = event.last_timestamp.clone().map(|time| time.0);
            last.or_else(|| event.event_time.clone().map(|time| time.0))
        };
        let last = events.items.into_iter().max_by_key(when);
        Ok(last.and_then(|event| event.message))
    }

    /// The quotas that the tenant namespace has, at most a second old: there are as many questions as
    /// the tenant cluster has StorageClasses and zones, and it may have any number.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn quotas(&self) -> Result<Arc<[ResourceQuota]>, Error> {
        const AGE: Duration = Duration::from_secs(1);
        // Whoever asks meanwhile waits for the same answer.
        let mut last = self.last_quotas.lock().await;
        if let Some((_, quotas)) = last.as_ref().filter(|(when, _)| when.elapsed() < AGE) {
            return Ok(Arc::clone(quotas));
        }
        let list = self.quotas.list(&ListParams::default()).await;
        let list = list.map_err(|source| Error::new("list", "ResourceQuotas", "", source))?;
        let quotas = Arc::from(list.items);
        *last = Some((Instant::now(), Arc::clone(&quotas)));
        Ok(quotas)
    }

    /// A snapshot as it is now; none when there is none of ours with this name.
    ///
    /// # Errors
    /// When the API does not answer.
    pub async fn snapshot(&self, id: &str) -> Result<Option<Snapshot>, Error> {
        if !names::is_snapshot(id) {
            return Ok(None);
        }
        let object = get(&self.snapshots, "volumesnapshots", id).await;
        let object = object.map_err(|source| Error::new("read", SNAPSHOT, id, source))?;
        Ok(object.and_then(|object| self.observe_snapshot(object)))
    }

    /// Makes a snapshot, unless one of its name is there; none when that is none of ours.
    ///
    /// # Errors
    /// When the API refuses.
    pub async fn create_snapshot(
        &self,
        id: &str,
        object: Value,
    ) -> Result<Option<Snapshot>, Error> {
        let failed = |source| Error::new("create", SNAPSHOT, id, source);
        let object: DynamicObject = serde_json::from_value(object)
            .map_err(|source| failed(kube::Error::SerdeError(source)))?;
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let made = match self.snapshots.create(&params, &object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                self.snapshots.get(id).await.map_err(failed)?
            }
            made => made.map_err(failed)?,
        };
        Ok(self.observe_snapshot(made))
    }

    /// Deletes a snapshot; one that is gone is no error.
    ///
    /// # Errors
    /// A conflict when another one of its name is there.
    pub async fn delete_snapshot(&self, snapshot: &Snapshot) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(snapshot.version.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.snapshots.delete(&snapshot.id, &params).await {
            Err(error) if is_gone(&error, "volumesnapshots", &snapshot.id) => Ok(()),
            done => done
                .map(drop)
                .map_err(|source| Error::new("delete", SNAPSHOT, &snapshot.id, source)),
        }
    }

    fn observe_snapshot(&self, object: DynamicObject) -> Option<Snapshot> {
        let snapshot = Snapshot::read(&object, &self.cluster_uid)?;
        self.cache
            .observe_answer(&Object::Snapshot(Box::new(object)));
        Some(snapshot)
    }

    /// Tells the cache what the API answered; none when it is no volume of ours.
    fn observe_claim(&self, claim: PersistentVolumeClaim) -> Option<Volume> {
        let volume = Volume::read(&claim, &self.cluster_uid)?;
        self.cache.observe_answer(&Object::Claim(Box::new(claim)));
        Some(volume)
    }
}

/// An object as it is now; none only when the API says that this very object is not there. Any other
/// 404 tells that a kind is not served, which tells nothing of its objects.
async fn get<K>(api: &Api<K>, plural: &str, name: &str) -> kube::Result<Option<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    match api.get(name).await {
        Err(error) if is_gone(&error, plural, name) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Whether the API says that the object of this kind and name is not there (apimachinery
/// `pkg/api/errors`, `NewNotFound`: `details.kind` is the resource).
fn is_gone(error: &kube::Error, plural: &str, name: &str) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|d| d.name == name && d.kind == plural)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn not_found_is_gone_only_where_the_object_is_named() {
        let answer = |kind: &str, name: &str, code| {
            let details = serde_json::from_value(json!({ "name": name, "kind": kind }));
            kube::Error::Api(Box::new(Status {
                code,
                reason: "NotFound".to_owned(),
                details: details.unwrap(),
                ..Status::default()
            }))
        };
        let gone = |error: kube::Error| is_gone(&error, "virtualmachines", "a");
        assert!(gone(answer("virtualmachines", "a", 404)));
        assert!(!gone(answer("virtualmachines", "b", 404)));
        assert!(!gone(answer("", "", 404)), "the kind is not served");
        assert!(!gone(answer("virtualmachines", "a", 410)));
    }
}
