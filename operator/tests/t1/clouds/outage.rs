//! A cloud that is lost with all its nodes, while another one is heard: what takes its place, what stays, and what is left
//! when it is back. The kubelets are played: each writes its Lease every few seconds, of the machine's own time.
//!
//! Invariant: who wakes the pool is the operator alone; the test lets the clouds' time pass, and looks.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::{Machine, NodePool};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use operator::controllers::machine;
use placement::endpoint::Probe;
use serde_json::json;
use testkit::{FaultPlan, TenantApis};
use tokio::task::JoinHandle;

use super::which::Which;
use super::{POOL, ROUND, World, runs};
use crate::support::Operator;
use crate::support::kubevirt::{node_path, node_status};
use crate::support::pools::said;
use crate::support::site::tenant_namespace;

mod sites;

/// How often played kubelets speak; real ones do every ten seconds.
const RENEW: Duration = Duration::from_secs(3);
/// From the loss of a location until others are asked for its machines (clouds.md M4).
const ASKED: Duration = Duration::from_secs(60);
/// Until a location that is back counts: a minute, and `returnAfter`; with room for a machine that is busy.
const BACK: Duration = Duration::from_secs(180);

/// Plays the kubelets of all machines that run, but for those in clouds that are cut off.
struct Kubelets {
    cut: Arc<Mutex<BTreeSet<&'static str>>>,
    task: JoinHandle<()>,
}

impl Kubelets {
    fn start(machines: Api<Machine>, tenants: Arc<TenantApis>, namespace: String) -> Self {
        let cut = Arc::<Mutex<BTreeSet<&'static str>>>::default();
        let is_cut = Arc::clone(&cut);
        let task = tokio::spawn(async move {
            loop {
                let all = machines.list(&ListParams::default()).await;
                for machine in all.map(|all| all.items).unwrap_or_default() {
                    let cloud = machine.spec.provider.config_name().unwrap_or(sites::SITE);
                    let is_cut = {
                        let cut = is_cut.lock().unwrap_or_else(PoisonError::into_inner);
                        cut.contains(cloud)
                    };
                    if !is_cut {
                        speak(&tenants, &namespace, &machine);
                    }
                }
                tokio::time::sleep(RENEW).await;
            }
        });
        Self { cut, task }
    }

    fn set(&self, cut: &[Which]) {
        let cut: Vec<_> = cut.iter().map(|cloud| cloud.name()).collect();
        self.cut_off(&cut);
    }

    fn cut_off(&self, locations: &[&'static str]) {
        let cut = locations.iter().copied().collect();
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = cut;
    }
}

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The node joins once its machine runs, and writes its Lease. Of one that is deleted nobody hears any more, and the tenant
/// cluster's own controller says so: a node that is Ready speaks against that its machine is gone.
fn speak(tenants: &TenantApis, namespace: &str, machine: &Machine) {
    let name = machine.name_any();
    let path = node_path(&name);
    let id = machine.status.as_ref().and_then(|s| s.provider_id.clone());
    let Some(id) = id else {
        return;
    };
    let node = |ready: &str| {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
            "spec": { "providerID": id }, "status": node_status(ready),
        })
    };
    let joined = tenants.object(namespace, &path);
    if machine.metadata.deletion_timestamp.is_some() {
        let unknown = node("Unknown");
        if joined.is_some_and(|joined| joined["status"] != unknown["status"]) {
            tenants.put(namespace, &path, &unknown);
        }
        return;
    }
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}");
    let written = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": name, "namespace": "kube-node-lease" },
        "spec": { "holderIdentity": name, "renewTime": Timestamp::now().to_string() },
    });
    tenants.put(namespace, &lease, &written);
    if joined.is_none() {
        tenants.put(namespace, &path, &node("True"));
    }
}

