//! `bench csi`: how long claims take to be bound, how long disks take into a virtual machine, one and
//! many at once, how long a pod waits for its volume when its machine dies, and what the driver costs.
//!
//! Disks are attached by VolumeAttachments of the bench's own, so that neither scheduler nor kubelet
//! is part of the time: from the object to `attached`, which the driver says once the instance shows
//! the disk as ready.
//! Invariant: everything lives in the bench's own namespace, which goes whatever happens.

mod attach;
mod failover;
mod report;

use std::{collections::BTreeMap, time::Duration, time::Instant};

use anyhow::{Context as _, Result};
use api::{TenantClusterSpec, storage::Hotplug};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::json;

pub use report::{Attached, Report};

use super::{
    Machine,
    place::{self, sweep, unless_interrupted},
    report::Spread,
    round,
};
use suites::cluster::{
    Management, Pool, Tenant, operator, pool,
    wait::{wait_for, wait_gone, wait_list},
};
use suites::scenario::hotplug;

/// The driver.
const PROGRAM: &str = "csi-proxy";

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Claims to make one after another.
    pub claims: usize,
    /// Disks to attach at once.
    pub disks: Vec<usize>,
    /// Nodes; the largest number of disks is attached to all of them, too, if there are several.
    pub nodes: i32,
    /// How disks are hot-plugged.
    pub hotplug: Hotplug,
    /// How often a machine with a volume is killed.
    pub failovers: usize,
    /// Kubernetes version of tenant cluster and nodes.
    pub version: String,
    /// Time in which nothing happens and writes are counted.
    pub idle: Duration,
    /// How long any one step may take.
    pub patience: Duration,
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
    let run = async || {
        let namespace = place::create(&management).await?;
        let result = unless_interrupted(measure(&management, options, &namespace, say)).await;
        let swept = sweep(&management, say).await;
        let report = result?;
        swept?;
        Ok(report)
    };
    hotplug::with(&management, options.hotplug, run).await
}

/// The tenant cluster that is measured.
struct Place<'a> {
    options: &'a Options,
    tenant: Tenant,
    pool: Pool,
    /// The tenant's API.
    inside: Client,
    say: &'a (dyn Fn(String) + Sync),
}

async fn measure(
    management: &Management,
    options: &Options,
    namespace: &str,
    say: &(dyn Fn(String) + Sync),
) -> Result<Report> {
    let place = begin(management, options, namespace, say).await?;
    let mut report = Report {
        machine: Machine::here(),
        version: options.version.clone(),
        hotplug: options.hotplug,
        nodes: options.nodes,
        bound_s: Spread::default(),
        attach_s: BTreeMap::new(),
        attach_all_nodes_s: None,
        vm_writes_per_50_attaches: None,
        failover_s: Spread::default(),
        rss_mib: None,
        idle_writes_per_min: None,
        notes: Vec::new(),
    };
    report.bound_s = place.bound().await?;
    attach::measure(&place, &mut report).await?;
    report.rss_mib = place.memory().await?;
    if !options.idle.is_zero() {
        let audit = management.audit_log();
        let mark = audit.mark()?;
        tokio::time::sleep(options.idle).await;
        let account = format!(
            "system:serviceaccount:{}:csi",
            place.tenant.tenant_namespace()
        );
        let all = audit.since(mark)?;
        let writes = all.iter().filter(|r| r.user == account && r.is_write());
        let minutes = options.idle.as_secs_f64() / 60.0;
        report.idle_writes_per_min = Some(round(writes.count() as f64 / minutes));
    }
    failover::measure(management, &place, &mut report).await?;
    Ok(report)
}

async fn begin<'a>(
    management: &Management,
    options: &'a Options,
    namespace: &str,
    say: &'a (dyn Fn(String) + Sync),
) -> Result<Place<'a>> {
    let mut spec = TenantClusterSpec {
        version: options.version.clone(),
        ..TenantClusterSpec::default()
    };
    spec.addons.cloud_controller.enabled = true;
    spec.addons.csi.enabled = true;
    spec.addons.core_dns.enabled = false;
    let tenant = Tenant::create(&management.client, namespace, "bench", spec).await?;
    let mut nodes = pool::small("bench");
    nodes.replicas = options.nodes;
    if let Some(kubevirt) = nodes.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
        kubevirt.serial_console = false;
        kubevirt.cpu = 1;
    }
    let pool = Pool::create(&tenant, "workers", nodes).await?;
    let inside = tenant.usable(options.patience).await?.client;
    pool.settled(options.nodes, options.patience).await?;
    tenant.settled(options.patience).await?;
    say(format!(
        "{} nodes after {:.1?}",
        options.nodes,
        pool.created.elapsed()
    ));
    Ok(Place {
        options,
        tenant,
        pool,
        inside,
        say,
    })
}

