//! A machine whose node a restore of its tenant cluster took away: the operator has Hetzner start its server anew, twice at
//! most, wherever it dies. That a restore gets so far is tested elsewhere (`etcd_restore`); here it is said in the status.
//!
//! Invariant: how often a server is started anew is how many changes the fake is asked for, and none of them is anything
//! else once the server runs.

use anyhow::{Context as _, Result, ensure};
use api::Machine;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use kube::runtime::reflector::ObjectRef;
use serde_json::json;
use testkit::FaultPlan;
use testkit::waiting::ask_until;

use super::HETZNER;
use crate::clouds::{ROUND, World};
use crate::crash::{Hand, Writes, dies, for_every_k};
use crate::support::kubevirt::{node_path, node_status};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Operator, PATIENCE};

/// Longer than it is waited for after a start.
const LONG_AGO: SignedDuration = SignedDuration::from_mins(6);
/// Rounds in which a start too many would be seen.
const MORE: usize = 3;

/// A machine of a tenant cluster that was restored.
struct Restored<'a> {
    world: &'a World,
    namespace: String,
    machine: String,
    /// UID of the Restore.
    restore: String,
    /// Changes that the fake was asked for before.
    before: usize,
}

impl<'a> Restored<'a> {
    /// Has the machine's node be there, and the tenant cluster have been brought back by a Restore of its own since.
    async fn new(world: &'a World, operator: &Operator) -> Result<Self> {
        let machine = world.machines().await?.remove(0);
        let cluster = world.site.clusters().get("demo").await?;
        let mut restored = Self {
            world,
            namespace: tenant_namespace(&cluster),
            machine: machine.name_any(),
            restore: String::new(),
            before: 0,
        };
        let id = machine.status.and_then(|status| status.provider_id);
        restored.join(&id.context("no server")?)?;
        let has_joined = |machines: &[Machine]| {
            let mut status = machines.iter().filter_map(|m| m.status.as_ref());
            status.all(|status| status.node_name.is_some()) && !machines.iter().any(is_gone)
        };
        world.until(operator, "it has joined", has_joined).await?;
        operator.settle(&world.site, "demo").await?;
        restored.restore(operator).await?;
        restored.before = restored.changes();
        Ok(restored)
    }

