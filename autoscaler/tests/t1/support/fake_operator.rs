//! Fake operator and fake kubelets: machines follow the size of their pool and what the annotation
//! names, and become nodes.
//!
//! Invariant: it acts on what watches tell, and never looks at what the adapter does.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use api::machine::MachinePhase;
use api::{Machine, NodePool, names};
use futures::StreamExt as _;
use futures::stream::{BoxStream, select};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{Config, watcher};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Environment;

/// What it makes of a pool's machines.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Mode {
    /// They become nodes.
    #[default]
    Works,
    /// They are made, and never become nodes.
    Stuck,
    /// They are made, and a quota keeps them from being more than objects.
    Full,
    /// They are nodes, and are to be replaced.
    Rolls,
    /// Nobody looks at the pool.
    Away,
}

/// A running one; it ends when it is dropped.
pub(crate) struct FakeOperator {
    modes: watch::Sender<BTreeMap<String, Mode>>,
    task: JoinHandle<()>,
}

impl FakeOperator {
    pub(crate) fn start(environment: &Environment) -> Self {
        let (modes, changes) = watch::channel(BTreeMap::new());
        let run = Loop {
            pools: environment.pools(),
            machines: environment.machines(),
            nodes: environment.nodes(),
            uid: environment.uid.clone(),
            made: 0,
        };
        let task = tokio::spawn(run.forever(changes));
        Self { modes, task }
    }

    /// Changes what it makes of a pool.
    pub(crate) fn set(&self, pool: &str, mode: Mode) {
        self.modes.send_modify(|modes| {
            modes.insert(pool.to_owned(), mode);
        });
    }
}

impl Drop for FakeOperator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Loop {
    pools: Api<NodePool>,
    machines: Api<Machine>,
    nodes: Api<Node>,
    uid: String,
    /// Machines made so far; no name is used twice.
    made: usize,
}

