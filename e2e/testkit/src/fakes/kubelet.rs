//! Plays the kubelet, the controllers of workloads, the volume binder and the load balancer: it
//! writes the status that the objects of tenant namespaces would get in a real cluster, and makes the pods
//! of etcd, control planes and their controllers.
//!
//! Invariant: it writes only status and pods, only in namespaces of its [`Scope`], and nothing where the
//! status is already right; so it comes to rest. It sees objects that bear the labels of the scope
//! ([`Scope::labels`]), as everything that Covey makes does, and is sent no others.

mod mode;
mod pods;
mod status;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cache::{Cache, Key, Told, events, kind};
use crate::scope::{Change, Namespaces, Scope};

pub use mode::{Extras, Mode};

/// A running one; it ends when it is dropped.
pub struct FakeKubelet {
    mode: watch::Sender<Mode>,
    told: Told,
    task: JoinHandle<()>,
}

impl FakeKubelet {
    /// Starts to play; `client` needs the rights of an administrator.
    #[must_use]
    pub fn start(client: &Client, scope: &Scope, extras: Extras) -> Self {
        let (mode, modes) = watch::channel(Mode::Ready);
        let told = Told::default();
        let stage = Stage::new(client, extras, &told);
        let (objects, namespaces) = (stage.watches(scope), scope.watch(client));
        let task = tokio::spawn(async move {
            if let Err(error) = stage.play(objects, namespaces, modes).await {
                eprintln!("the fake kubelet ended: {error:#}");
            }
        });
        Self { mode, told, task }
    }

