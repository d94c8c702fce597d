//! Plays the storage of the management cluster in one namespace: claims are bound, grow and change
//! attributes, snapshots are cut, and a claim that is deleted goes, whoever uses it.
//!
//! Invariant: it acts on what watches tell and comes to rest; sizes are whole gibibytes, as storage
//! counts, so they are rarely what was asked for.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::Event as Complaint;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cache::{Cache, Key, Told, events, kind};

/// What it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Everything works.
    Works,
    /// It makes no volume, and says so.
    Full,
}

/// Reads an amount (`1Gi`) in bytes; this crate has no parser of its own.
pub type Amount = fn(&str) -> Option<i64>;

/// A running one; it ends when it is dropped.
pub struct FakeStorage {
    mode: watch::Sender<Mode>,
    told: Told,
    task: JoinHandle<()>,
}

/// Indices of the kinds.
const CLAIM: usize = 0;
const SNAPSHOT: usize = 1;
const GIB: i64 = 1 << 30;
/// Holds a claim that is in use; here nobody asks who uses it.
const PROTECTION: &str = "kubernetes.io/pvc-protection";

impl FakeStorage {
    /// Starts to play; `client` needs the rights of an administrator.
    #[must_use]
    pub fn start(client: &Client, namespace: &str, amount: Amount) -> Self {
        let (mode, modes) = watch::channel(Mode::Works);
        let told = Told::default();
        let kinds = [
            kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            kind(
                "snapshot.storage.k8s.io",
                "v1",
                "VolumeSnapshot",
                "volumesnapshots",
            ),
        ];
        let stage = Stage {
            client: client.clone(),
            namespace: namespace.to_owned(),
            cache: Cache::new(kinds.iter().map(|kind| kind.kind.clone()), &told),
            kinds,
            amount,
        };
        let task = tokio::spawn(stage.play(modes));
        Self { mode, told, task }
    }

    /// Changes what it does; what is there already is looked at again.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many events it was sent about each object, by `Kind/namespace/name`.
    #[must_use]
    pub fn told(&self) -> BTreeMap<String, usize> {
        self.told.now()
    }
}

impl Drop for FakeStorage {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Events = BoxStream<'static, watcher::Result<(usize, Event<DynamicObject>)>>;

struct Stage {
    client: Client,
    namespace: String,
    kinds: [ApiResource; 2],
    cache: Cache<DynamicObject>,
    amount: Amount,
}

impl Stage {
    fn watches(&self) -> Events {
        let watched = |index: usize| {
            let kind = (index, &self.kinds[index]);
            events(&self.client, kind, Some(&self.namespace), Config::default())
        };
        select(watched(CLAIM), watched(SNAPSHOT)).boxed()
    }

    fn api(&self, kind: usize) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &self.kinds[kind])
    }

    async fn play(mut self, mut modes: watch::Receiver<Mode>) {
        let mut events = self.watches();
        let mut mode = *modes.borrow();
        loop {
            let due: Vec<Key> = tokio::select! {
                // What is made after a change of the mode is played in the new one.
                biased;
                changed = modes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // Here only: taken for the sake of one event, it would be new to no other object.
                    mode = *modes.borrow_and_update();
                    self.cache.keys()
                }
                event = events.next() => match event {
                    Some(Ok((kind, event))) => self.cache.take(kind, event),
                    // The watcher comes back by itself after an error.
                    Some(Err(_)) => continue,
                    None => return,
                },
            };
            for key in due {
                match self.act(&key, mode).await {
                    // It changed or went meanwhile; its watch will tell.
                    Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                    Err(error) => eprintln!("the fake storage failed at {key:?}: {error:#}"),
                    Ok(()) => {}
                }
            }
        }
    }

    async fn act(&mut self, key: &Key, mode: Mode) -> Result<(), kube::Error> {
        let Some(object) = self.cache.get(key).cloned() else {
            return Ok(());
        };
        match key.0 {
            CLAIM => self.bind(&object, mode).await,
            _ => self.cut(&object).await,
        }
    }

    /// A claim has at least as much as it asks for.
    async fn bind(&mut self, claim: &DynamicObject, mode: Mode) -> Result<(), kube::Error> {
        let (name, params) = (claim.name_any(), PatchParams::default());
        if claim.metadata.deletion_timestamp.is_some() {
            if claim.finalizers().iter().any(|one| one == PROTECTION) {
                let others = claim.finalizers().iter().filter(|one| *one != PROTECTION);
                let others: Vec<&String> = others.collect();
                let off = Patch::Merge(json!({ "metadata": { "finalizers": others } }));
                self.api(CLAIM).patch(&name, &params, &off).await?;
            }
            return Ok(());
        }
        let bytes = |amount: &Value| amount.as_str().and_then(self.amount).unwrap_or(0);
        let asked = bytes(&claim.data["spec"]["resources"]["requests"]["storage"]);
        let there = bytes(&claim.data["status"]["capacity"]["storage"]);
        let attributes = &claim.data["spec"]["volumeAttributesClassName"];
        let has = &claim.data["status"]["currentVolumeAttributesClassName"];
        if there >= asked && (attributes.is_null() || attributes == has) {
            return Ok(());
        }
        if there < asked && mode == Mode::Full {
            return self.complain(claim).await;
        }
        let size = (asked.max(there) + GIB - 1) / GIB;
        let mut status =
            json!({ "phase": "Bound", "capacity": { "storage": format!("{size}Gi") } });
        if !attributes.is_null() {
            status["currentVolumeAttributesClassName"] = attributes.clone();
        }
        let status = Patch::Merge(json!({ "status": status }));
        let bound = self
            .api(CLAIM)
            .patch_status(&name, &params, &status)
            .await?;
        self.cache.put(CLAIM, bound);
        Ok(())
    }

    async fn complain(&self, claim: &DynamicObject) -> Result<(), kube::Error> {
        let complaint = json!({
            "metadata": { "generateName": "full-" },
            "involvedObject": {
                "kind": "PersistentVolumeClaim", "name": claim.name_any(),
                "namespace": claim.namespace(), "uid": claim.uid(),
            },
            "type": "Warning", "reason": "ProvisioningFailed", "message": "no room on any disk",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        let complaint = serde_json::from_value(complaint).map_err(kube::Error::SerdeError)?;
        let complaints: Api<Complaint> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = PostParams::default();
        complaints.create(&params, &complaint).await.map(drop)
    }

    /// A snapshot is cut at once, and is as large as its claim.
    async fn cut(&mut self, snapshot: &DynamicObject) -> Result<(), kube::Error> {
        if snapshot.data["status"]["readyToUse"] == true {
            return Ok(());
        }
        let claim = snapshot.data["spec"]["source"]["persistentVolumeClaimName"].as_str();
        let claim = self.api(CLAIM).get(claim.unwrap_or_default()).await?;
        let status = Patch::Merge(json!({ "status": {
            "readyToUse": true, "creationTime": "2026-01-01T00:00:00Z",
            "restoreSize": claim.data["status"]["capacity"]["storage"],
        } }));
        let (name, params) = (snapshot.name_any(), PatchParams::default());
        let snapshots = self.api(SNAPSHOT);
        let cut = snapshots.patch_status(&name, &params, &status).await?;
        self.cache.put(SNAPSHOT, cut);
        Ok(())
    }
}
