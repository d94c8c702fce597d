//! Plays the storage of the management cluster and KubeVirt: claims are bound and grow, virtual
//! machines run, disks that a template names become ready, and go when it no longer does.
//!
//! Invariant: it acts on what a watch tells, and never looks at what the driver does.

use std::collections::BTreeMap;

use anyhow::Result;
use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use csi_proxy::model::{Instance, Machine};
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use k8s_openapi::api::core::v1::{Event as Complaint, PersistentVolumeClaim};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Site;

/// What it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Everything works.
    Works,
    /// Storage makes no volume, and says so.
    Full,
    /// Disks come as far as the management cluster's node, and no farther.
    Stuck,
    /// What runs lets go of nothing, and outlives its virtual machine.
    Clings,
}

/// A running one; it ends when it is dropped.
pub(crate) struct Player {
    mode: watch::Sender<Mode>,
    task: JoinHandle<()>,
}

enum Seen {
    Claim(Box<PersistentVolumeClaim>),
    Vm(Box<VirtualMachine>),
    Snapshot(Box<DynamicObject>),
    /// A virtual machine of this name is gone.
    NoVm(String),
}

struct Stage {
    claims: Api<PersistentVolumeClaim>,
    vms: Api<VirtualMachine>,
    vmis: Api<VirtualMachineInstance>,
    complaints: Api<Complaint>,
    snapshots: Api<DynamicObject>,
    seen: BTreeMap<String, Seen>,
}

const GIB: i64 = 1 << 30;

impl Player {
    pub(crate) fn start(site: &Site) -> Self {
        let (mode, modes) = watch::channel(Mode::Works);
        let stage = Stage {
            claims: site.claims(),
            vms: site.vms(),
            vmis: site.vmis(),
            complaints: Api::namespaced(site.admin.clone(), &site.ns),
            snapshots: site.snapshots(),
            seen: BTreeMap::new(),
        };
        let task = tokio::spawn(stage.play(modes));
        Self { mode, task }
    }