    /// Changes what it does; objects that are there already are looked at again.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// How many events it was sent about each object, by `Kind/namespace/name`.
    #[must_use]
    pub fn told(&self) -> BTreeMap<String, usize> {
        self.told.now()
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Objects = BoxStream<'static, kube::runtime::watcher::Result<(usize, Event<DynamicObject>)>>;

struct Stage {
    client: Client,
    kinds: Vec<ApiResource>,
    without_etcd: bool,
    cache: Cache<DynamicObject>,
    namespaces: Namespaces,
}

impl Stage {
    fn new(client: &Client, extras: Extras, told: &Told) -> Self {
        let mut kinds = vec![
            kind("apps", "v1", "StatefulSet", "statefulsets"),
            kind("apps", "v1", "Deployment", "deployments"),
            kind("", "v1", "Pod", "pods"),
        ];
        if extras.volumes {
            let plural = "persistentvolumeclaims";
            kinds.push(kind("", "v1", "PersistentVolumeClaim", plural));
        }
        if extras.load_balancers {
            kinds.push(kind("", "v1", "Service", "services"));
        }
        let names = kinds.iter().map(|kind| kind.kind.clone());
        Self {
            client: client.clone(),
            cache: Cache::new(names, told),
            without_etcd: extras.without_etcd,
            kinds,
            namespaces: Namespaces::default(),
        }
    }

    fn watches(&self, scope: &Scope) -> Objects {
        let streams = self.kinds.iter().enumerate().map(|kind| {
            let config = Config::default().labels(&scope.labels());
            events(&self.client, kind, None, config)
        });
        select_all(streams).boxed()
    }

    async fn play(
        mut self,
        mut objects: Objects,
        mut namespaces: BoxStream<'static, Result<Event<Namespace>>>,
        mut modes: watch::Receiver<Mode>,
    ) -> Result<()> {
        let mut mode = *modes.borrow();
        loop {
            let due: Vec<Key> = tokio::select! {
                // What is made after a change of the mode is played in the new one.
                biased;
                changed = modes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    // Here only: taken for the sake of one event, it would be new to no other object.
                    mode = *modes.borrow_and_update();
                    self.cache.keys()
                }
                // The watcher comes back by itself after an error.
                event = namespaces.next() => match event {
                    Some(Ok(event)) => match self.namespaces.take(event) {
                        Change::None | Change::Went => Vec::new(),
                        Change::Came(name) => self.in_namespace(&name),
                        Change::Listed => self.cache.keys(),
                    },
                    Some(Err(_)) => Vec::new(),
                    None => return Ok(()),
                },
                event = objects.next() => match event {
                    Some(Ok((index, event))) => self.cache.take(index, event),
                    Some(Err(_)) => Vec::new(),
                    None => return Ok(()),
                },
            };
            for key in due {
                if let Err(error) = self.act(&key, mode).await {
                    eprintln!("the fake kubelet could not write {key:?}: {error:#}");
                }
            }
        }
    }

    fn in_namespace(&self, name: &str) -> Vec<Key> {
        let mut keys = self.cache.keys();
        keys.retain(|(_, namespace, _)| namespace == name);
        keys
    }

    fn is_pod(&self, (index, ..): &Key) -> bool {
        let kind = self.kinds.get(*index);
        kind.is_some_and(|kind| kind.kind == "Pod")
    }

    /// Whether somebody else says how this workload and its pods are.
    fn is_somebody_elses(&self, (index, _, name): &Key) -> bool {
        let kind = self.kinds.get(*index).map(|kind| kind.kind.as_str());
        let all = [
            (Some("StatefulSet"), "etcd"),
            (Some("Deployment"), "etcd-events"),
        ];
        self.without_etcd && all.contains(&(kind, name.as_str()))
    }

    /// Makes and ends pods of a workload, before its status says so.
    async fn play_pods(&mut self, key: &Key, mode: Mode) -> Result<()> {
        let (index, namespace, _) = key;
        let (Some(workload), Some(kind)) = (self.cache.get(key), self.kinds.get(*index)) else {
            return Ok(());
        };
        let is_going = workload.metadata.deletion_timestamp.is_some();
        let is_played = self.namespaces.contains(namespace) && mode != Mode::Paused;
        let Some(of_pods) = self.kinds.iter().position(|kind| kind.kind == "Pod") else {
            return Ok(());
        };
        if is_going || !is_played {
            return Ok(());
        }
        let pods = self.cache.iter();
        let pods = pods.filter(|((index, of, _), _)| *index == of_pods && of == namespace);
        let changes = pods::changes(&kind.kind, workload, pods.map(|(_, pod)| pod));
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &self.kinds[of_pods]);
        for change in changes {
            match change {
                pods::Change::Make(pod) => {
                    let pod = serde_json::from_value(pod)?;
                    let made = match api.create(&PostParams::default(), &pod).await {
                        // Its watch tells of it, or it goes with its namespace.
                        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {
                            continue;
                        }
                        made => made.context("cannot make a pod")?,
                    };
                    if self.is_somebody_elses(key) {
                        self.cache.put(of_pods, made);
                        continue;
                    }
                    let ready = pods::status(mode == Mode::Ready);
                    let patch = Patch::Merge(&ready);
                    let name = made.name_any();
                    match api
                        .patch_status(&name, &PatchParams::default(), &patch)
                        .await
                    {
                        Ok(pod) => self.cache.put(of_pods, pod),
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        Err(error) => return Err(error).context("cannot write a pod's status"),
                    }
                }
                pods::Change::Replace(name, patch) => {
                    let patch = Patch::Merge(&patch);
                    match api.patch(&name, &PatchParams::default(), &patch).await {
                        Ok(pod) => self.cache.put(of_pods, pod),
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        Err(error) => return Err(error).context("cannot replace a pod"),
                    }
                }
                pods::Change::End(name) => {
                    let ended = api
                        .delete(&name, &DeleteParams::default().grace_period(0))
                        .await;
                    match ended {
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        ended => drop(ended.context("cannot end a pod")?),
                    }
                }
            }
        }
        Ok(())
    }

    async fn act(&mut self, key: &Key, mode: Mode) -> Result<()> {
        let (index, namespace, name) = key;
        if self.is_pod(key) {
            // Whose it was makes another.
            for key in self.in_namespace(namespace) {
                if !self.is_pod(&key) {
                    self.play_pods(&key, mode).await?;
                }
            }
            return Ok(());
        }
        self.play_pods(key, mode).await?;
        let (Some(object), Some(kind)) = (self.cache.get(key), self.kinds.get(*index)) else {
            return Ok(());
        };
        if !self.namespaces.contains(namespace) || object.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        if self.is_somebody_elses(key) {
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
            Ok(object) => {
                self.cache.put(*index, object);
                Ok(())
            }
            // Gone meanwhile; its watch will tell.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).context("cannot write a status"),
        }
    }
}
