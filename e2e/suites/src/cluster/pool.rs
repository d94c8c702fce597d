//! One NodePool under test: create, scale, look at its Machines and their virtual machines, delete.
//!
//! Invariant: times count from the moment just before the create call; the operator is asked only
//! through the objects that users read.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use api::{
    ConditionType, Machine, NodePool, NodePoolSpec, condition,
    foreign::kubevirt::{VirtualMachine, VirtualMachineInstance},
    names,
    node_pool::{KubeVirt, Placement, Provider},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectList, Patch, PatchParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::{Value, json};

use super::{
    Tenant,
    wait::{wait_for, wait_gone, wait_list},
};

/// Label that KubeVirt puts on the pod of a virtual machine's instance.
const LAUNCHER: &str = "kubevirt.io=virt-launcher";

/// One NodePool.
#[derive(Clone)]
pub struct Pool {
    /// The tenant cluster that its nodes belong to.
    pub tenant: Tenant,
    /// Name of the NodePool.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Just before the create call.
    pub created: Instant,
}

/// What tests ask for unless they say otherwise: one machine, small enough that two fit beside
/// everything else, with its console in the logs for whoever has to find out why it does not join.
#[must_use]
pub fn small(cluster: &str) -> NodePoolSpec {
    let kubevirt = KubeVirt {
        memory: "1536Mi".into(),
        serial_console: true,
        shutdown_timeout: "5s".into(),
        ..KubeVirt::default()
    };
    NodePoolSpec {
        cluster_name: cluster.to_owned(),
        replicas: 1,
        autoscaling: None,
        version: None,
        provider: Some(Provider {
            kubevirt: Some(kubevirt),
            ..Provider::default()
        }),
        locations: Vec::new(),
        placement: Placement::default(),
        kubelet: Default::default(),
        labels: BTreeMap::new(),
        taints: Vec::new(),
        ssh_authorized_keys: Vec::new(),
        rollout: Default::default(),
        drain_timeout: "1m".into(),
        health: Default::default(),
    }
}

impl Pool {
    /// Creates it.
    ///
    /// # Errors
    /// When the management API refuses it.
    pub async fn create(tenant: &Tenant, name: &str, spec: NodePoolSpec) -> Result<Self> {
        let api: Api<NodePool> = Api::namespaced(tenant.management.clone(), &tenant.namespace);
        let created = Instant::now();
        let pool = api
            .create(&PostParams::default(), &NodePool::new(name, spec))
            .await
            .with_context(|| format!("create the NodePool {}/{name}", tenant.namespace))?;
        Ok(Self {
            tenant: tenant.clone(),
            name: name.to_owned(),
            uid: pool
                .metadata
                .uid
                .context("the API gives every object a UID")?,
            created,
        })
    }

    /// NodePools of its namespace.
    #[must_use]
    pub fn api(&self) -> Api<NodePool> {
        Api::namespaced(self.tenant.management.clone(), &self.tenant.namespace)
    }

