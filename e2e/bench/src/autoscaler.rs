//! `bench autoscaler`: how long it takes from a wish of the Cluster Autoscaler until there is a
//! virtual machine, how long a pool takes from zero to several nodes and back, and what the adapter
//! writes when nothing happens. What its calls cost without a lab, `autoscaler/benches/calls`
//! measures; `cargo xtask bench autoscaler` puts both into one report.
//!
//! Invariant: everything lives in the bench's own namespace, which goes whatever happens.

mod report;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use api::{TenantClusterSpec, foreign::kubevirt::VirtualMachine, node_pool::Autoscaling};
use autoscaler_client::Generation;
use autoscaler_client::protocol::{FakeReason, fake};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
    runtime::watcher::Config,
};

pub use report::{Phases, Report};

use super::{
    Machine,
    place::{self, sweep, unless_interrupted},
    report::Spread,
    round,
};
use suites::cluster::{
    Management, Pool, Tenant, operator, pool,
    wait::{wait_for, wait_list},
};
use suites::scenario::autoscaler::{ADAPTER, Player, connect, deployment, group_of};

/// Name of the Deployment that needs nodes.
const LOAD: &str = "load";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Machines that are asked for one after another, and given back before they boot.
    pub rounds: usize,
    /// Nodes that a Deployment needs, from zero; 0 leaves it out.
    pub nodes: i32,
    /// Kubernetes version of tenant cluster and nodes.
    pub version: String,
    /// Time in which nothing happens and writes are counted.
    pub idle: Duration,
    /// How long any one step may take.
    pub patience: Duration,
    /// What was measured without the lab, as JSON; its fields become the report's.
    pub service: serde_json::Map<String, serde_json::Value>,
}

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab or the operator is missing, or an API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let management = Management::connect().await?;
    let management = management
        .context("the lab is not up: `cargo xtask demo` brings it up with the operator")?;
    operator::usage(&management.client).await?;
    management.virtual_machines().await?;
    sweep(&management, say).await?;
    let namespace = place::create(&management).await?;
    let result = unless_interrupted(measure(&management, options, &namespace, say)).await;
    let swept = sweep(&management, say).await;
    let report = result?;
    swept?;
    Ok(report)
}

async fn measure(
    management: &Management,
    options: &Options,
    namespace: &str,
    say: &(dyn Fn(String) + Sync),
) -> Result<Report> {
    let mut report = Report {
        machine: Machine::here(),
        version: options.version.clone(),
        pod_to_vm_s: Spread::default(),
        idle_writes_per_min: None,
        phases: None,
        service: options.service.clone(),
    };
    let client = &management.client;
    let mut spec = TenantClusterSpec {
        version: options.version.clone(),
        ..TenantClusterSpec::default()
    };
    spec.addons.autoscaler.enabled = true;
    spec.addons.core_dns.enabled = false;
    let tenant = Tenant::create(client, namespace, "bench", spec).await?;
    let pool = Pool::create(&tenant, "workers", empty(options)).await?;
    let inside = tenant.usable(options.patience).await?.client;
    let link = connect(management, &tenant, Generation::New, options.patience).await?;
    let mut player = Player::new(link, inside.clone());
    let group = group_of(player.protocol(), &pool.name, options.patience).await?;
    let mut times = Vec::new();
    for round in 0..options.rounds {
        let time = one(&mut player, &pool, &group, options.patience).await;
        let time = time.with_context(|| format!("machine {round}"))?;
        times.push(time.as_secs_f64());
    }
    report.pod_to_vm_s = Spread::of(&times);
    say(format!(
        "a virtual machine after {:?} s (p95)",
        report.pod_to_vm_s.p95
    ));
    if !options.idle.is_zero() {
        pool.settled(0, options.patience).await?;
        let writes = idle(management, &tenant, options.idle).await?;
        report.idle_writes_per_min = Some(writes);
    }
    if options.nodes > 0 {
        let phases = up_and_down(&mut player, &pool, &inside, options, say);
        report.phases = Some(phases.await?);
    }
    Ok(report)
}