impl Place<'_> {
    fn claims(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.inside.clone(), "default")
    }

    /// Makes claims and waits until all are bound; gives the names of their volumes.
    async fn volumes(&self, prefix: &str, count: usize) -> Result<Vec<String>> {
        let claims = self.claims();
        for number in 0..count {
            let claim = claim(&format!("{prefix}-{number}"))?;
            claims.create(&PostParams::default(), &claim).await?;
        }
        let what = format!("{count} claims are bound");
        wait_list(
            &claims,
            Config::default(),
            &what,
            self.options.patience,
            |all| {
                let ours = all.iter().filter(|(name, _)| name.starts_with(prefix));
                let volumes: Vec<_> = ours.filter_map(|(_, claim)| volume(claim)).collect();
                (volumes.len() == count).then_some(volumes)
            },
        )
        .await
    }

    /// Removes claims with their volumes.
    async fn remove(&self, prefix: &str, count: usize) -> Result<()> {
        let claims = self.claims();
        let names = (0..count).map(|number| format!("{prefix}-{number}"));
        for name in names.clone() {
            claims.delete(&name, &DeleteParams::background()).await?;
        }
        for name in names {
            wait_gone(&claims, &name, None, self.options.patience).await?;
        }
        // The volumes go after their claims, and what is measured next begins at rest.
        let volumes: Api<PersistentVolumeClaim> = self.tenant.parts();
        let what = "that no volume is left";
        wait_list(
            &volumes,
            Config::default(),
            what,
            self.options.patience,
            |all| {
                let is_volume = |name: &String| name.starts_with("vol-");
                (!all.keys().any(is_volume)).then_some(())
            },
        )
        .await
    }

    /// Claims one after another, from the create call to Bound.
    async fn bound(&self) -> Result<Spread> {
        let (claims, mut times) = (self.claims(), Vec::new());
        for number in 0..self.options.claims {
            let name = format!("bound-{number}");
            let begun = Instant::now();
            claims
                .create(&PostParams::default(), &claim(&name)?)
                .await?;
            wait_for(&claims, &name, "is bound", self.options.patience, |claim| {
                volume(claim).map(drop)
            })
            .await?;
            times.push(begun.elapsed().as_secs_f64());
        }
        self.remove("bound", self.options.claims).await?;
        let spread = Spread::of(&times);
        (self.say)(format!("bound after {:?} s (p95)", spread.p95));
        Ok(spread)
    }

    /// What the driver has in memory, as the kernel says: the tenant namespace's policies let nobody
    /// near its port for metrics.
    async fn memory(&self) -> Result<Option<f64>> {
        let pods = self.tenant.pods_of("csi").await?;
        let pod = pods.first().context("no pod of the driver runs")?;
        let uid = pod.uid().context("a pod without a UID")?;
        Ok(resident(PROGRAM, &uid)?.map(round))
    }
}

/// Resident memory, in MiB, of the program of this name in a pod; none when it does not run on this
/// machine.
fn resident(program: &str, pod_uid: &str) -> Result<Option<f64>> {
    for entry in std::fs::read_dir("/proc")? {
        let folder = entry?.path();
        let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap_or_default();
        if read("comm").trim() == program && read("cgroup").contains(pod_uid) {
            return Ok(kit::metrics::usage_in(&folder).map(|usage| usage.rss_mib()));
        }
    }
    Ok(None)
}

/// A small claim of the default class, as a block device: nobody formats it.
fn claim(name: &str) -> Result<PersistentVolumeClaim> {
    let claim = json!({
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block",
            "resources": { "requests": { "storage": "16Mi" } },
        },
    });
    Ok(serde_json::from_value(claim)?)
}

/// The volume of a claim that is bound.
fn volume(claim: &PersistentVolumeClaim) -> Option<String> {
    let bound = claim.status.as_ref()?.phase.as_deref() == Some("Bound");
    claim.spec.as_ref()?.volume_name.clone().filter(|_| bound)
}