    /// Changes what it does; what is there already is looked at again.
    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stage {
    fn events(&self) -> BoxStream<'static, (String, Seen)> {
        let claims = watcher(self.claims.clone(), Config::default()).default_backoff();
        let claims = claims.filter_map(async |event| match event {
            Ok(Event::Apply(claim) | Event::InitApply(claim)) => Some((
                format!("claim {}", claim.name_any()),
                Seen::Claim(Box::new(claim)),
            )),
            _ => None,
        });
        let vms = watcher(self.vms.clone(), Config::default()).default_backoff();
        let vms = vms.filter_map(async |event| match event {
            Ok(Event::Apply(vm) | Event::InitApply(vm)) => {
                Some((format!("vm {}", vm.name_any()), Seen::Vm(Box::new(vm))))
            }
            Ok(Event::Delete(vm)) => {
                Some((format!("vm {}", vm.name_any()), Seen::NoVm(vm.name_any())))
            }
            _ => None,
        });
        let snapshots = watcher(self.snapshots.clone(), Config::default()).default_backoff();
        let snapshots = snapshots.filter_map(async |event| match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => Some((
                format!("snapshot {}", object.name_any()),
                Seen::Snapshot(Box::new(object)),
            )),
            _ => None,
        });
        select_all([claims.boxed(), vms.boxed(), snapshots.boxed()]).boxed()
    }

    async fn play(mut self, mut modes: watch::Receiver<Mode>) {
        let mut events = self.events();
        loop {
            let due: Vec<String> = tokio::select! {
                changed = modes.changed() => match changed {
                    Ok(()) => self.seen.keys().cloned().collect(),
                    Err(_) => return,
                },
                event = events.next() => {
                    let Some((key, seen)) = event else { return };
                    self.seen.insert(key.clone(), seen);
                    vec![key]
                }
            };
            let mode = *modes.borrow_and_update();
            for key in due {
                let done = match &self.seen[&key] {
                    Seen::Claim(claim) => self.store(claim, mode).await,
                    Seen::Vm(vm) => self.run(vm, mode).await,
                    Seen::Snapshot(snapshot) => self.cut(snapshot).await,
                    Seen::NoVm(name) => self.end(name, mode).await,
                };
                match done {
                    // It changed or went meanwhile; its watch will tell.
                    Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                    Err(error) => eprintln!("the player failed at {key}: {error:?}"),
                    Ok(()) => {}
                }
            }
        }
    }

    async fn store(&self, claim: &PersistentVolumeClaim, mode: Mode) -> Result<(), kube::Error> {
        let (name, params) = (claim.name_any(), PatchParams::default());
        if claim.metadata.deletion_timestamp.is_some() {
            let off = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            return self.claims.patch(&name, &params, &off).await.map(drop);
        }
        let claim_json = json!(claim);
        let bytes = |amount: &Value| amount.as_str().and_then(kit::apply::bytes).unwrap_or(0);
        let asked = bytes(&claim_json["spec"]["resources"]["requests"]["storage"]);
        if bytes(&claim_json["status"]["capacity"]["storage"]) >= asked {
            return Ok(());
        }
        if mode == Mode::Full {
            return self.complain(claim).await;
        }
        // As storage does: in whole gibibytes.
        let size = (asked + GIB - 1) / GIB;
        let status = json!({ "phase": "Bound", "capacity": { "storage": format!("{size}Gi") } });
        let status = Patch::Merge(json!({ "status": status }));
        self.claims
            .patch_status(&name, &params, &status)
            .await
            .map(drop)
    }

    /// Snapshots are cut at once, and are as large as what is asked for of the claim.
    async fn cut(&self, snapshot: &DynamicObject) -> Result<(), kube::Error> {
        if snapshot.data["status"]["readyToUse"] == true {
            return Ok(());
        }
        let claim = snapshot.data["spec"]["source"]["persistentVolumeClaimName"].as_str();
        let claim = json!(self.claims.get(claim.unwrap_or_default()).await?);
        let status = Patch::Merge(json!({ "status": {
            "readyToUse": true, "creationTime": "2026-01-01T00:00:00Z",
            "restoreSize": claim["status"]["capacity"]["storage"],
        } }));
        let (name, params) = (snapshot.name_any(), PatchParams::default());
        let done = self.snapshots.patch_status(&name, &params, &status).await;
        done.map(drop)
    }

    async fn complain(&self, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
        let complaint = json!({
            "metadata": { "generateName": "full-" },
            "involvedObject": {
                "kind": "PersistentVolumeClaim", "name": claim.name_any(),
                "namespace": claim.namespace(), "uid": claim.uid(),
            },
            "type": "Warning", "reason": "ProvisioningFailed", "message": "no room on any disk",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        });
        let complaint = serde_json::from_value(complaint).expect("invariant: it is an Event");
        self.complaints
            .create(&PostParams::default(), &complaint)
            .await
            .map(drop)
    }

    async fn run(&self, vm: &VirtualMachine, mode: Mode) -> Result<(), kube::Error> {
        let (name, machine) = (vm.name_any(), Machine::read(vm));
        let instance = match self.vmis.get_opt(&name).await? {
            Some(instance) => instance,
            None => {
                let made = json!({
                    "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                    "metadata": { "name": name }, "spec": {},
                });
                let made = serde_json::from_value(made).expect("invariant: it is an instance");
                self.vmis.create(&PostParams::default(), &made).await?
            }
        };
        let is = Instance::read(&instance);
        let mut claims: Vec<_> = machine
            .slots()
            .filter_map(|slot| slot.claim.clone())
            .collect();
        let kept = is.claims.iter().filter(|claim| !claims.contains(claim));
        let kept: Vec<_> = kept.cloned().collect();
        if mode == Mode::Clings {
            claims.extend(kept);
        }
        let phase = |claim: &String| match is.volumes.get(claim) {
            Some(progress) if progress.phase == "Ready" => "Ready",
            _ if mode == Mode::Stuck => "AttachedToNode",
            _ => "Ready",
        };
        let volumes = claims.iter().map(|claim| {
            let source = json!({ "claimName": claim, "hotpluggable": true });
            json!({ "name": claim, "persistentVolumeClaim": source })
        });
        let status = claims.iter().map(|claim| {
            json!({ "name": claim, "target": "sda", "phase": phase(claim), "message": "as played" })
        });
        let patch = json!({
            "spec": { "volumes": volumes.collect::<Vec<_>>() },
            "status": { "phase": "Running", "volumeStatus": status.collect::<Vec<_>>() },
        });
        // KubeVirt's definition of instances has no status subresource.
        let patch = Patch::Merge(patch);
        self.vmis
            .patch(&name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }

    async fn end(&self, name: &str, mode: Mode) -> Result<(), kube::Error> {
        if mode == Mode::Clings {
            return Ok(());
        }
        self.vmis.delete(name, &Default::default()).await.map(drop)
    }
}
