//! Watches on virtual machines: one on each kind in every tenant namespace with Machines.
//!
//! Invariant: narrowed to what was made for Machines; one namespace at a time, because there is no
//! cluster-wide right on virtual machines.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use api::foreign::kubevirt::{VirtualMachine, VirtualMachineInstance};
use api::{Machine, names};
use futures::stream::{BoxStream, select};
use futures::{StreamExt, TryStreamExt};
use kube::api::{ObjectMeta, PartialObjectMeta};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The watches.
pub struct VmWatches {
    client: Client,
    machines: mpsc::UnboundedSender<ObjectRef<Machine>>,
    tasks: Mutex<HashMap<String, JoinHandle<()>>>,
}

impl VmWatches {
    /// No watches yet.
    #[must_use]
    pub fn new(client: Client, machines: mpsc::UnboundedSender<ObjectRef<Machine>>) -> Self {
        Self {
            client,
            machines,
            tasks: Mutex::default(),
        }
    }

    /// Starts the watches of a tenant cluster, unless they run.
    pub fn ensure(&self, cluster_uid: &str, tenant_namespace: &str) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks
            .get(cluster_uid)
            .is_some_and(|task| !task.is_finished())
        {
            return;
        }
        let vms = machines::<VirtualMachine>(&self.client, tenant_namespace);
        let instances = machines::<VirtualMachineInstance>(&self.client, tenant_namespace);
        let wake = self.machines.clone();
        let task = tokio::spawn(async move {
            let mut events = select(vms, instances);
            while let Some(machine) = events.next().await {
                if wake.send(machine).is_err() {
                    return;
                }
            }
        });
        tasks.insert(cluster_uid.to_owned(), task);
    }

    /// Ends the watches of a tenant cluster.
    pub fn forget(&self, cluster_uid: &str) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = tasks.remove(cluster_uid) {
            task.abort();
        }
    }

    /// Number of tenant clusters whose virtual machines are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.len()
    }

    /// True when nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Drop for VmWatches {
    fn drop(&mut self) {
        let tasks = self.tasks.get_mut().unwrap_or_else(PoisonError::into_inner);
        tasks.values().for_each(JoinHandle::abort);
    }
}

/// The Machines of a stream of metadata events; deletions count.
fn machines<K>(client: &Client, namespace: &str) -> BoxStream<'static, ObjectRef<Machine>>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let api = Api::<PartialObjectMeta<K>>::namespaced(client.clone(), namespace);
    let config = watcher::Config::default().labels(names::LABEL_MACHINE);
    let events = watcher(api, config).default_backoff();
    events
        .inspect_err(|error| {
            tracing::debug!(
                error = kit_client::errors::chain(error),
                "watch is interrupted"
            );
        })
        .filter_map(async |event| match event.ok()? {
            Event::Apply(o) | Event::InitApply(o) | Event::Delete(o) => machine(&o.metadata),
            Event::Init | Event::InitDone => None,
        })
        .boxed()
}

/// The Machine that an object was made for, by its labels.
fn machine(meta: &ObjectMeta) -> Option<ObjectRef<Machine>> {
    let labels = meta.labels.as_ref()?;
    let (name, namespace) = (
        labels.get(names::LABEL_MACHINE)?,
        labels.get(names::LABEL_TENANT_NAMESPACE)?,
    );
    Some(ObjectRef::new(name).within(namespace))
}
