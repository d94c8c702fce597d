//! `bench upgrade`: what steady clients have of an upgrade of the control plane, by its replicas, and how long one that
//! cannot be had takes to be what it was.
//!
//! Invariant: everything lives in the namespace of the run, which goes whatever happens.

use std::time::{Duration, Instant};

use anyhow::Result;
use api::TenantCluster;
use api::tenant_cluster::UpgradePhase;
use serde_json::{Value, json};
use suites::cluster::Tenant;
use suites::cluster::wait::wait_for;
use suites::scenario::steady::{Steady, Wire};
use suites::scenario::{self, Scenario};

use super::changes::Report;
use super::clients::Both;
use super::place::unless_interrupted;
use super::report::Spread;

/// A patch of the version after, of which nobody has an image.
const NOWHERE: u32 = 99;

/// An upgrade begins once a tenant cluster has been Ready for a minute (docs/upgrades.md), and a bit more.
const CALM: Duration = Duration::from_secs(65);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// The version that is upgraded.
    pub from: String,
    /// What it becomes.
    pub to: String,
    /// Replicas of the control plane, one tenant cluster each.
    pub replicas: Vec<i32>,
    /// Upgrades that cannot be had, one after another; 0 leaves them out.
    pub returns: usize,
    /// How long a new kube-apiserver serves the version before, as in `spec.upgrade.soak`.
    pub soak: String,
    /// How long any one step may take.
    pub patience: Duration,
}

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab or the operator is missing, or an API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let mut report = Report::new(format!("{} to {}", options.from, options.to));
    let measured = &mut report;
    scenario::command("bench-upgrade", async |s| {
        unless_interrupted(measure(s, options, measured, say)).await
    })
    .await?;
    Ok(report)
}

async fn measure(
    s: &Scenario,
    options: &Options,
    report: &mut Report,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    for &replicas in &options.replicas {
        let name = format!("replicas_{replicas}");
        let tenant = s
            .tenant(&format!("replicas-{replicas}"), |spec| {
                spec.version.clone_from(&options.from);
                spec.control_plane.replicas = replicas;
            })
            .await?;
        calm(&tenant, options).await?;
        let change = json!({ "version": options.to, "upgrade": { "soak": options.soak } });
        upgrade(&tenant, &name, &change, options, report).await?;
        say(format!("{name}: {}", report.told(&name)));
        tenant.delete().await?;
        tenant.gone(options.patience).await?;
    }
    if options.returns > 0 {
        returns(s, options, report, say).await?;
    }
    Ok(())
}

/// Waits until an upgrade would begin at once.
async fn calm(tenant: &Tenant, options: &Options) -> Result<()> {
    tenant.usable(options.patience).await?;
    tenant.settled(options.patience).await?;
    tokio::time::sleep(CALM).await;
    Ok(())
}

/// Upgrades under three clients: the two that are asked for nothing, and one that tries nothing again over HTTP/1.1.
async fn upgrade(
    tenant: &Tenant,
    name: &str,
    change: &Value,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let kubeconfig = tenant.kubeconfig(options.patience).await?;
    let clients = Both::start(&kubeconfig).await?;
    let bare = Steady::start_over(&kubeconfig, Wire::Http1).await?;
    let begun = Instant::now();
    tenant.change(change).await?;
    tenant.settled(options.patience).await?;
    let took = begun.elapsed();
    let bare = bare.finish().await?;
    report.record(name, clients.finish(took).await?);
    report.bare(name, &bare);
    Ok(())
}

/// A version of which there is no image, again and again: each is taken back by itself.
async fn returns(
    s: &Scenario,
    options: &Options,
    report: &mut Report,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let tenant = s
        .tenant("returns", |spec| {
            spec.version.clone_from(&options.from);
            spec.control_plane.replicas = 2;
        })
        .await?;
    calm(&tenant, options).await?;
    let minor = options.to.rsplit_once('.');
    let nowhere = minor.map_or_else(
        || options.to.clone(),
        |(minor, _)| format!("{minor}.{NOWHERE}"),
    );
    let kubeconfig = tenant.kubeconfig(options.patience).await?;
    let mut times = Vec::new();
    for number in 0..options.returns {
        let clients = Both::start(&kubeconfig).await?;
        let begun = Instant::now();
        let upgrade = json!({ "deadline": DEADLINE, "retry": number });
        tenant
            .change(&json!({ "version": nowhere, "upgrade": upgrade }))
            .await?;
        let back = |cluster: &TenantCluster| {
            let upgrade = cluster.status.as_ref()?.upgrade.as_ref()?;
            let is_of_now = upgrade.failed_retry == i32::try_from(number).ok();
            (is_of_now && upgrade.phase == UpgradePhase::RolledBack).then_some(())
        };
        let what = "what ran before runs";
        wait_for(&tenant.api(), &tenant.name, what, options.patience, back).await?;
        let took = begun.elapsed();
        report.record(&format!("return_{number}"), clients.finish(took).await?);
        times.push(took.as_secs_f64());
        say(format!("return {number}: {:.1} s", took.as_secs_f64()));
        // Otherwise the next one is the same as this one.
        tenant.change(&json!({ "version": options.from })).await?;
        tenant.settled(options.patience).await?;
    }
    report.rollback_s = Some(Spread::of(&times));
    report.deadline_s = Some(DEADLINE_S);
    tenant.delete().await?;
    tenant.gone(options.patience).await
}

/// How long new pods have to become ready (`spec.upgrade.deadline`): the least that is taken.
const DEADLINE: &str = "1m";
/// The same in seconds.
const DEADLINE_S: u32 = 60;
