//! Node pools and Machines, with a KubeVirt and kubelets that the tests play.
//!
//! Invariant: what a test changes, it changes behind the operator's back; what happens then is judged
//! by what is stored in both clusters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use api::machine::MachinePhase;
use api::{Machine, TenantCluster, names};
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use operator::controllers::node_pool;
use serde_json::{Value, json};
use testkit::FaultPlan;
use testkit::faults::Answer;
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::kubevirt::{KubeVirt, Mode, ZONE, node_path};
use crate::support::pools::{number, said};
use crate::support::site::tenant_namespace;
use crate::support::{Launch, Operator, PATIENCE, Site};

mod addresses;
mod capacity;
mod drain;
mod evacuation;
mod leaving;
mod locations;
mod lost;
mod overlay;
mod serving;
mod taken;

/// A tenant cluster that is ready, and somebody who plays virtual machines.
struct World {
    site: Site,
    operator: Operator,
    cluster: TenantCluster,
    /// The tenant namespace.
    ns: String,
    kubevirt: KubeVirt,
}

impl World {
    async fn new(prefix: &str) -> Result<Option<Self>> {
        Self::with_faults(prefix, &FaultPlan::none()).await
    }

    async fn with_faults(prefix: &str, plan: &FaultPlan) -> Result<Option<Self>> {
        let Some(site) = Site::new(prefix).await? else {
            return Ok(None);
        };
        let operator = Launch::new(&site)?.plan(plan).start(&site)?;
        let kubevirt = KubeVirt::start(&site);
        site.create("demo").await?;
        let cluster = site.wait_ready("demo").await?;
        Ok(Some(Self {
            ns: tenant_namespace(&cluster),
            site,
            operator,
            cluster,
            kubevirt,
        }))
    }

    /// With a pool that is ready.
    async fn with_pool(prefix: &str, replicas: i32) -> Result<Option<Self>> {
        let Some(world) = Self::new(prefix).await? else {
            return Ok(None);
        };
        world.site.create_pool("workers", replicas).await?;
        world.settle().await?;
        Ok(Some(world))
    }

    /// With a Machine for which there is no room until [`Mode::Joining`] is set.
    async fn without_room(prefix: &str) -> Result<Option<(Self, String)>> {
        let Some(world) = Self::new(prefix).await? else {
            return Ok(None);
        };
        world.kubevirt.set(Mode::Full);
        world.site.create_pool("workers", 1).await?;
        let name = world.only_machine().await?;
        world
            .wait_said(&name, "VirtualMachineReady", ("False", "Unschedulable"))
            .await?;
        Ok(Some((world, name)))
    }

    /// With a Machine whose virtual machine is refused for as long as the switch is on.
    async fn refusing_vm(prefix: &str) -> Result<Option<(Self, String, Arc<AtomicBool>)>> {
        let refuses = Arc::new(AtomicBool::new(true));
        let refused = Arc::clone(&refuses);
        let refusal = Answer::status(422).when(move |info| {
            let made = info.verb == "create" && info.resource == "virtualmachines";
            made && refused.load(Ordering::SeqCst)
        });
        let plan = FaultPlan::none().answering(refusal);
        let Some(world) = Self::with_faults(prefix, &plan).await? else {
            return Ok(None);
        };
        world.site.create_pool("workers", 1).await?;
        let name = world.only_machine().await?;
        world
            .wait_said(&name, "Ready", ("False", "ProviderFailed"))
            .await?;
        Ok(Some((world, name, refuses)))
    }

    /// With another operator, which finds the pool changed.
    async fn restarted(self, change: Value) -> Result<Self> {
        drop(self.operator);
        self.site.change_pool("workers", &change).await?;
        let operator = Operator::start(&self.site)?;
        Ok(Self { operator, ..self })
    }

    async fn settle(&self) -> Result<()> {
        self.site.wait_pool_ready("workers").await?;
        self.operator
            .settle_pool(&self.site, "demo", "workers")
            .await?;
        self.site.wait_pool_ready("workers").await.map(drop)
    }

    async fn names(&self) -> Result<Vec<String>> {
        let machines = self.site.machines_of("workers").await?;
        Ok(machines.iter().map(ResourceExt::name_any).collect())
    }

    async fn wait_machine(
        &self,
        name: &str,
        mut wanted: impl FnMut(&Machine) -> bool,
    ) -> Result<Machine> {
        let machines = self.site.machines();
        let wanted = |m: Option<&Machine>| m.is_some_and(&mut wanted);
        let found = wait_for(&machines, name, wanted, PATIENCE).await?;
        found.context("invariant: it was just seen")
    }

