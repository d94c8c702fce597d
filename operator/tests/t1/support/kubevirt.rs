//! Plays KubeVirt and the kubelets of its virtual machines, for one site.
//!
//! For each VirtualMachine an instance that runs, and a node in the tenant's stand-in as soon as the
//! instance does, if the bootstrap token is valid there; a VirtualMachine that is deleted goes after
//! its instance, as KubeVirt's finalizer sees to.
//! Invariant: only the site's virtual machines are touched, and nothing is written where everything
//! is already as it should be, so it comes to rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use api::names;
use futures::StreamExt;
use futures::stream::{BoxStream, select};
use kit::apply::{Kind, kinds};
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use testkit::TenantApis;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Site;

/// The management cluster's node that all of them run on; [`host`] makes it.
pub(crate) const HOST: &str = "host-1";
/// The zone that it is in.
pub(crate) const ZONE: &str = "zone-a";

/// As KubeVirt calls it.
const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";

/// What it does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Machines run, and their nodes join.
    Joining,
    /// Machines run, and no node joins.
    Mute,
    /// The management cluster has no room for instances.
    Full,
    /// Instances are refused.
    Refusing,
    /// Nothing happens, whatever is made or deleted.
    Asleep,
}

/// A running player; it ends when it is dropped.
pub(crate) struct KubeVirtPlayer {
    mode: watch::Sender<Mode>,
    task: JoinHandle<()>,
}

impl KubeVirtPlayer {
    pub(crate) fn start(site: &Site) -> Self {
        let (mode, modes) = watch::channel(Mode::Joining);
        let stage = Stage {
            client: site.admin.clone(),
            tenants: Arc::clone(&site.tenants),
            vms: BTreeMap::new(),
        };
        let events = stage.events(&site.users);
        let task = tokio::spawn(stage.play(events, modes));
        Self { mode, task }
    }

    /// Changes what it does; what is there already is looked at again.
    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for KubeVirtPlayer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes the management cluster's node, once.
async fn host(admin: &Client) -> Result<()> {
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": {
        "name": HOST, "labels": { names::LABEL_ZONE: ZONE, names::LABEL_REGION: "here" },
    } });
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(admin.clone());
    let apply = PatchParams::apply("player");
    nodes.patch(HOST, &apply, &Patch::Apply(node)).await?;
    Ok(())
}

/// The path of a node.
pub(crate) fn node_path(name: &str) -> String {
    format!("/api/v1/nodes/{name}")
}

/// Status of a node.
pub(crate) fn node_status(ready: &str) -> Value {
    let condition = json!({ "type": "Ready", "status": ready, "message": "as the test says" });
    json!({ "conditions": [condition], "nodeInfo": { "kubeletVersion": "v1.35.4" } })
}

type Key = (String, String);

struct Stage {
    client: Client,
    tenants: Arc<TenantApis>,
    vms: BTreeMap<Key, DynamicObject>,
}

fn key(object: &DynamicObject) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// An event of a VirtualMachine (true) or an instance.
type Seen = (bool, Event<DynamicObject>);

impl Stage {
    fn api(&self, kind: Kind, namespace: &str) -> Api<DynamicObject> {
        kind.api(&self.client, Some(namespace))
    }

