//! Plays the kubelet, the controllers of workloads, the volume binder and the load balancer: it
//! writes the status that the objects of tenant namespaces would get in a real cluster.
//!
//! Invariant: it writes only status, only in namespaces of its [`Scope`], and nothing where the
//! status is already right; so it comes to rest.

mod status;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::stream::{BoxStream, select_all};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::scope::{Change, Namespaces, Scope};

/// What the player does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Makes everything ready.
    Ready,
    /// Writes nothing: what is there stays, what is new never becomes ready.
    Paused,
    /// Makes workloads not ready, as if their containers crashed.
    Failing,
}

/// Which kinds are played; default: workloads only.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// PersistentVolumeClaims become `Bound`.
    pub volumes: bool,
    /// Services of type LoadBalancer get the address 192.0.2.1.
    pub load_balancers: bool,
}

impl Extras {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self {
            volumes: true,
            load_balancers: true,
        }
    }
}

/// A running player; it ends when it is dropped.
pub struct PodPlayer {
    mode: watch::Sender<Mode>,
    task: JoinHandle<()>,
}

impl PodPlayer {
    /// Starts to play; `client` needs the rights of an administrator.
    #[must_use]
    pub fn start(client: &Client, scope: &Scope, extras: Extras) -> Self {
        let (mode, modes) = watch::channel(Mode::Ready);
        let stage = Stage::new(client, extras);
        let namespaces = scope.watch(client);
        let task = tokio::spawn(async move {
            if let Err(error) = stage.play(namespaces, modes).await {
                eprintln!("the pod player ended: {error:#}");
            }
        });
        Self { mode, task }
    }

    /// Changes what it does; objects that are there already are looked at again.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for PodPlayer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Key = (usize, String, String);

struct Stage {
    client: Client,
    kinds: Vec<ApiResource>,
    objects: BTreeMap<Key, DynamicObject>,
    listed: BTreeMap<usize, BTreeMap<Key, DynamicObject>>,
    namespaces: Namespaces,
}

impl Stage {
    fn new(client: &Client, extras: Extras) -> Self {
        let kind = ApiResource::from_gvk_with_plural;
        let gvk = kube::core::GroupVersionKind::gvk;
        let mut kinds = vec![
            kind(&gvk("apps", "v1", "StatefulSet"), "statefulsets"),
            kind(&gvk("apps", "v1", "Deployment"), "deployments"),
        ];
        if extras.volumes {
            let claim = gvk("", "v1", "PersistentVolumeClaim");
            kinds.push(kind(&claim, "persistentvolumeclaims"));
        }
        if extras.load_balancers {
            kinds.push(kind(&gvk("", "v1", "Service"), "services"));
        }
        Self {
            client: client.clone(),
            kinds,
            objects: BTreeMap::new(),
            listed: BTreeMap::new(),
            namespaces: Namespaces::default(),
        }
    }

    fn watches(&self) -> BoxStream<'static, Result<(usize, Event<DynamicObject>)>> {
        let streams = self.kinds.iter().enumerate().map(|(index, kind)| {
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), kind);
            let events = watcher(api, watcher::Config::default()).default_backoff();
            events
                .map_ok(move |event| (index, event))
                .map_err(anyhow::Error::from)
                .boxed()
        });
        select_all(streams).boxed()
    }

    async fn play(
        mut self,
        mut namespaces: BoxStream<'static, Result<Event<k8s_openapi::api::core::v1::Namespace>>>,
        mut modes: watch::Receiver<Mode>,
    ) -> Result<()> {
        let mut events = self.watches();
        loop {
            let due: Vec<Key> = tokio::select! {
                changed = modes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    self.objects.keys().cloned().collect()
                }
                // The watcher comes back by itself after an error.
                event = namespaces.next() => match event {
                    Some(Ok(event)) => match self.namespaces.take(event) {
                        Change::None | Change::Went => Vec::new(),
                        Change::Came(name) => self.in_namespace(&name),
                        Change::Listed => self.objects.keys().cloned().collect(),
                    },
                    Some(Err(_)) => Vec::new(),
                    None => return Ok(()),
                },
                event = events.next() => match event {
                    Some(Ok((index, event))) => self.take(index, event),
                    Some(Err(_)) => Vec::new(),
                    None => return Ok(()),
                },
            };
            let mode = *modes.borrow_and_update();
            for key in due {
                if let Err(error) = self.act(&key, mode).await {
                    eprintln!("the pod player could not write {key:?}: {error:#}");
                }
            }
        }
    }

    fn in_namespace(&self, name: &str) -> Vec<Key> {
        self.objects
            .keys()
            .filter(|(_, namespace, _)| namespace == name)
            .cloned()
            .collect()
    }

    /// Keeps the object and says what to look at.
    fn take(&mut self, index: usize, event: Event<DynamicObject>) -> Vec<Key> {
        let key = |object: &DynamicObject| {
            (
                index,
                object.namespace().unwrap_or_default(),
                object.name_any(),
            )
        };
        match event {
            Event::Init => drop(self.listed.insert(index, BTreeMap::new())),
            Event::InitApply(object) => {
                self.listed
                    .entry(index)
                    .or_default()
                    .insert(key(&object), object);
            }
            Event::InitDone => {
                self.objects.retain(|(kind, _, _), _| *kind != index);
                let listed = self.listed.remove(&index).unwrap_or_default();
                let keys = listed.keys().cloned().collect();
                self.objects.extend(listed);
                return keys;
            }
            Event::Apply(object) => {
                let key = key(&object);
                self.objects.insert(key.clone(), object);
                return vec![key];
            }
            Event::Delete(object) => drop(self.objects.remove(&key(&object))),
        }
        Vec::new()
    }

    async fn act(&mut self, key: &Key, mode: Mode) -> Result<()> {
        let (index, namespace, name) = key;
        let Some(object) = self.objects.get(key) else {
            return Ok(());
        };
        let Some(kind) = self.kinds.get(*index) else {
            return Ok(());
        };
        if !self.namespaces.contains(namespace) || object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let Some(patch) = status::wanted(&kind.kind, object, mode) else {
            return Ok(());
        };
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, kind);
        match api
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            // Gone meanwhile; its watch will tell.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).context("cannot write a status"),
        }
    }
}