fn empty(options: &Options) -> api::NodePoolSpec {
    let mut nodes = pool::small("bench");
    nodes.replicas = 0;
    nodes.autoscaling = Some(Autoscaling {
        min: 0,
        max: options.nodes.max(1),
        scale_down_delay: None,
        utilization_threshold: None,
        priority: 0,
        capacity: Default::default(),
        architecture: None,
    });
    if let Some(kubevirt) = nodes.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
        kubevirt.serial_console = false;
        kubevirt.cpu = 1;
    }
    nodes
}

/// Asks for one machine, and gives it back; from the call to the VirtualMachine.
async fn one(
    player: &mut Player,
    pool: &Pool,
    group: &str,
    patience: Duration,
) -> Result<Duration> {
    let vms = pool.virtual_machines();
    let before = names(&vms).await?;
    let made = wait_list(&vms, Config::default(), "a new one", patience, |all| {
        all.keys().find(|name| !before.contains(*name)).cloned()
    });
    let begun = Instant::now();
    let grown = player.protocol().increase(group, 1);
    // The watch begins while the call is under way, long before there is anything to see.
    let (made, grown) = tokio::join!(made, grown);
    let time = begun.elapsed();
    grown?;
    let id = api::names::kubevirt_provider_id(&made?);
    let gone = vec![fake(&id, FakeReason::Unregistered)];
    player.protocol().delete(group, gone).await?;
    pool.machines_are("no Machine is left", patience, |all| {
        all.is_empty().then_some(())
    })
    .await?;
    Ok(time)
}

async fn names(vms: &Api<VirtualMachine>) -> Result<BTreeSet<String>> {
    let list = vms.list(&ListParams::default()).await?;
    let names = list.items.into_iter().filter_map(|vm| vm.metadata.name);
    Ok(names.collect())
}

/// Writes of the adapter to the management API in a minute in which nothing happens.
async fn idle(management: &Management, tenant: &Tenant, time: Duration) -> Result<f64> {
    let audit = management.audit_log();
    let mark = audit.mark()?;
    tokio::time::sleep(time).await;
    let namespace = tenant.tenant_namespace();
    let account = format!("system:serviceaccount:{namespace}:{ADAPTER}");
    let all = audit.since(mark)?;
    let writes = all.iter().filter(|r| r.user == account && r.is_write());
    Ok(round(writes.count() as f64 / (time.as_secs_f64() / 60.0)))
}

/// A Deployment comes and goes, and nodes with it.
async fn up_and_down(
    player: &mut Player,
    pool: &Pool,
    inside: &Client,
    options: &Options,
    say: &(dyn Fn(String) + Sync),
) -> Result<Phases> {
    let (nodes, patience) = (options.nodes, options.patience);
    let count = usize::try_from(nodes)?;
    let deployments: Api<Deployment> = Api::namespaced(inside.clone(), "default");
    let load = serde_json::from_str(&deployment(LOAD, nodes))?;
    let begun = Instant::now();
    deployments.create(&PostParams::default(), &load).await?;
    let since = |begun: Instant| round(begun.elapsed().as_secs_f64());
    let grow = async {
        let what = format!("{count} VirtualMachines are there");
        let vms = pool.virtual_machines();
        wait_list(&vms, Config::default(), &what, patience, |all| {
            (all.len() == count).then_some(())
        })
        .await?;
        let machines_made = since(begun);
        pool.settled(nodes, patience).await?;
        let nodes_ready = since(begun);
        wait_for(&deployments, LOAD, "all pods run", patience, |load| {
            let ready = load.status.as_ref()?.ready_replicas;
            (ready == Some(nodes)).then_some(())
        })
        .await?;
        Ok((machines_made, nodes_ready, since(begun)))
    };
    let (vms_s, nodes_ready_s, pods_ready_s) = player.during(say, grow).await?;
    let replicas = pool.api().get(&pool.name).await?.spec.replicas;
    ensure!(replicas == nodes, "the pool has {replicas} replicas");
    let begun = Instant::now();
    deployments
        .delete(LOAD, &DeleteParams::background())
        .await?;
    let shrink = async {
        pool.machines_are("no Machine is left", patience, |all| {
            all.is_empty().then_some(())
        })
        .await
    };
    player.during(say, shrink).await?;
    Ok(Phases {
        nodes,
        vms_s,
        nodes_ready_s,
        pods_ready_s,
        given_back_s: since(begun),
    })
}
