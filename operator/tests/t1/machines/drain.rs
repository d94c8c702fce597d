//! A node is drained before its virtual machine goes, through the eviction API of the tenant cluster.
//!
//! Invariant: the virtual machine is there as long as a pod has to leave; what may hold that up has
//! an end.

use std::future::ready;

use anyhow::{Context as _, Result, ensure};
use api::Machine;
use kit_objects::kinds;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use operator::controllers::machine::observed::Pod;
use operator::controllers::machine::requests::{self, Evicted};
use operator::tenant_session::budget::Budget;
use serde_json::{Value, json};
use testkit::fakes::tenant_api::Call;
use testkit::fixtures::ask_until;

use super::World;
use crate::support::PATIENCE;
use crate::support::kubevirt::{node_path, node_status};

/// The budget of all pods that [`World::put_pod`] makes.
const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/held";

pub(super) fn pod_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/pods/{name}")
}

pub(super) fn is_going(object: Option<&Value>) -> bool {
    object.is_some_and(|object| object["metadata"]["deletionTimestamp"].is_string())
}

impl World {
    /// A pod that runs on a node, changed by a merge patch.
    pub(super) fn put_pod(&self, node: &str, name: &str, change: &Value) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default", "labels": { "app": "held" } },
            "spec": { "nodeName": node, "containers": [] }, "status": { "phase": "Running" },
        });
        let (tenants, path) = (&self.site.tenants, pod_path(name));
        assert!(tenants.put(&self.ns, &path, &pod));
        assert!(tenants.change(&self.ns, &path, change));
    }

    /// So many of its pods may be evicted.
    pub(super) fn put_budget(&self, allowed: i64) {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": { "name": "held", "namespace": "default" },
            "spec": { "selector": { "matchLabels": { "app": "held" } } },
            "status": { "disruptionsAllowed": allowed },
        });
        assert!(self.site.tenants.put(&self.ns, BUDGET, &budget));
    }

    pub(super) fn pod(&self, name: &str) -> Option<Value> {
        self.site.tenants.object(&self.ns, &pod_path(name))
    }

    pub(super) async fn wait_pod_goes(&self, name: &str) -> Result<()> {
        let (tenants, path) = (&self.site.tenants, pod_path(name));
        tenants.wait(&self.ns, &path, is_going, PATIENCE).await
    }

    /// The pod's kubelet has ended it.
    pub(super) fn end_pod(&self, name: &str) {
        assert!(self.site.tenants.delete(&self.ns, &pod_path(name)));
    }

    pub(super) async fn delete_machine(&self, name: &str) -> Result<()> {
        let machines = self.site.machines();
        machines.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Looks at everything once more, and sees to it that nobody deleted the virtual machine.
    pub(super) async fn still_has_its_vm(&self, name: &str) -> Result<()> {
        self.operator.reconcile_pool(&self.site, "workers").await?;
        let vms = self.site.objects(kinds::VIRTUAL_MACHINE, &self.ns);
        let vm = vms.get(name).await?;
        let since = vm.metadata.deletion_timestamp;
        ensure!(since.is_none(), "the virtual machine goes since {since:?}");
        Ok(())
    }

    /// The budget allows it now: the pod leaves, then the virtual machine goes, and another comes.
    pub(super) async fn leaves_in_order(&self, name: &str, pod: &str) -> Result<()> {
        self.still_has_its_vm(name).await?;
        self.put_budget(1);
        self.wait_pod_goes(pod).await?;
        self.still_has_its_vm(name).await?;
        self.end_pod(pod);
        self.replaced(name).await
    }

    /// Waits until an eviction was asked for and answered; all of them.
    async fn wait_evictions(&self) -> Result<Vec<Call>> {
        let asked = || match self.evictions() {
            none if none.is_empty() => ready(Ok(Err("none".to_owned()))),
            some => ready(Ok(Ok(some))),
        };
        ask_until("an eviction", PATIENCE, asked).await
    }

    fn evictions(&self) -> Vec<Call> {
        let mut calls = self.site.tenants.calls(&self.ns);
        calls.retain(|call| call.path.ends_with("/eviction"));
        calls
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn budget_that_refuses_an_eviction_holds_the_drain_up_until_it_allows_it() -> Result<()> {
    let Some(world) = World::with_pool("drain-budget", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.put_budget(0);
    world.put_pod(&name, "web", &json!({}));
    let before = world.pod("web");
    world.delete_machine(&name).await?;
    world
        .wait_said(&name, "Drained", ("False", "Draining"))
        .await?;
    world
        .wait_said(&name, "Ready", ("False", "Draining"))
        .await?;
    let asked = world.wait_evictions().await?;
    assert!(asked.iter().all(|call| call.code == 429), "{asked:?}");
    assert_eq!(world.pod("web"), before);
    world.leaves_in_order(&name, "web").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_is_cordoned_before_its_pods_are_evicted() -> Result<()> {
    let Some(world) = World::with_pool("drain-cordon", 1).await? else {
        return Ok(());
    };
    let (ns, name) = (&world.ns, world.names().await?.remove(0));
    for pod in ["a", "b"] {
        world.put_pod(&name, pod, &json!({}));
    }
    world.delete_machine(&name).await?;
    for pod in ["a", "b"] {
        world.wait_pod_goes(pod).await?;
    }
    let node = world.site.tenants.object(ns, &node_path(&name));
    let node = node.context("the node went before its pods")?;
    assert_eq!(node["spec"]["unschedulable"], true);
    for pod in ["a", "b"] {
        world.end_pod(pod);
    }
    world.replaced(&name).await?;
    // By now all of them are noted.
    let writes = world.site.writes_inside(ns);
    let is_cordon = |call: &Call| call.verb == "patch" && call.path == node_path(&name);
    let cordoned = writes.iter().rposition(is_cordon);
    let evicted = writes
        .iter()
        .position(|call| call.path.ends_with("/eviction"));
    assert!(cordoned.is_some() && cordoned < evicted, "{writes:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_daemon_sets_mirror_pods_and_ended_ones_stay_and_hold_nothing_up() -> Result<()> {
    let Some(world) = World::with_pool("drain-stay", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.put_budget(0);
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "1",
        "controller": true,
    });
    let mirror = json!({ "kubernetes.io/config.mirror": "x" });
    for (pod, change) in [
        (
            "daemon",
            json!({ "metadata": { "ownerReferences": [owner] } }),
        ),
        ("mirror", json!({ "metadata": { "annotations": mirror } })),
        ("succeeded", json!({ "status": { "phase": "Succeeded" } })),
        ("failed", json!({ "status": { "phase": "Failed" } })),
        ("elsewhere", json!({ "spec": { "nodeName": "another" } })),
    ] {
        world.put_pod(&name, pod, &change);
    }
    let pods = ["daemon", "mirror", "succeeded", "failed", "elsewhere"];
    let before = pods.map(|pod| world.pod(pod));
    world.delete_machine(&name).await?;
    world.replaced(&name).await?;
    assert_eq!(world.evictions(), []);
    assert_eq!(pods.map(|pod| world.pod(pod)), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_that_takes_too_long_is_given_up_and_told() -> Result<()> {
    let Some(world) = World::with_pool("drain-timeout", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    let within = |timeout: &str| json!({ "spec": { "drainTimeout": timeout } });
    world.site.change_pool("workers", &within("10m")).await?;
    let follows = |machine: &Machine| machine.spec.drain_timeout.0 == "10m";
    world.wait_machine(&name, follows).await?;
    world.put_budget(0);
    world.put_pod(&name, "web", &json!({}));
    let (before, begin) = (world.pod("web"), jiff::Timestamp::now());
    world.delete_machine(&name).await?;
    // However long that takes, the pod is asked to leave before the time is over.
    world.wait_evictions().await?;
    world.site.change_pool("workers", &within("3s")).await?;
    let params = PatchParams::default();
    let machines = world.site.machines();
    machines
        .patch(&name, &params, &Patch::Merge(within("3s")))
        .await?;
    let event = world.site.wait_event(&name, "DrainGivenUp").await?;
    let told = event.event_time.context("no time")?.0;
    // The time of deletion is in whole seconds.
    let waited = told.duration_since(begin);
    assert!(waited >= jiff::SignedDuration::from_secs(2), "{waited}");
    let asked = world.evictions();
    assert!(!asked.is_empty() && asked.iter().all(|call| call.code == 429));
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    let note = event.note.unwrap_or_default();
    assert!(note.contains("default/web"), "{note}");
    world.replaced(&name).await?;
    assert_eq!(world.pod("web"), before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_whose_node_is_gone_waits_for_no_pod() -> Result<()> {
    let Some(world) = World::with_pool("drain-gone", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.put_budget(0);
    world.put_pod(&name, "web", &json!({}));
    assert!(world.site.tenants.delete(&world.ns, &node_path(&name)));
    world
        .wait_said(&name, "NodeReady", ("False", "NodeGone"))
        .await?;
    world.delete_machine(&name).await?;
    world.replaced(&name).await?;
    assert_eq!(world.evictions(), []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_that_nobody_ends_on_a_silent_node_is_evicted_and_not_waited_for() -> Result<()> {
    let Some(world) = World::with_pool("drain-silent", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.put_pod(&name, "web", &json!({}));
    let silent = json!({ "status": node_status("Unknown") });
    let node = node_path(&name);
    assert!(world.site.tenants.change(&world.ns, &node, &silent));
    world
        .wait_said(&name, "NodeReady", ("False", "NodeNotReady"))
        .await?;
    world.delete_machine(&name).await?;
    world.replaced(&name).await?;
    assert!(is_going(world.pod("web").as_ref()), "it was not evicted");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_of_the_same_name_that_was_made_since_is_not_evicted() -> Result<()> {
    let Some(world) = World::with_pool("drain-namesake", 1).await? else {
        return Ok(());
    };
    let uid = world.cluster.uid().unwrap_or_default();
    let tenant = world
        .operator
        .context
        .tenants
        .client(&uid, &Budget::default());
    let tenant = tenant.context("no client for the tenant")?;
    world.put_pod("elsewhere", "db-0", &json!({}));
    let before = world.pod("db-0").context("no pod")?;
    let of = |uid: &str| Pod {
        namespace: "default".to_owned(),
        name: "db-0".to_owned(),
        uid: uid.to_owned(),
        going: false,
    };
    let asked = requests::evict(&tenant.client, &of("the-one-that-was-listed"), None).await?;
    assert_eq!(asked, Evicted::Gone);
    assert_eq!(world.pod("db-0").as_ref(), Some(&before));
    let itself = before["metadata"]["uid"].as_str().unwrap_or_default();
    let asked = requests::evict(&tenant.client, &of(itself), None).await?;
    assert_eq!(asked, Evicted::Leaves);
    Ok(())
}