/// Lets the time of clouds pass, in which machines are looked at, until it is so.
async fn wait(
    world: &World,
    operator: &Operator,
    (what, patience): (&str, Duration),
    is: impl Fn(&NodePool, &[Machine]) -> bool,
) -> Result<Duration> {
    let began = Instant::now();
    loop {
        let pool = world.site.pools().get(POOL).await?;
        let machines = world.machines().await?;
        if is(&pool, &machines) {
            return Ok(began.elapsed());
        }
        ensure!(
            began.elapsed() < patience,
            "{what}: not within {patience:?}: {:?}, {machines:?}",
            pool.status
        );
        world.time.pass(ROUND).await?;
        for machine in machines {
            let context = Arc::clone(&operator.context);
            let _ = Box::pin(machine::reconcile(Arc::new(machine), context)).await;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn of(machines: &[Machine], cloud: Which) -> Vec<&Machine> {
    let of = machines
        .iter()
        .filter(|m| m.spec.provider.config_name() == Some(cloud.name()));
    of.collect()
}

fn stays(machine: &&&Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none()
}

/// Status and reason of the pool's condition.
fn stands(pool: &NodePool) -> (String, String) {
    let pool = serde_json::to_value(pool).unwrap_or_default();
    said(&pool, "LocationsHealthy")
}

fn names(machines: &[Machine]) -> BTreeSet<String> {
    machines.iter().map(|m| m.name_any()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_cloud_is_replaced_within_a_minute_and_its_machines_are_there_when_it_is_back()
-> Result<()> {
    let (hetzner, gcp) = (Which::Hetzner, Which::Gcp);
    let Some((world, operator)) = World::new("clouds-out", &[hetzner, gcp]).await? else {
        return Ok(());
    };
    let cluster = world.site.clusters().get("demo").await?;
    let namespace = tenant_namespace(&cluster);
    let tenants = Arc::clone(&world.site.tenants);
    let kubelets = Kubelets::start(world.site.machines(), tenants, namespace);
    world.spread(4, &[(hetzner, 1), (gcp, 1)]).await?;
    let soon = json!({ "spec": { "placement": { "failover": { "returnAfter": "10s" } } } });
    world.site.change_pool(POOL, &soon).await?;
    let ready = |pool: &NodePool| pool.status.as_ref().map_or(0, |s| s.ready_replicas);
    let all = |pool: &NodePool, machines: &[Machine]| {
        ready(pool) == 4 && machines.len() == 4 && machines.iter().all(runs)
    };
    let patience = Duration::from_secs(120);
    wait(&world, &operator, ("all are ready", patience), all).await?;
    let before = names(&world.machines().await?);

    kubelets.set(&[hetzner]);
    let elsewhere = |_: &NodePool, machines: &[Machine]| of(machines, gcp).len() == 4;
    let took = wait(
        &world,
        &operator,
        ("others are asked for", ASKED),
        elsewhere,
    )
    .await?;
    eprintln!("asked for after {took:?}");
    // Another operator finds it so, and listens anew.
    drop(operator);
    let operator = world.start(&FaultPlan::none())?;
    let began = Instant::now();
    let out = |pool: &NodePool, machines: &[Machine]| {
        let others: Vec<_> = of(machines, gcp);
        began.elapsed() > Duration::from_secs(35)
            && others.len() == 4
            && others.iter().all(|m| runs(m))
            && stands(pool) == ("False".to_owned(), "LocationOut".to_owned())
    };
    wait(&world, &operator, ("it is out", patience), out).await?;
    let machines = world.machines().await?;
    ensure!(machines.len() == 6, "{machines:?}");
    ensure!(of(&machines, hetzner).iter().filter(stays).count() == 2);
    let pool = world.site.pools().get(POOL).await?;
    let spread = pool.status.and_then(|s| s.spread).context("no spread")?;
    ensure!(
        spread == "hetzner 0/0 Out (2 silent), gcp 4/4"
            || spread == "hetzner 2/0 Out (2 silent), gcp 4/4",
        "{spread}"
    );
    world.site.wait_event(POOL, "LocationOut").await?;

    kubelets.set(&[]);
    let back = |pool: &NodePool, machines: &[Machine]| {
        stands(pool).0 == "True" && names(machines) == before
    };
    wait(&world, &operator, ("it is as before", BACK), back).await?;
    ensure!(world.journal(hetzner).made("server") == 2);
    ensure!(world.journal(gcp).made("instance") == 4);
    let none = |_: &NodePool, machines: &[Machine]| machines.is_empty();
    world.spread(0, &[(hetzner, 1), (gcp, 1)]).await?;
    wait(&world, &operator, ("all are gone", BACK), none).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_of_all_clouds_and_an_api_that_is_down_replace_nobody() -> Result<()> {
    let (hetzner, gcp) = (Which::Hetzner, Which::Gcp);
    let Some((world, operator)) = World::new("clouds-mute", &[hetzner, gcp]).await? else {
        return Ok(());
    };
    let cluster = world.site.clusters().get("demo").await?;
    let tenants = Arc::clone(&world.site.tenants);
    let kubelets = Kubelets::start(world.site.machines(), tenants, tenant_namespace(&cluster));
    world.spread(4, &[(hetzner, 1), (gcp, 1)]).await?;
    let ready = |pool: &NodePool| pool.status.as_ref().map_or(0, |s| s.ready_replicas);
    let all = |pool: &NodePool, machines: &[Machine]| ready(pool) == 4 && machines.len() == 4;
    let patience = Duration::from_secs(120);
    wait(&world, &operator, ("all are ready", patience), all).await?;

    // Its machines speak: that its API does not answer says nothing of them.
    world.gcp.contents().script = super::down();
    let suspected = |pool: &NodePool, machines: &[Machine]| {
        machines.len() == 4 && stands(pool) == ("False".to_owned(), "LocationSuspected".to_owned())
    };
    wait(&world, &operator, ("the API is down", patience), suspected).await?;
    world.spread(5, &[(hetzner, 1), (gcp, 9)]).await?;
    let elsewhere = |_: &NodePool, machines: &[Machine]| of(machines, hetzner).len() == 3;
    wait(
        &world,
        &operator,
        ("one more elsewhere", patience),
        elsewhere,
    )
    .await?;
    ensure!(world.machines().await?.len() == 5);
    world.gcp.contents().script = fake_clouds::faults::Script::default();
    let well = |pool: &NodePool, _: &[Machine]| ready(pool) == 5 && stands(pool).0 == "True";
    wait(&world, &operator, ("it answers again", BACK), well).await?;

    kubelets.set(&[hetzner, gcp]);
    let began = Instant::now();
    let long = |_: &NodePool, machines: &[Machine]| {
        assert_eq!(machines.len(), 5, "somebody is replaced");
        assert!(machines.iter().all(|m| stays(&&m)), "somebody goes");
        began.elapsed() > ASKED
    };
    wait(&world, &operator, ("a minute of silence", patience), long).await?;
    // It was tried whether the endpoint is why, and that lets the operator in.
    let uid = cluster.uid().unwrap_or_default();
    let word = operator.context.endpoint_probes.word(&uid);
    ensure!(word.probe == Probe::Answers, "{word:?}");
    let pool = serde_json::to_value(world.site.pools().get(POOL).await?)?;
    ensure!(said(&pool, "EndpointUnreachable").0 != "True", "{pool}");
    operator.stop().await
}