    fn events(&self, users: &str) -> BoxStream<'static, Seen> {
        let selector = format!(
            "{},{}={users}",
            names::LABEL_MACHINE,
            names::LABEL_TENANT_NAMESPACE
        );
        let watched = |kind: Kind, vm: bool| {
            let api = Api::all_with(self.client.clone(), &kind.resource());
            let events = watcher(api, watcher::Config::default().labels(&selector));
            // The watcher comes back by itself after an error.
            let events = events.default_backoff();
            events.filter_map(move |event| std::future::ready(event.ok().map(|event| (vm, event))))
        };
        let vms = watched(kinds::VIRTUAL_MACHINE, true).boxed();
        let instances = watched(kinds::VIRTUAL_MACHINE_INSTANCE, false).boxed();
        select(vms, instances).boxed()
    }

    async fn play(
        mut self,
        mut events: BoxStream<'static, Seen>,
        mut modes: watch::Receiver<Mode>,
    ) {
        if let Err(error) = host(&self.client).await {
            eprintln!("the player of KubeVirt has no host: {error:#}");
        }
        loop {
            let due: Vec<Key> = tokio::select! {
                changed = modes.changed() => match changed {
                    Ok(()) => self.vms.keys().cloned().collect(),
                    Err(_) => return,
                },
                event = events.next() => match event {
                    Some((vm, event)) => self.take(vm, event),
                    None => return,
                },
            };
            let mode = *modes.borrow_and_update();
            for key in due {
                if let Err(error) = self.act(&key, mode).await {
                    eprintln!("the player of KubeVirt failed at {key:?}: {error:#}");
                }
            }
        }
    }

    fn take(&mut self, vm: bool, event: Event<DynamicObject>) -> Vec<Key> {
        match event {
            Event::Apply(object) | Event::InitApply(object) => {
                let key = key(&object);
                if !vm {
                    // Nothing is to be done about one that is there.
                    return Vec::new();
                }
                self.vms.insert(key.clone(), object);
                vec![key]
            }
            Event::Delete(object) => {
                let key = key(&object);
                if vm {
                    self.vms.remove(&key);
                    return Vec::new();
                }
                vec![key]
            }
            Event::Init | Event::InitDone => Vec::new(),
        }
    }

    async fn act(&self, key: &Key, mode: Mode) -> Result<()> {
        let Some(vm) = self.vms.get(key) else {
            return Ok(());
        };
        let done = match mode {
            Mode::Asleep => return Ok(()),
            _ if vm.metadata.deletion_timestamp.is_some() => self.end(key).await,
            _ => self.run(key, vm, mode).await,
        };
        match done {
            // It changed or went meanwhile; its watch will tell.
            Err(kube::Error::Api(status)) if [403, 404, 409].contains(&status.code) => Ok(()),
            done => Ok(done?),
        }
    }

    async fn end(&self, (namespace, name): &Key) -> Result<(), kube::Error> {
        let instances = self.api(kinds::VIRTUAL_MACHINE_INSTANCE, namespace);
        if instances.get_opt(name).await?.is_some() {
            instances.delete(name, &DeleteParams::default()).await?;
        }
        let off = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        let vms = self.api(kinds::VIRTUAL_MACHINE, namespace);
        vms.patch(name, &PatchParams::default(), &off).await?;
        Ok(())
    }

    async fn run(&self, key: &Key, vm: &DynamicObject, mode: Mode) -> Result<(), kube::Error> {
        let (namespace, name) = key;
        let vms = self.api(kinds::VIRTUAL_MACHINE, namespace);
        let params = PatchParams::default();
        if vm.finalizers().is_empty() {
            let on = Patch::Merge(json!({ "metadata": { "finalizers": [FINALIZER] } }));
            vms.patch(name, &params, &on).await?;
            // Its event comes.
            return Ok(());
        }
        let status = match mode {
            Mode::Refusing => json!({
                "printableStatus": "Stopped",
                "conditions": [{ "type": "Failure", "status": "True", "reason": "FailedCreate",
                                 "message": "exceeded quota" }],
            }),
            _ => json!({ "printableStatus": "Running", "conditions": null }),
        };
        if vm.data["status"]["printableStatus"] != status["printableStatus"] {
            let status = Patch::Merge(json!({ "status": status }));
            vms.patch_status(name, &params, &status).await?;
        }
        if mode == Mode::Refusing {
            return Ok(());
        }
        let instances = self.api(kinds::VIRTUAL_MACHINE_INSTANCE, namespace);
        let found = instances.get_opt(name).await?;
        let instance = match found {
            Some(instance) => instance,
            None => {
                let made = serde_json::from_value(instance(vm))
                    .expect("invariant: it has a kind and metadata");
                instances.create(&PostParams::default(), &made).await?
            }
        };
        let status = match mode {
            Mode::Full => json!({
                "phase": "Scheduling", "interfaces": null,
                "conditions": [{ "type": "PodScheduled", "status": "False",
                                 "reason": "Unschedulable", "message": "0/1 nodes are available" }],
            }),
            _ => json!({
                "phase": "Running", "conditions": null, "nodeName": HOST,
                "interfaces": [{ "name": "default", "ipAddress": address(name) }],
            }),
        };
        if instance.data["status"]["phase"] != status["phase"] {
            let patch = Patch::Merge(json!({ "status": status }));
            instances.patch(name, &params, &patch).await?;
        }
        if mode == Mode::Joining {
            self.join(namespace, name, vm);
        }
        Ok(())
    }

    /// As kubeadm does it: without a valid token there is no node.
    fn join(&self, namespace: &str, name: &str, vm: &DynamicObject) {
        let path = node_path(name);
        let uid = vm.labels().get(names::LABEL_MACHINE_UID);
        let token = tenant_cp::join::token_secret_name(uid.map_or("", String::as_str));
        let token = format!("/api/v1/namespaces/kube-system/secrets/{token}");
        let there = |path: &str| self.tenants.object(namespace, path).is_some();
        if there(&path) || !there(&token) {
            return;
        }
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "spec": { "providerID": names::kubevirt_provider_id(name) },
            "status": node_status("True"),
        });
        self.tenants.put(namespace, &path, &node);
    }
}

/// What KubeVirt makes of a VirtualMachine.
fn instance(vm: &DynamicObject) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
        // Without an owner, so that its end is never the garbage collector's work.
        "metadata": { "name": vm.name_any(), "labels": vm.labels() },
        "spec": {},
    })
}

/// The address of a machine: its own, as far as a test needs it.
pub(crate) fn address(name: &str) -> String {
    let sum = name.bytes().fold(7_u32, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u32::from(byte))
    });
    format!("10.64.{}.{}", sum / 200 % 200, sum % 200 + 1)
}