    fn join(&self, provider_id: &str) -> Result<()> {
        let name = &self.machine;
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "spec": { "providerID": provider_id },
            "status": node_status("True"),
        });
        let tenants = &self.world.site.tenants;
        ensure!(tenants.put(&self.namespace, &node_path(name), &node));
        Ok(())
    }

    async fn restore(&mut self, operator: &Operator) -> Result<()> {
        let site = &self.world.site;
        let restore = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
            "metadata": { "name": format!("back-{}", self.changes()), "namespace": site.users },
            "spec": { "clusterName": "demo" },
        });
        let restore = apply(&site.admin, &restore).await?;
        self.restore = restore.uid().context("no UID")?;
        let progress = json!({
            "name": restore.name_any(), "uid": self.restore, "moment": "latest", "clusterID": "cdf8",
            "revision": 7, "bump": 9, "since": "2026-11-21T12:00:00Z",
            "quiet": true, "switched": true, "prepared": true,
        });
        let progress = Patch::Merge(json!({ "status": { "restore": progress } }));
        let params = PatchParams::default();
        let clusters = site.clusters();
        clusters.patch_status("demo", &params, &progress).await?;
        operator.settle(site, "demo").await?;
        let status = clusters.get("demo").await?.status;
        let now = status.and_then(|status| status.restore);
        ensure!(now.is_some_and(|now| now.uid == self.restore && now.prepared));
        Ok(())
    }

    /// Its node is not in what was brought back.
    fn lose_node(&self) -> Result<()> {
        let tenants = &self.world.site.tenants;
        ensure!(tenants.delete(&self.namespace, &node_path(&self.machine)));
        Ok(())
    }

    fn changes(&self) -> usize {
        self.world.hetzner.journal().requests("POST")
    }

    /// How often the server was started anew.
    fn starts(&self) -> usize {
        self.changes() - self.before
    }

    /// How often it is known to have been, for this Restore.
    fn stored(&self, machine: &Machine) -> u32 {
        let status = machine.status.as_ref();
        let restarts = status.and_then(|status| status.restarts.as_ref());
        let own = restarts.filter(|restarts| restarts.restore == self.restore);
        own.map_or(0, |own| own.count)
    }

    /// Time passes, and the operator, which does one thing at a time, is told to look.
    async fn until(&self, operator: &Operator, stored: u32, starts: usize) -> Result<()> {
        let machines = self.world.site.machines();
        let what = format!("stored {stored} times, and started {starts} times");
        ask_until(&what, PATIENCE, || async {
            self.world.time.pass(ROUND).await?;
            let machine = ObjectRef::new(&self.machine).within(&self.world.site.users);
            // Fails only once it has ended.
            let _ = operator.context.triggers.machines.send(machine);
            let machine = machines.get(&self.machine).await?;
            let (now, done) = (self.stored(&machine), self.starts());
            let is_so = now >= stored && done >= starts;
            Ok(is_so
                .then_some(())
                .ok_or_else(|| format!("{now} and {done}: {:?}", machine.status)))
        })
        .await
    }

    /// Nobody waits for the last start any more.
    async fn forget_when(&self) -> Result<()> {
        let last = Timestamp::now().checked_sub(LONG_AGO)?.to_string();
        let last = Patch::Merge(json!({ "status": { "restarts": { "last": last } } }));
        let machines = self.world.site.machines();
        let params = PatchParams::default();
        machines.patch_status(&self.machine, &params, &last).await?;
        Ok(())
    }

    /// Whatever is looked at, it stays so.
    async fn stays(&self, operator: &Operator, stored: u32) -> Result<()> {
        for _ in 0..MORE {
            self.world.round(operator).await?;
        }
        let machine = self.world.site.machines().get(&self.machine).await?;
        ensure!(self.stored(&machine) == stored, "{:?}", machine.status);
        ensure!(is_gone(&machine), "nobody says so: {:?}", machine.status);
        Ok(())
    }
}

/// Whether it says that its node is gone.
fn is_gone(machine: &Machine) -> bool {
    let mut conditions = machine.status.iter().flat_map(|s| &s.conditions);
    conditions.any(|condition| condition.reason == "NodeGone")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_whose_node_a_restore_took_away_is_started_anew_no_more_than_twice() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-restored", &[HETZNER]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    let restored = Restored::new(&world, &operator).await?;
    restored.lose_node()?;
    restored.until(&operator, 1, 1).await?;
    // It has some minutes for it.
    restored.stays(&operator, 1).await?;
    ensure!(restored.starts() == 1);
    restored.forget_when().await?;
    restored.until(&operator, 2, 2).await?;
    restored.forget_when().await?;
    restored.stays(&operator, 2).await?;
    ensure!(restored.starts() == 2);

    // Another Restore is another matter, wherever it dies. What is stored, what is asked for, and what is said.
    let stage = (world, Hand::new(operator));
    for_every_k(
        "a start",
        vec![stage],
        Writes::at_least(1),
        async |(world, hand), crash| {
            let operator = hand.take().await?;
            let restored = Restored::new(world, &operator).await?;
            operator.plan.arm(crash);
            restored.lose_node()?;
            let died = Box::pin(dies(&operator, restored.until(&operator, 1, 1))).await?;
            drop(operator);
            let operator = world.start(&FaultPlan::none())?;
            operator.settle(&world.site, "demo").await?;
            restored.until(&operator, 1, 0).await?;
            // What it writes as it begins would take back what is changed here.
            restored.stays(&operator, 1).await?;
            restored.forget_when().await?;
            // What was stored and not done is done once more, and what was done is not known to be.
            restored.until(&operator, 2, 1).await?;
            restored.forget_when().await?;
            restored.stays(&operator, 2).await?;
            let starts = restored.starts();
            ensure!((1..=2).contains(&starts), "started {starts} times");
            hand.give(operator).await;
            Ok(died)
        },
    )
    .await
}
