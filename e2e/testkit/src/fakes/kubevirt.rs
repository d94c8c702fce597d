//! Plays KubeVirt: for each VirtualMachine an instance that runs, with an address and the volumes
//! that are plugged into it; a VirtualMachine that is deleted goes after its instance.
//!
//! What it does is chosen by a [`Behaviour`]; how a machine becomes a node of its tenant cluster is
//! the hook of who starts it. [`ByHand`] writes the same objects when a test says so.
//! Invariant: only what its [`Selection`] says is touched (and the node [`HOST`], always the same),
//! and nothing is written where everything is already as it should be, so it comes to rest.

mod behaviour;
mod by_hand;
mod host;
mod launcher;
mod next;
mod objects;
mod selection;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use futures::stream::{BoxStream, select};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::cache::{Cache, Told, events};
use next::Step;

pub use behaviour::{Behaviour, Instances, Volumes};
pub use by_hand::ByHand;
pub use host::{HOST, REGION, ZONE};
pub use objects::address;
pub use selection::Selection;

/// Indices of the kinds.
const VM: usize = 0;
const INSTANCE: usize = 1;

/// A machine that runs.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Where its virtual machine is.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Labels of its virtual machine.
    pub labels: &'a BTreeMap<String, String>,
}

/// Called for each machine that runs, again and again.
type Join = Box<dyn Fn(Guest<'_>) + Send + Sync>;

/// A running one; it ends when it is dropped.
pub struct FakeKubeVirt {
    behaviour: watch::Sender<Behaviour>,
    told: Told,
    task: JoinHandle<()>,
}

impl FakeKubeVirt {
    /// Starts to play; `client` needs the rights of an administrator. `join` is what a machine does
    /// that runs, again and again: it has to leave alone what is there already.
    #[must_use]
    pub fn start(
        client: &Client,
        selection: &Selection,
        join: impl Fn(Guest<'_>) + Send + Sync + 'static,
    ) -> Self {
        let (behaviour, changes) = watch::channel(Behaviour::default());
        let told = Told::default();
        let kinds = [objects::virtual_machines(), objects::instances()];
        let names = kinds.iter().map(|kind| kind.kind.clone());
        let stage = Stage {
            client: client.clone(),
            cache: Cache::new(names, &told),
            kinds,
            join: Box::new(join),
        };
        let events = stage.watches(selection);
        let task = tokio::spawn(stage.play(events, changes));
        Self {
            behaviour,
            told,
            task,
        }
    }

    /// Changes what it does; what is there already is looked at again.
    pub fn set(&self, behaviour: Behaviour) {
        self.behaviour.send_replace(behaviour);
    }

    /// How many events it was sent about each object, by `Kind/namespace/name`.
    #[must_use]
    pub fn told(&self) -> BTreeMap<String, usize> {
        self.told.now()
    }
}

impl Drop for FakeKubeVirt {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Events = BoxStream<'static, watcher::Result<(usize, Event<DynamicObject>)>>;
/// Namespace and name, which a virtual machine has in common with its instance.
type Name = (String, String);

struct Stage {
    client: Client,
    kinds: [ApiResource; 2],
    cache: Cache<DynamicObject>,
    join: Join,
}

impl Stage {
    fn watches(&self, selection: &Selection) -> Events {
        let watched = |index: usize| {
            let kind = (index, &self.kinds[index]);
            let namespace = selection.namespace.as_deref();
            events(&self.client, kind, namespace, selection.config())
        };
        select(watched(VM), watched(INSTANCE)).boxed()
    }

    fn api(&self, kind: usize, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), namespace, &self.kinds[kind])
    }

    async fn play(mut self, mut events: Events, mut changes: watch::Receiver<Behaviour>) {
        host::make(&self.client).await;
        loop {
            let due = tokio::select! {
                // Marks the change as seen, and nothing else does: with an event alone it would be new to
                // no other machine.
                changed = changes.changed() => match changed {
                    Ok(()) => self.all(),
                    Err(_) => return,
                },
                event = events.next() => match event {
                    Some(Ok((kind, event))) => self.take(kind, event),
                    // The watcher comes back by itself after an error.
                    Some(Err(_)) => continue,
                    None => return,
                },
            };
            if !self.cache.is_complete() {
                continue;
            }
            for name in due {
                // Who changes the behaviour and then an object finds the new one in force.
                let behaviour = *changes.borrow();
                match self.look(&name, behaviour).await {
                    // It changed or went meanwhile; its watch will tell.
                    Err(kube::Error::Api(status)) if [403, 404, 409].contains(&status.code) => {}
                    Err(error) => eprintln!("the fake KubeVirt failed at {name:?}: {error:#}"),
                    Ok(()) => {}
                }
            }
        }
    }

    fn all(&self) -> BTreeSet<Name> {
        let vms = self.cache.iter().filter(|((kind, ..), _)| *kind == VM);
        vms.map(|((_, namespace, name), _)| (namespace.clone(), name.clone()))
            .collect()
    }

    fn take(&mut self, kind: usize, event: Event<DynamicObject>) -> BTreeSet<Name> {
        let is_list = matches!(event, Event::InitDone);
        let keys = self.cache.take(kind, event);
        if is_list {
            // What was told of one kind before the other was listed has not been looked at.
            return self.all();
        }
        let names = keys
            .into_iter()
            .map(|(_, namespace, name)| (namespace, name));
        names.collect()
    }

    /// Does one thing; that it is done comes by a watch, and then the next. So what others change
    /// meanwhile is seen, and no machine waits until another one is all done.
    async fn look(
        &mut self,
        (namespace, name): &Name,
        behaviour: Behaviour,
    ) -> Result<(), kube::Error> {
        let key = |kind: usize| (kind, namespace.clone(), name.clone());
        let Some(vm) = self.cache.get(&key(VM)) else {
            return Ok(());
        };
        let instance = self.cache.get(&key(INSTANCE));
        if let Some(step) = next::next(vm, instance, behaviour) {
            return self.carry_out(namespace, name, step).await;
        }
        let is_up = instance.is_some_and(|one| one.data["status"]["phase"] == "Running");
        let stays = vm.metadata.deletion_timestamp.is_none();
        if behaviour.awake && behaviour.joins && is_up && stays {
            (self.join)(Guest {
                namespace,
                name,
                labels: vm.labels(),
            });
        }
        Ok(())
    }

    async fn carry_out(
        &mut self,
        namespace: &str,
        name: &str,
        step: Step,
    ) -> Result<(), kube::Error> {
        let params = PatchParams::default();
        let (vms, instances) = (self.api(VM, namespace), self.api(INSTANCE, namespace));
        let (kind, object) = match step {
            Step::Finalizers(all) => {
                let patch = Patch::Merge(json!({ "metadata": { "finalizers": all } }));
                (VM, vms.patch(name, &params, &patch).await?)
            }
            Step::Status(patch) => {
                let patch = Patch::Merge(patch);
                (VM, vms.patch_status(name, &params, &patch).await?)
            }
            Step::Make(object) => {
                let made = serde_json::from_value(object).map_err(kube::Error::SerdeError)?;
                let made = instances.create(&PostParams::default(), &made).await?;
                (INSTANCE, made)
            }
            Step::Instance(patch) => {
                if patch["status"]["phase"] == "Running"
                    && let Some(instance) =
                        self.cache
                            .get(&(INSTANCE, namespace.to_owned(), name.to_owned()))
                {
                    let at = (HOST, &[address(name)][..]);
                    launcher::make(&self.client, namespace, instance, at).await?;
                }
                let patch = Patch::Merge(patch);
                (INSTANCE, instances.patch(name, &params, &patch).await?)
            }
            Step::End => {
                launcher::end(&self.client, namespace, name).await?;
                instances.delete(name, &DeleteParams::default()).await?;
                return Ok(());
            }
        };
        self.cache.put(kind, object);
        Ok(())
    }
}
