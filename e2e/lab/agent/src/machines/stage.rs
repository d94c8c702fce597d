//! Carries steps out: requests to the API, and machines that are started and ended.
//!
//! Invariant: each write names the UID of what was seen, so nothing of the same name that came later is changed; one
//! step per machine and look, and what fails of one machine holds up no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error, Result};
use api::foreign::kubevirt::{
    VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance,
};
use k8s_openapi::{
    api::core::v1::{Node, Pod, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::NamespaceResourceScope,
    runtime::reflector::Store,
};
use lab::{
    host::Host,
    machines::{self, Settings, plan as machine},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    objects::{self, CREATED_BY, SCHEDULABLE},
    place::Place,
    plan::{self, Life, Seen, Step},
};

/// Who applies the kinds.
const MANAGER: &str = "lab-agent";
/// Key of the user data in its Secret (KubeVirt `pkg/cloud-init`).
const USER_DATA: &str = "userdata";
/// How long to wait before a machine that could not be started is tried again, and before the kinds are.
const RETRY: Duration = Duration::from_secs(3);

/// What is watched.
pub(super) struct Objects {
    pub(super) vms: Store<VirtualMachine>,
    pub(super) instances: Store<VirtualMachineInstance>,
    pub(super) pods: Store<Pod>,
}

/// Namespace and name, which a virtual machine has in common with its instance.
type Name = (String, String);

/// Who plays.
pub(super) struct Stage {
    client: Client,
    place: Place,
    /// Machines by id.
    hosts: BTreeMap<String, Host>,
    /// Why one could not be started, and when that was.
    refused: BTreeMap<String, (Instant, String)>,
}

impl Stage {
    /// Makes the kinds, and finds the machines that run already.
    pub(super) async fn new(client: Client, place: Place) -> Result<Self> {
        let settings = Settings::read(&place.settings)?;
        let adopted = blocking(move || machines::adopt(&settings)).await?;
        let stage = Self {
            client,
            place,
            hosts: adopted,
            refused: BTreeMap::new(),
        };
        while let Err(error) = stage.introduce().await {
            let error = format!("{error:#}");
            tracing::warn!(error, "virtual machines cannot be played yet, trying again");
            tokio::time::sleep(RETRY).await;
        }
        tracing::info!(running = stage.hosts.len(), "virtual machines are played");
        Ok(stage)
    }

    /// KubeVirt's kinds, and the label of a node on which it is well.
    async fn introduce(&self) -> Result<()> {
        let kinds = Api::<CustomResourceDefinition>::all(self.client.clone());
        for text in [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES] {
            let kind: CustomResourceDefinition = serde_saphyr::from_str(text)?;
            let mut kind = serde_json::to_value(&kind)?;
            // Whoever applies says what it is.
            kind["apiVersion"] = json!("apiextensions.k8s.io/v1");
            kind["kind"] = json!("CustomResourceDefinition");
            let name = kind["metadata"]["name"].as_str().unwrap_or_default();
            let params = PatchParams::apply(MANAGER).force();
            kinds.patch(name, &params, &Patch::Apply(&kind)).await?;
        }
        let label = json!({ "metadata": { "labels": { SCHEDULABLE: "true" } } });
        let nodes = Api::<Node>::all(self.client.clone());
        let node = &self.place.node;
        let labelled = nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(&label))
            .await;
        labelled.map(drop).context("the node cannot be labelled")
    }

    /// Does the next step of each machine.
    pub(super) async fn reconcile(&mut self, objects: &Objects) {
        let (vms, instances) = (objects.vms.state(), objects.instances.state());
        let pods = objects.pods.state();
        let names: BTreeSet<Name> = vms
            .iter()
            .map(|vm| place_of(&**vm))
            .chain(instances.iter().map(|one| place_of(&**one)))
            .collect();
        for name in names {
            let vm = vms.iter().find(|vm| place_of(&***vm) == name);
            let instance = instances.iter().find(|one| place_of(&***one) == name);
            let uid = instance.and_then(|one| one.uid());
            let pod = pods.iter().find(|pod| {
                pod.namespace().as_ref() == Some(&name.0)
                    && uid.is_some()
                    && pod.labels().get(CREATED_BY) == uid.as_ref()
            });
            let of_instance = instance.map(|one| id(one));
            let why = of_instance.as_ref().and_then(|id| self.refused.get(id));
            let why = why.map(|(_, why)| why.clone());
            let host = of_instance.as_ref().and_then(|id| self.hosts.get(id));
            let life = life(host, why.as_deref());
            let seen = Seen {
                vm: vm.map(|vm| &**vm),
                instance: instance.map(|one| &**one),
                pod: pod.map(|pod| &**pod),
                life,
            };
            let Some(step) = plan::next(seen) else {
                continue;
            };
            match self.carry_out(seen, step).await {
                Ok(()) => {}
                // It changed or went meanwhile; its watch will tell.
                Err(error) if is_over(&error) => {}
                Err(error) => {
                    let error = format!("{error:#}");
                    tracing::warn!(namespace = name.0, name = name.1, error, "trying again");
                }
            }
        }
        self.forget(&instances.iter().map(|one| id(one)).collect())
            .await;
    }

    /// Ends machines of which nobody knows any more.
    async fn forget(&mut self, known: &BTreeSet<String>) {
        self.refused.retain(|id, _| known.contains(id));
        let orphans = self.hosts.keys().filter(|id| !known.contains(*id));
        let orphans: Vec<_> = orphans.cloned().collect();
        for id in orphans {
            if let Err(error) = self.end(&id).await {
                let error = format!("{error:#}");
                tracing::warn!(id, error, "a machine is left");
            }
        }
    }

    async fn carry_out(&mut self, seen: Seen<'_>, step: Step) -> Result<()> {
        match step {
            Step::VmFinalizers(all) => {
                let vm = seen.vm.context("there is none")?;
                self.finalizers(vm, all).await
            }
            Step::InstanceFinalizers(all) => {
                let instance = seen.instance.context("there is none")?;
                self.finalizers(instance, all).await
            }
            Step::VmStatus(patch) => {
                let vm = seen.vm.context("there is none")?;
                let patch = Patch::Merge(of_uid(vm, patch));
                let api = self.api_of(vm);
                let params = PatchParams::default();
                let done = api.patch_status(&vm.name_any(), &params, &patch).await;
                Ok(done.map(drop)?)
            }
            // This kind has no part of its own for its status.
            Step::InstanceStatus(patch) => {
                let instance = seen.instance.context("there is none")?;
                self.patch(instance, patch).await
            }
            Step::MakeInstance(made) => {
                let vm = seen.vm.context("there is none")?;
                self.make::<VirtualMachineInstance>(place_of(vm).0, made)
                    .await
            }
            Step::MakePod(made) => {
                let instance = seen.instance.context("there is none")?;
                self.make::<Pod>(place_of(instance).0, made).await
            }
            Step::DeleteInstance => {
                let instance = seen.instance.context("there is none")?;
                self.delete(instance).await
            }
            Step::DeletePod => self.delete(seen.pod.context("there is none")?).await,
            Step::Start => {
                let (vm, instance) = seen.vm.zip(seen.instance).context("there is none")?;
                self.start(vm, instance, seen.pod.context("there is none")?)
                    .await
            }
            Step::End => {
                let instance = seen.instance.context("there is none")?;
                self.end(&id(instance)).await
            }
        }
    }

    async fn start(
        &mut self,
        vm: &VirtualMachine,
        instance: &VirtualMachineInstance,
        pod: &Pod,
    ) -> Result<()> {
        let id = id(instance);
        if let Some((since, _)) = self.refused.get(&id)
            && since.elapsed() < RETRY
        {
            return Ok(());
        }
        match self.try_to_start(vm, instance, pod).await {
            Ok(host) => {
                tracing::info!(id, "a machine boots");
                self.refused.remove(&id);
                self.hosts.insert(id, host);
                Ok(())
            }
            Err(error) => {
                let why = format!("{error:#}");
                self.refused.insert(id, (Instant::now(), why));
                Err(error)
            }
        }
    }

    async fn try_to_start(
        &self,
        vm: &VirtualMachine,
        instance: &VirtualMachineInstance,
        pod: &Pod,
    ) -> Result<Host> {
        let told = match objects::user_data(vm) {
            Some(secret) => Some(self.told(&place_of(vm).0, secret).await?),
            None => None,
        };
        let uid = pod.uid().unwrap_or_default();
        let guest = objects::guest(vm, instance, told).map_err(Error::msg)?;
        let settings = Settings::read(&self.place.settings)?;
        blocking(move || {
            let network = machines::network_of_pod(&uid);
            let network = network.context("the pod around the machine does not run here")?;
            machines::start(&settings, &guest, &network)
        })
        .await
    }

    /// What a machine is told, as it is now: KubeVirt reads it at each start, too.
    async fn told(&self, namespace: &str, name: &str) -> Result<String> {
        let secrets = Api::<Secret>::namespaced(self.client.clone(), namespace);
        let secret = secrets.get(name).await;
        let secret = secret.with_context(|| format!("the Secret {name} with its user data"))?;
        let data = secret.data.unwrap_or_default().remove(USER_DATA);
        let data = data.with_context(|| format!("the Secret {name} has no key {USER_DATA}"))?;
        String::from_utf8(data.0).with_context(|| format!("{USER_DATA} of {name} is no text"))
    }

    async fn end(&mut self, id: &str) -> Result<()> {
        let settings = Settings::read(&self.place.settings)?;
        let host = self.hosts.get(id).cloned();
        let ended = id.to_owned();
        blocking(move || machines::end(&settings, &ended, host.as_ref())).await?;
        self.hosts.remove(id);
        tracing::info!(id, "a machine ended");
        Ok(())
    }

    fn api_of<K: Kind>(&self, object: &K) -> Api<K> {
        self.api(&place_of(object).0)
    }

    fn api<K: Kind>(&self, namespace: &str) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn finalizers<K: Kind>(&self, object: &K, all: Vec<String>) -> Result<()> {
        // As they were seen: another one that came meanwhile is not taken away.
        let version = object.resource_version();
        let patch = json!({ "metadata": { "finalizers": all, "resourceVersion": version } });
        self.patch(object, patch).await
    }

    async fn patch<K: Kind>(&self, object: &K, patch: Value) -> Result<()> {
        let patch = Patch::Merge(of_uid(object, patch));
        let (api, params) = (self.api_of(object), PatchParams::default());
        let done = api.patch(&object.name_any(), &params, &patch).await;
        Ok(done.map(drop)?)
    }

    async fn make<K: Kind>(&self, namespace: String, object: Value) -> Result<()> {
        let object: K = serde_json::from_value(object)?;
        let made = self.api::<K>(&namespace);
        let made = made.create(&PostParams::default(), &object).await;
        Ok(made.map(drop)?)
    }

    async fn delete<K: Kind>(&self, object: &K) -> Result<()> {
        let preconditions = Preconditions {
            uid: object.uid(),
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(preconditions);
        let gone = self
            .api_of(object)
            .delete(&object.name_any(), &params)
            .await;
        Ok(gone.map(drop)?)
    }
}

/// What the kinds have in common.
trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + DeserializeOwned
    + serde::Serialize
{
}
impl Kind for VirtualMachine {}
impl Kind for VirtualMachineInstance {}
impl Kind for Pod {}

fn life<'a>(host: Option<&Host>, why: Option<&'a str>) -> Life<'a> {
    match (host, why) {
        (Some(host), _) if host.is_alive() => Life::Runs,
        (Some(_), _) => Life::Ended,
        (None, Some(why)) => Life::Refused(why),
        (None, None) => Life::Missing,
    }
}

fn place_of<K: Resource>(object: &K) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
}

fn id(instance: &VirtualMachineInstance) -> String {
    machine::id(&instance.name_any(), &instance.uid().unwrap_or_default())
}

/// Only this one is changed.
fn of_uid<K: Resource>(object: &K, mut patch: Value) -> Value {
    patch["metadata"]["uid"] = json!(object.uid());
    patch
}

/// Whether it is about an object that is another one by now, is gone, or is in a namespace that goes.
fn is_over(error: &Error) -> bool {
    let over = |status: &kube::core::Status| matches!(status.code, 404 | 409);
    matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if over(status))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .context("it panicked")?
}