    /// Machines of its namespace.
    #[must_use]
    pub fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.tenant.management.clone(), &self.tenant.namespace)
    }

    /// What selects its own Machines.
    #[must_use]
    pub fn own(&self) -> Config {
        Config::default().labels(&names::pool_selector(&self.name))
    }

    /// Its Machines, by name.
    ///
    /// # Errors
    /// When the management API does not answer.
    pub async fn list(&self) -> Result<BTreeMap<String, Machine>> {
        let own = ListParams::default().labels(&names::pool_selector(&self.name));
        let list = self.machines().list(&own).await?;
        Ok(list.into_iter().map(|m| (m.name_any(), m)).collect())
    }

    /// Changes its spec by a merge patch.
    ///
    /// # Errors
    /// When the management API refuses.
    pub async fn patch(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": spec }));
        self.api()
            .patch(&self.name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("change the NodePool {}", self.name))?;
        Ok(())
    }

    /// Waits until it says that its tenant cluster is gone, which it outlives.
    ///
    /// # Errors
    /// When that takes longer.
    pub async fn outlives_its_cluster(&self, timeout: Duration) -> Result<()> {
        let what = "says that its tenant cluster is gone";
        wait_for(&self.api(), &self.name, what, timeout, |pool| {
            let conditions = &pool.status.as_ref()?.conditions;
            let found = conditions.iter().find(|c| c.reason == "ClusterNotFound");
            found.map(drop)
        })
        .await
        .map(drop)
    }

    /// Waits until so many nodes are ready, all of the newest template, and nothing is under way;
    /// returns the Machines.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn settled(
        &self,
        count: i32,
        timeout: Duration,
    ) -> Result<BTreeMap<String, Machine>> {
        let what = format!("{count} nodes are ready and nothing is under way");
        let pools = self.api();
        let wait = wait_for(&pools, &self.name, &what, timeout, |pool| {
            let status = pool.status.as_ref()?;
            let is = |type_| condition::is_true(&status.conditions, type_);
            let counts = [
                pool.spec.replicas,
                status.replicas,
                status.ready_replicas,
                status.updated_replicas,
            ];
            let current = status.observed_generation == pool.metadata.generation;
            let done = is(ConditionType::Ready) && !is(ConditionType::Progressing);
            (current && done && counts == [count; 4]).then_some(())
        });
        if let Err(error) = wait.await {
            let machines = self.list().await.unwrap_or_default();
            let machines: Vec<_> = machines.values().map(super::wait::describe).collect();
            return Err(error.context(format!("Machines:\n{}", machines.join("\n"))));
        }
        self.list().await
    }

    /// Waits until `check` makes something of its Machines.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn machines_are<T>(
        &self,
        what: &str,
        timeout: Duration,
        check: impl FnMut(&BTreeMap<String, Machine>) -> Option<T>,
    ) -> Result<T> {
        wait_list(&self.machines(), self.own(), what, timeout, check).await
    }

    /// The virtual machines of the tenant cluster.
    #[must_use]
    pub fn virtual_machines(&self) -> Api<VirtualMachine> {
        self.tenant.parts()
    }

    /// Their instances.
    #[must_use]
    pub fn instances(&self) -> Api<VirtualMachineInstance> {
        self.tenant.parts()
    }

    /// Asks for its deletion.
    ///
    /// # Errors
    /// When the management API refuses.
    pub async fn delete(&self) -> Result<()> {
        match self
            .api()
            .delete(&self.name, &DeleteParams::default())
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("delete {}", self.name)),
        }
    }

    /// Waits until it and all its Machines are gone.
    ///
    /// # Errors
    /// When it takes longer.
    pub async fn gone(&self, timeout: Duration) -> Result<()> {
        wait_gone(&self.api(), &self.name, Some(&self.uid), timeout).await?;
        self.machines_are("no Machine is left", timeout, |all| {
            all.is_empty().then_some(())
        })
        .await
    }
}

/// What is left of a tenant cluster's workers in its tenant namespace, by kind and name. What it
/// does not list is gone: virtual machines, their instances and the pods of those.
///
/// # Errors
/// When the management API does not answer.
pub async fn remains(tenant: &Tenant) -> Result<Vec<String>> {
    let all = ListParams::default();
    let mut found = Vec::new();
    for machine in served(tenant.parts::<VirtualMachine>().list(&all).await)? {
        found.push(format!("VirtualMachine {}", machine.name_any()));
    }
    for instance in served(tenant.parts::<VirtualMachineInstance>().list(&all).await)? {
        found.push(format!("VirtualMachineInstance {}", instance.name_any()));
    }
    let launchers = all.labels(LAUNCHER);
    for pod in tenant.parts::<Pod>().list(&launchers).await? {
        found.push(format!("Pod {}", pod.name_any()));
    }
    let machines: Api<Machine> = Api::namespaced(tenant.management.clone(), &tenant.namespace);
    for machine in machines.list(&ListParams::default()).await? {
        if machine.spec.cluster_name == tenant.name {
            found.push(format!("Machine {}", machine.name_any()));
        }
    }
    Ok(found)
}

/// What a list of a kind of KubeVirt says: without KubeVirt in the lab there are none.
fn served<K: Clone>(listed: kube::Result<ObjectList<K>>) -> Result<Vec<K>> {
    match listed {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
        Err(other) => Err(other.into()),
    }
}

/// The pod in which a machine's instance runs.
///
/// # Errors
/// When there is none.
pub async fn launcher(tenant: &Tenant, machine: &str) -> Result<Pod> {
    let pods = tenant.parts::<Pod>();
    let label = format!("{LAUNCHER},{}={machine}", names::LABEL_MACHINE);
    let list = pods.list(&ListParams::default().labels(&label)).await?;
    let mut alive = list
        .items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    alive
        .next()
        .with_context(|| format!("no pod runs the machine {machine}"))
}
