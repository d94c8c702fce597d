//! The cloud controller manager of Covey between a tenant's API and a management API, in which
//! KubeVirt and load balancers are played.
//!
//! Invariant: the same cloud is shown as to the stock controllers, in the objects that there are in
//! a management cluster.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kit_client::untyped;
use kit_objects::kinds::{self, Kind};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testkit::audit::Window;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use ccm::names;

use super::Side;
use super::balancers::{self, Balancer};
use super::effects::Effects;
use super::scenario::{Cloud, Machine, State, Step};
use crate::support::environment::ready_of;
use crate::support::{Ccm, Environment};

/// It, running.
pub(super) struct Ours<'a> {
    environment: &'a Environment,
    _ccm: Ccm,
    cloud: watch::Sender<Cloud>,
    /// Names of Services by those of their mirrors, also of mirrors that are gone.
    mirrors: BTreeMap<String, String>,
    /// What was asked of the management API since the step began.
    asked: Window,
    player: JoinHandle<Result<()>>,
}

impl<'a> Ours<'a> {
    pub(super) fn start(environment: &'a Environment) -> Result<Self> {
        let (cloud, told) = watch::channel(Cloud::default());
        Ok(Self {
            environment,
            _ccm: Ccm::start(environment)?,
            cloud,
            mirrors: BTreeMap::new(),
            asked: environment.management.audit().window()?,
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

    /// Where its ports lead to is where endpoints say, if that is what the mirror says.
    fn balancer<'s>(
        &self,
        mirror: &Service,
        slices: impl Iterator<Item = &'s EndpointSlice>,
    ) -> Balancer {
        let slices: Vec<_> = slices.collect();
        let mut spec = mirror.spec.clone().unwrap_or_default();
        for port in spec.ports.iter_mut().flatten() {
            let target = match &port.target_port {
                Some(IntOrString::Int(target)) => Some(*target),
                _ => None,
            };
            let (name, protocol) = (port.name.clone().unwrap_or_default(), &port.protocol);
            let leads = slices.iter().all(|slice| {
                slice.ports.iter().flatten().any(|its| {
                    let named = its.name.as_deref().unwrap_or_default() == name;
                    named && its.port == target && its.protocol == *protocol
                })
            });
            port.node_port = target.filter(|_| leads);
        }
        let ready = ready_of(&slices.into_iter().cloned().collect::<Vec<_>>());
        let cloud = self.cloud.borrow();
        let machine = |address: String| {
            let mut machines = cloud.machines.iter();
            let of = machines.find(|(_, machine)| machine.addresses.contains(&address));
            of.map_or(address, |(name, _)| name.clone())
        };
        let nodes = ready.into_iter().map(machine).collect();
        Balancer { spec, nodes }
    }

    /// Objects of load balancers that were written more often than this.
    fn written(&self, most: usize) -> Result<Effects> {
        let mut times = BTreeMap::<_, usize>::new();
        for write in self.asked.writes_of(&self.environment.user())? {
            let object = write.name.unwrap_or_default();
            let mut mirrors = self.mirrors.iter();
            let of = mirrors.find(|(mirror, _)| object.starts_with(*mirror));
            if let Some((_, service)) = of {
                *times.entry((service, write.kind, object)).or_default() += 1;
            }
        }
        let often = times.into_iter().filter(|(_, times)| *times > most);
        let line = |((service, kind, _), times)| {
            format!("Balancer {service} was written to {times} times: {kind}")
        };
        Ok(often.map(line).collect())
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

    fn begin(&mut self) -> Result<()> {
        self.asked = self.environment.management.audit().window()?;
        Ok(())
    }

    async fn balancers(&mut self, step: &Step) -> Result<Effects> {
        let mirrors = self.environment.mirrors().list(&Default::default()).await?;
        let slices = self.environment.slices().list(&Default::default()).await?;
        let services = balancers::services(self.tenant()).await?;
        let mut lines = Effects::new();
        for mirror in mirrors {
            let name = mirror.annotations().get(names::ANNOTATION_SERVICE);
            let name = name.context("it says of what it is the mirror")?.clone();
            let of = slices.items.iter().filter(|slice| {
                slice.labels().get(names::LABEL_SLICE_OF) == Some(&mirror.name_any())
            });
            let balancer = self.balancer(&mirror, of);
            lines.extend(balancers::of(&name, &balancer, services.get(&name)));
            self.mirrors.insert(mirror.name_any(), name);
        }
        lines.extend(self.written(usize::from(!step.quiet))?);
        Ok(lines)
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