impl Loop {
    fn events(&self) -> BoxStream<'static, ()> {
        let pools = watcher(self.pools.clone(), Config::default()).default_backoff();
        let machines = watcher(self.machines.clone(), Config::default()).default_backoff();
        select(pools.map(drop), machines.map(drop)).boxed()
    }

    async fn forever(mut self, mut modes: watch::Receiver<BTreeMap<String, Mode>>) {
        let mut events = self.events();
        loop {
            tokio::select! {
                changed = modes.changed() => if changed.is_err() { return },
                event = events.next() => if event.is_none() { return },
            }
            modes.mark_unchanged();
            match self.reconcile(&modes).await {
                // It changed or went meanwhile, or the API is away: a watch will tell.
                Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
                Err(error) => eprintln!("the fake operator failed: {error}"),
                Ok(()) => {}
            }
        }
    }

    async fn reconcile(
        &mut self,
        modes: &watch::Receiver<BTreeMap<String, Mode>>,
    ) -> Result<(), kube::Error> {
        let pools = self.pools.list(&ListParams::default()).await?.items;
        let all = self.machines.list(&ListParams::default()).await?.items;
        // Read after the lists: who sets a mode and then changes a pool finds the mode in force.
        let modes = modes.borrow().clone();
        for pool in pools {
            let name = pool.name_any();
            let mode = modes.get(&name).copied().unwrap_or_default();
            let own = all.iter().filter(|m| m.spec.pool_name == name);
            if mode != Mode::Away {
                self.reconcile_pool(&pool, own.collect(), mode).await?;
            }
        }
        Ok(())
    }

    async fn reconcile_pool(
        &mut self,
        pool: &NodePool,
        machines: Vec<&Machine>,
        mode: Mode,
    ) -> Result<(), kube::Error> {
        let named = pool.annotations().get(names::ANNOTATION_DELETE_MACHINE);
        let named: BTreeSet<_> = named.iter().flat_map(|text| text.split(',')).collect();
        let size = usize::try_from(pool.spec.replicas).unwrap_or_default();
        let (going, staying): (Vec<_>, Vec<_>) = machines
            .into_iter()
            .partition(|machine| named.contains(machine.name_any().as_str()));
        let surplus = staying.iter().skip(size);
        for machine in going.iter().chain(surplus) {
            self.end(&machine.name_any()).await?;
        }
        for machine in staying.iter().take(size) {
            self.run(machine, mode).await?;
        }
        for _ in staying.len()..size {
            self.make(pool).await?;
        }
        let count = staying.len().min(size);
        let updated = if mode == Mode::Rolls { 0 } else { count };
        let ready = staying.iter().filter(|m| is_running(m)).count();
        let status = json!({
            "observedGeneration": pool.metadata.generation,
            "replicas": count, "updatedReplicas": updated, "readyReplicas": ready,
            "locations": told(pool),
        });
        let is = pool.status.as_ref().map(|status| json!(status));
        let same = |key: &str| is.as_ref().is_some_and(|is| is[key] == status[key]);
        let keys = status.as_object().into_iter().flatten();
        if keys.clone().all(|(key, _)| same(key)) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.pools
            .patch_status(&pool.name_any(), &params, &patch)
            .await
            .map(drop)
    }

    async fn make(&mut self, pool: &NodePool) -> Result<(), kube::Error> {
        self.made += 1;
        let name = names::machine(&pool.name_any(), &format!("{:05}", self.made));
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": name, "labels": { names::LABEL_NODE_POOL: pool.name_any() },
            },
            "spec": {
                "clusterName": pool.spec.cluster_name, "clusterUID": self.uid,
                "poolName": pool.name_any(), "version": "1.35.4", "provider": pool.spec.provider,
            },
        }))
        .expect("invariant: it is a Machine");
        self.machines
            .create(&PostParams::default(), &machine)
            .await
            .map(drop)
    }

    async fn run(&self, machine: &Machine, mode: Mode) -> Result<(), kube::Error> {
        let name = machine.name_any();
        let status = match mode {
            Mode::Works | Mode::Rolls => {
                if is_running(machine) {
                    return Ok(());
                }
                self.join(&name).await?;
                json!({ "phase": "Running" })
            }
            Mode::Full => json!({ "phase": "Creating", "conditions": [quota()] }),
            Mode::Stuck | Mode::Away => json!({ "phase": "Creating" }),
        };
        let is = machine.status.as_ref().map(|status| json!(status));
        if is.is_some_and(|is| is["phase"] == status["phase"]) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.machines
            .patch_status(&name, &params, &patch)
            .await
            .map(drop)
    }

    async fn join(&self, name: &str) -> Result<(), kube::Error> {
        let node: Node = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "providerID": names::kubevirt_provider_id(name) },
        }))
        .expect("invariant: it is a Node");
        match self.nodes.create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            answer => drop(answer?),
        }
        let amounts = json!({ "cpu": "2", "memory": "3800Mi", "pods": "110" });
        let status = json!({
            "allocatable": amounts, "capacity": amounts,
            "conditions": [{ "type": "Ready", "status": "True" }],
        });
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.nodes.patch_status(name, &params, &patch).await?;
        // The API server taints new nodes; a controller takes that off once they are ready.
        let untainted = Patch::Merge(json!({ "spec": { "taints": null } }));
        self.nodes.patch(name, &params, &untainted).await.map(drop)
    }

    /// As the operator ends a machine: its node goes with it.
    async fn end(&self, name: &str) -> Result<(), kube::Error> {
        let params = DeleteParams::default();
        for gone in [
            self.nodes.delete(name, &params).await.map(drop),
            self.machines.delete(name, &params).await.map(drop),
        ] {
            match gone {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                answer => answer?,
            }
        }
        Ok(())
    }
}

fn is_running(machine: &Machine) -> bool {
    let status = machine.status.as_ref();
    status.and_then(|status| status.phase) == Some(MachinePhase::Running)
}

/// As the operator reports what the API server said when it made the virtual machine.
fn quota() -> Value {
    json!({
        "type": "Ready", "status": "False", "reason": "VirtualMachineNotCreated",
        "message": "the virtual machine cannot be made: exceeded quota: team",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// What a node of each location offers, as the operator says it.
fn told(pool: &NodePool) -> Vec<api::node_pool::LocationStatus> {
    let places = pool.spec.places().into_iter();
    let told = places.map(|place| api::node_pool::LocationStatus {
        name: place.shown().to_owned(),
        template: provider_kubevirt::template::node(&pool.spec, place.provider),
        ..Default::default()
    });
    told.collect()
}