    /// Waits until a Machine's condition is as given.
    async fn wait_said(&self, name: &str, type_: &str, wanted: (&str, &str)) -> Result<()> {
        let is = |machine: &Machine| {
            let machine = serde_json::to_value(machine).unwrap_or_default();
            let (status, reason) = said(&machine, type_);
            (status.as_str(), reason.as_str()) == wanted
        };
        let waited = self.wait_machine(name, is).await;
        waited
            .map(drop)
            .with_context(|| format!("{type_} {wanted:?}"))
    }

    async fn only_machine(&self) -> Result<String> {
        let machines = self.site.machines();
        let mut found = None;
        let list = ListParams::default();
        // The pool's status counts it once it is there.
        self.site
            .wait_pool("workers", |p| {
                p.status.as_ref().is_some_and(|s| s.replicas == 1)
            })
            .await?;
        for machine in machines.list(&list).await?.items {
            found = Some(machine.name_any());
        }
        found.context("no Machine")
    }

    async fn delete(&self, kind: Kind, name: &str) -> Result<()> {
        let objects = self.site.objects(kind, &self.ns);
        objects.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Waits until another Machine has taken the place of this one, and everything is settled.
    async fn replaced(&self, name: &str) -> Result<()> {
        wait_gone(&self.site.machines(), name, PATIENCE).await?;
        self.settle().await?;
        let names = self.names().await?;
        ensure!(!names.contains(&name.to_owned()), "{name} came back");
        self.site.nothing_is_orphaned(&self.cluster).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_two_becomes_ready_with_what_machines_need_and_no_more() -> Result<()> {
    let Some(world) = World::with_pool("pool", 2).await? else {
        return Ok(());
    };
    let (site, ns) = (&world.site, &world.ns);
    site.nothing_is_orphaned(&world.cluster).await?;
    let status = site.pools().get("workers").await?.status.unwrap();
    assert_eq!(
        (
            status.replicas,
            status.ready_replicas,
            status.updated_replicas
        ),
        (2, 2, 2)
    );
    assert_eq!(status.version.as_deref(), Some(testkit::fixtures::VERSION));
    assert_eq!(status.selector, Some(names::pool_selector("workers")));
    assert_eq!(status.last_machine_number, Some(2));

    let machines = site.machines_of("workers").await?;
    assert_eq!(machines.iter().map(number).collect::<Vec<_>>(), [1, 2]);
    for machine in &machines {
        let name = machine.name_any();
        let status = machine.status.clone().unwrap();
        assert_eq!(status.phase, Some(MachinePhase::Running), "{name}");
        assert_eq!(status.node_name.as_ref(), Some(&name));
        let id = names::kubevirt_provider_id(&name);
        assert_eq!(status.provider_id, Some(id));
        assert_eq!(status.addresses.len(), 1);
        assert_eq!(machine.finalizers(), [names::FINALIZER_MACHINE]);
        let owner = &machine.owner_references()[0];
        assert_eq!(
            (owner.kind.as_str(), owner.name.as_str()),
            ("NodePool", "workers")
        );
        let value = serde_json::to_value(machine)?;
        for type_ in ["Ready", "NodeReady", "VirtualMachineReady"] {
            assert_eq!(said(&value, type_).0, "True", "{name} {type_}");
        }

        let instance = site
            .objects(kinds::VIRTUAL_MACHINE_INSTANCE, ns)
            .get(&name)
            .await?;
        assert_eq!(status.instance, instance.uid());
        let vm = site.objects(kinds::VIRTUAL_MACHINE, ns).get(&name).await?;
        assert_eq!(
            vm.labels()[names::LABEL_MACHINE_UID],
            machine.uid().unwrap()
        );
        assert_eq!(vm.labels()[names::LABEL_ZONE], ZONE);
        assert!(!instance.labels().contains_key(names::LABEL_ZONE));
        let secret = names::user_data_secret(&name);
        let volumes = vm.data["spec"]["template"]["spec"]["volumes"].to_string();
        assert!(volumes.contains(&secret), "{volumes}");
        let secret = site.objects(kinds::SECRET, ns).get(&secret).await?;
        let data = secret.data["data"].as_object().context("no data")?;
        assert_eq!(data.keys().collect::<Vec<_>>(), ["userdata"]);

        let node = site
            .tenants
            .object(ns, &node_path(&name))
            .context("no node")?;
        assert_eq!(
            node["metadata"]["labels"][names::LABEL_NODE_POOL],
            "workers"
        );
    }
    // Each token was made valid once, and revoked once.
    let writes = site.writes_inside(ns);
    let tokens = writes.iter().filter(|w| w.path.contains("bootstrap-token"));
    let mut verbs: Vec<_> = tokens.map(|w| w.verb.as_str()).collect();
    verbs.sort_unstable();
    assert_eq!(verbs, ["delete", "delete", "patch", "patch"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settled_pool_costs_no_write_in_either_cluster() -> Result<()> {
    let Some(world) = World::with_pool("pool-quiet", 2).await? else {
        return Ok(());
    };
    let World { site, ns, .. } = &world;
    let window = site.api.audit().window()?;
    let inside = site.writes_inside(ns).len();
    for _ in 0..10 {
        world.operator.reconcile_pool(site, "workers").await?;
    }
    // What only looks like a change.
    for name in world.names().await? {
        let touched = json!({ "metadata": { "annotations": { "example.com/seen": "1" } } });
        for kind in [kinds::VIRTUAL_MACHINE, kinds::VIRTUAL_MACHINE_INSTANCE] {
            let touch = kube::api::Patch::Merge(&touched);
            let objects = site.objects(kind, ns);
            objects.patch(&name, &Default::default(), &touch).await?;
        }
        let heartbeat = json!({ "metadata": { "annotations": { "example.com/beat": "1" } } });
        assert!(site.tenants.change(ns, &node_path(&name), &heartbeat));
    }
    world.operator.reconcile_pool(site, "workers").await?;
    // Nor does an operator that knows nothing yet.
    let World {
        site, operator, ns, ..
    } = world;
    drop(operator);
    let operator = Operator::start(&site)?;
    operator.reconcile(&site, "demo").await?;
    for _ in 0..3 {
        operator.reconcile_pool(&site, "workers").await?;
    }
    assert_eq!(site.writes_inside(&ns).len(), inside);
    window.assert_no_writes(&site.user())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_waits_and_says_why_until_there_is_room_for_it() -> Result<()> {
    let Some((world, name)) = World::without_room("no-room").await? else {
        return Ok(());
    };
    world
        .wait_said(&name, "Ready", ("False", "Unschedulable"))
        .await?;
    world.kubevirt.set(Mode::Joining);
    world.settle().await?;
    assert_eq!(world.names().await?, [name]);
    world.site.nothing_is_orphaned(&world.cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instance_that_is_refused_is_told_and_tried_again() -> Result<()> {
    let Some(world) = World::new("refused").await? else {
        return Ok(());
    };
    world.kubevirt.set(Mode::Refusing);
    world.site.create_pool("workers", 1).await?;
    let name = world.only_machine().await?;
    world
        .wait_said(&name, "Ready", ("False", "FailedCreate"))
        .await?;
    let told = |pool: &api::NodePool| {
        let pool = serde_json::to_value(pool).unwrap_or_default();
        let list = pool["status"]["conditions"]
            .as_array()
            .into_iter()
            .flatten();
        let mut messages = list.filter_map(|c| c["message"].as_str());
        messages.any(|message| message.contains("exceeded quota"))
    };
    world.site.wait_pool("workers", told).await?;
    world.kubevirt.set(Mode::Joining);
    world.settle().await?;
    assert_eq!(world.names().await?, [name]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_machine_that_is_refused_shows_as_condition_and_is_made_later() -> Result<()> {
    let Some((world, name, refuses)) = World::refusing_vm("vm-refused").await? else {
        return Ok(());
    };
    refuses.store(false, Ordering::SeqCst);
    world.settle().await?;
    assert_eq!(world.names().await?, [name]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollout_replaces_each_machine_and_scaling_down_takes_whom_the_annotation_names()
-> Result<()> {
    let Some(world) = World::with_pool("rollout", 2).await? else {
        return Ok(());
    };
    let (site, before) = (&world.site, world.names().await?);
    let bigger = json!({ "spec": { "provider": { "kubevirt": { "memory": "2Gi" } } } });
    site.change_pool("workers", &bigger).await?;
    for name in &before {
        wait_gone(&site.machines(), name, PATIENCE).await?;
    }
    world.settle().await?;
    let after = world.names().await?;
    assert_eq!(after.len(), 2);
    site.nothing_is_orphaned(&world.cluster).await?;

    let smaller = json!({
        "metadata": { "annotations": { names::ANNOTATION_DELETE_MACHINE: after[1] } },
        "spec": { "replicas": 1 },
    });
    site.change_pool("workers", &smaller).await?;
    wait_gone(&site.machines(), &after[1], PATIENCE).await?;
    world.settle().await?;
    assert_eq!(world.names().await?, [after[0].clone()]);
    site.nothing_is_orphaned(&world.cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_pool_takes_its_machines_along_and_leaves_nothing_inside() -> Result<()> {
    let Some(world) = World::with_pool("pool-gone", 2).await? else {
        return Ok(());
    };
    world.site.remove_pool("workers").await?;
    let left = world.site.machine_parts(&world.cluster).await?;
    let left: Vec<_> = left.iter().map(|(k, o)| (k.kind, o.name_any())).collect();
    assert_eq!(left, []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_waits_for_its_virtual_machine_to_be_gone() -> Result<()> {
    let Some(world) = World::with_pool("slow-vm", 1).await? else {
        return Ok(());
    };
    let (site, name) = (&world.site, world.names().await?.remove(0));
    world.kubevirt.set(Mode::Asleep);
    site.pools()
        .delete("workers", &DeleteParams::background())
        .await?;
    let going =
        |vm: Option<&DynamicObject>| vm.is_some_and(|vm| vm.metadata.deletion_timestamp.is_some());
    let vms = site.objects(kinds::VIRTUAL_MACHINE, &world.ns);
    wait_for(&vms, &name, going, PATIENCE).await?;
    world
        .wait_said(&name, "Ready", ("False", "Deleting"))
        .await?;
    world.operator.reconcile_pool(site, "workers").await?;
    assert_eq!(world.names().await?, [name]);
    world.kubevirt.set(Mode::Joining);
    wait_gone(&site.pools(), "workers", PATIENCE).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_an_unknown_tenant_cluster_says_so_and_starts_when_there_is_one() -> Result<()> {
    let Some(site) = Site::new("no-cluster").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let _kubevirt = KubeVirt::start(&site);
    site.create_pool("workers", 1).await?;
    let unknown = |pool: &api::NodePool| {
        let pool = serde_json::to_value(pool).unwrap_or_default();
        said(&pool, "Degraded") == ("True".to_owned(), "ClusterNotFound".to_owned())
    };
    site.wait_pool("workers", unknown).await?;
    site.create("demo").await?;
    site.wait_pool_ready("workers").await?;
    operator.settle_pool(&site, "demo", "workers").await
}

/// Most writes of the operator for one Machine, in the management cluster, from its creation until it
/// is ready: itself, its user data twice, its virtual machine and where that is, its addresses, an Event;
/// in its status what is asked for, and each of four phases. (11 were seen.)
const WRITES_PER_MACHINE: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_machines_at_once_are_no_storm_of_writes() -> Result<()> {
    const COUNT: i32 = 200;
    let Some(world) = World::new("many").await? else {
        return Ok(());
    };
    let (site, begin) = (&world.site, std::time::Instant::now());
    let window = site.api.audit().window()?;
    let inside = site.writes_inside(&world.ns).len();
    site.create_pool("workers", COUNT).await?;
    let pools = site.pools();
    let ready = |p: Option<&api::NodePool>| p.is_some_and(crate::support::pools::is_settled);
    wait_for(&pools, "workers", ready, PATIENCE * 10).await?;
    let took = begin.elapsed();
    let writes = window.writes_of(&site.user())?;
    let mut counts = std::collections::BTreeMap::<(String, String), usize>::new();
    for write in &writes {
        *counts
            .entry((write.verb.clone(), write.kind.clone()))
            .or_default() += 1;
    }
    let count = usize::try_from(COUNT)?;
    let inside = site.writes_inside(&world.ns).len() - inside;
    eprintln!(
        "{COUNT} machines in {took:.1?}: {} writes, {inside} inside: {counts:#?}",
        writes.len()
    );
    let of_pool = |kind: &str| kind == "covey.dev/nodepools/status";
    let of_pool: usize = counts
        .iter()
        .filter(|((_, k), _)| of_pool(k))
        .map(|(_, n)| n)
        .sum();
    let of_machines = writes.len() - of_pool;
    ensure!(of_machines <= WRITES_PER_MACHINE * count, "{counts:#?}");
    // Gathered: by time, not by machine.
    let most = usize::try_from(took.as_millis() / 500)? + 10;
    assert!(node_pool::PERIOD >= std::time::Duration::from_millis(500));
    ensure!(
        of_pool <= most,
        "{of_pool} writes of the pool's status in {took:.1?}"
    );
    // Token, labels, revocation.
    ensure!(inside <= 4 * count, "{inside} writes inside");
    site.nothing_is_orphaned(&world.cluster).await
}
