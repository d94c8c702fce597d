//! The cloud controller manager of Covey between a tenant's API and a management API, in which
//! KubeVirt and load balancers are played.
//!
//! Invariant: the same cloud is shown as to the stock controllers, in the objects that there are in
//! a management cluster.

use std::collections::BTreeMap;

use anyhow::Result;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use ccm::names;

use super::Side;
use super::scenario::{Cloud, Machine, State};
use crate::support::{Ccm, Environment};

/// It, running.
pub(super) struct Ours<'a> {
    environment: &'a Environment,
    _ccm: Ccm,
    cloud: watch::Sender<Cloud>,
    player: JoinHandle<Result<()>>,
}

impl<'a> Ours<'a> {
    pub(super) fn start(environment: &'a Environment) -> Result<Self> {
        let (cloud, told) = watch::channel(Cloud::default());
        Ok(Self {
            environment,
            _ccm: Ccm::start(environment)?,
            cloud,
            player: tokio::spawn(play(environment.mirrors(), told)),
        })
    }

    async fn machine(&self, name: &str, machine: &Machine) -> Result<()> {
        let environment = self.environment;
        let mut labels = BTreeMap::new();
        let values = [&machine.zone, &machine.region, &machine.size];
        for (keys, value) in names::TOPOLOGY.iter().zip(values) {
            if !value.is_empty() {
                labels.insert(keys[0], value);
            }
        }
        environment.vm(name, &json!(labels)).await?;
        if machine.state == State::Stopped {
            self.delete(kinds::VIRTUAL_MACHINE_INSTANCE, name).await?;
            return environment
                .vm_status(name, &json!({ "created": false }))
                .await;
        }
        environment
            .vm_status(name, &json!({ "created": true }))
            .await?;
        let addresses: Vec<_> = machine.addresses.iter().map(String::as_str).collect();
        environment.instance(name, &addresses).await?;
        if machine.state == State::Ended {
            let instances = untyped::of(
                kinds::VIRTUAL_MACHINE_INSTANCE,
                &environment.admin,
                Some(&environment.ns),
            );
            let patch = json!({ "status": { "phase": "Succeeded" } });
            instances
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await?;
        }
        Ok(())
    }

    async fn delete(&self, kind: Kind, name: &str) -> Result<()> {
        let objects = untyped::of(kind, &self.environment.admin, Some(&self.environment.ns));
        match objects.delete(name, &Default::default()).await {
            Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}

impl Side for Ours<'_> {
    const NAME: &'static str = "ours";

    fn tenant(&self) -> &Client {
        &self.environment.inside
    }

    async fn set(&mut self, cloud: &Cloud) -> Result<()> {
        let before = self.cloud.borrow().clone();
        for (name, machine) in &cloud.machines {
            if before.machines.get(name) != Some(machine) {
                self.machine(name, machine).await?;
            }
        }
        for name in before.machines.keys() {
            if !cloud.machines.contains_key(name) {
                self.delete(kinds::VIRTUAL_MACHINE, name).await?;
                self.delete(kinds::VIRTUAL_MACHINE_INSTANCE, name).await?;
            }
        }
        self.cloud.send_replace(cloud.clone());
        Ok(())
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        self.player.abort();
    }
}

/// Plays the load balancers of the management cluster: each mirror gets the addresses that the cloud
/// has for its Service, whichever comes first.
async fn play(mirrors: Api<Service>, mut told: watch::Receiver<Cloud>) -> Result<()> {
    let mut events = watcher(mirrors.clone(), watcher::Config::default()).boxed();
    // Name of the Service, and what was last given, by the name of the mirror.
    let mut known = BTreeMap::<String, (String, Vec<Value>)>::new();
    loop {
        tokio::select! {
            changed = told.changed() => changed?,
            event = events.next() => match event {
                Some(Ok(Event::Apply(mirror) | Event::InitApply(mirror))) => {
                    let service = mirror.annotations().get(names::ANNOTATION_SERVICE);
                    let service = service.cloned().unwrap_or_default();
                    known.entry(mirror.name_any()).or_insert((service, Vec::new()));
                }
                Some(Ok(Event::Delete(mirror))) => {
                    known.remove(&mirror.name_any());
                }
                Some(Ok(Event::Init | Event::InitDone)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => anyhow::bail!("the watch of mirrors ended"),
            },
        }
        let cloud = told.borrow_and_update().clone();
        for (name, (service, given)) in &mut known {
            let wanted = cloud.balancers.get(service).cloned().unwrap_or_default();
            if wanted == *given {
                continue;
            }
            let patch = json!({ "status": { "loadBalancer": { "ingress": wanted } } });
            let params = PatchParams::default();
            let patched = mirrors
                .patch_status(name, &params, &Patch::Merge(&patch))
                .await;
            match patched {
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                other => {
                    other?;
                    *given = wanted;
                }
            }
        }
    }
}
