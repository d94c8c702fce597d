//! `bench restore`: how much of what was acknowledged a backup lacks under load, and what it takes; how long a restore
//! takes of a database with an hour of changes; how long until a member of three that lost its volume is replaced, and
//! what a steady client has of that.
//!
//! Invariant: everything lives in the namespace of the run, which goes whatever happens. What was acknowledged is looked
//! for after everything that was done.

mod figures;
mod flows;
mod load;
mod options;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::tenant_cluster::EtcdMemberStatus;
use api::{ConditionType, Reason, Restore, Snapshot, condition};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use suites::cluster::wait::wait_for;
use suites::cluster::{OPERATOR_NAMESPACE, Tenant};
use suites::scenario::pods::{self, Command};
use suites::scenario::{self, Scenario};

use self::figures::{Ack, losses_s, lost, samples};
pub use self::flows::FLOWS;
use self::load::{Load, fill};
pub use self::options::Options;
use self::options::{BESIDE, BETWEEN, ready};
pub use self::report::{Most, Report};
use super::clients::{Both, Flow};
use super::machine::Machine;
use super::place::unless_interrupted;
use super::report::Spread;
use super::{percentile, processes, round};

/// Port where the process that backs up says how far it is (docs/backup-format.md).
const STATUS_PORT: u16 = 2382;
/// Component label of that process.
const BACKUP: &str = "backup";

/// Measures. What it did is told to `say`.
///
/// # Errors
/// When the lab or the operator is missing, or an API fails.
pub async fn run(options: &Options, say: &(dyn Fn(String) + Sync)) -> Result<Report> {
    let mut report = Report {
        machine: Machine::here(),
        version: options.version.clone(),
        rpo_s: Most::default(),
        writes_per_s: None,
        backup: processes::IdleTenant::default(),
        members: options.members,
        data_mib: options.data_mib,
        deltas: options.deltas,
        restore_s: Spread::default(),
        member_replaced_s: Spread::default(),
        failed: BTreeMap::new(),
        answered: BTreeMap::new(),
        gap_s: BTreeMap::new(),
        took_s: BTreeMap::new(),
        lost: None,
        notes: Vec::new(),
    };
    let measured = &mut report;
    scenario::command("bench-restore", async |s| {
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
    if !options.load.is_zero() || options.restores > 0 {
        let tenant = backed_up(s, options).await?;
        let admin = tenant.admin(options.patience).await?;
        let load = Load::new(Api::namespaced(admin, "default"));
        if !options.load.is_zero() {
            under_load(s, &tenant, &load, options, report).await?;
            say(format!("lost at most {:?} s", report.rpo_s.max));
        }
        if options.restores > 0 {
            restores(s, &tenant, &load, options, report, say).await?;
        }
        tenant.delete().await?;
        tenant.gone(options.patience).await?;
    }
    if options.replacements > 0 || !options.flows.is_empty() {
        replacements(s, options, report, say).await?;
    }
    Ok(())
}

/// A tenant cluster whose backup was found whole.
async fn backed_up(s: &Scenario, options: &Options) -> Result<Tenant> {
    let target = s.backup_target().await?;
    // What a test of a restore takes is not what is measured.
    let backup = json!({ "target": target, "delta": "10s", "restoreTest": "0s" });
    let backup = serde_json::from_value(backup)?;
    let tenant = s
        .tenant("bench", |spec| {
            spec.version.clone_from(&options.version);
            spec.etcd.replicas = options.members;
            spec.backup = Some(backup);
        })
        .await?;
    tenant.usable(options.patience).await?;
    is_whole(&tenant, options).await?;
    Ok(tenant)
}

async fn is_whole(tenant: &Tenant, options: &Options) -> Result<()> {
    let whole = tenant.condition(ConditionType::BackupReady, true, options.patience);
    whole.await.map(drop)
}

/// Writes, and asks the backup meanwhile how far it is: from the operator's namespace, whose pods alone may.
async fn under_load(
    s: &Scenario,
    tenant: &Tenant,
    load: &Load,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let namespace = tenant.tenant_namespace();
    let selector = format!("{}={BACKUP}", api::names::LABEL_COMPONENT);
    let address = pods::address(s.client(), &namespace, &selector).await?;
    let seconds = options.load.as_secs();
    // The looks begin before the writes and end after them.
    let many = (seconds + 30) * 4;
    // Not `wget -T`, which crashes in this image. HTTP/1.0 ends with the answer, whose last line is what is said.
    let ask = format!(
        "printf 'GET /status HTTP/1.0\\r\\n\\r\\n' | nc -w 1 {address} {STATUS_PORT} | tail -n 1"
    );
    let command = Command {
        script: format!("for i in $(seq {many}); do {ask}; echo; sleep 0.25; done"),
        ..Command::default()
    };
    let looker = pods::start(s.client(), OPERATOR_NAMESPACE, &command).await?;
    let all: Api<Pod> = Api::namespaced(s.client().clone(), OPERATOR_NAMESPACE);
    let measured = async {
        wait_for(&all, &looker, "it runs", options.patience, |pod| {
            let phase = pod.status.as_ref()?.phase.as_deref()?;
            (phase == "Running").then_some(())
        })
        .await?;
        let uids = uids(tenant, &selector).await?;
        let (before, begun) = (processes::of_pods(&uids), Instant::now());
        let written = load.write(u64::from(options.rate) * seconds, options.rate);
        let written = written.await?;
        let took = begun.elapsed();
        let after = processes::of_pods(&uids);
        let log = all.logs(&looker, &LogParams::default()).await?;
        anyhow::Ok((before, after, took, written, log))
    };
    let measured = measured.await;
    let gone = DeleteParams::background().grace_period(0);
    all.delete(&looker, &gone).await?;
    let (before, after, took, written, log) = measured?;
    report.backup = processes::idle(&before, &after, took, 1).map(round);
    report.writes_per_s = Some(round(written.acks.len() as f64 / took.as_secs_f64()));
    let losses = losses_s(&written.acks, &samples(&log));
    report.rpo_s = Most {
        max: percentile(&losses, 1.0).map(round),
        p50: percentile(&losses, 0.5).map(round),
        looks: losses.len(),
    };
    if written.failed > 0 {
        let note = format!("{} writes under load failed", written.failed);
        report.notes.push(note);
    }
    Ok(())
}

async fn uids(tenant: &Tenant, selector: &str) -> Result<BTreeSet<String>> {
    let pods = tenant.parts::<Pod>();
    let pods = pods.list(&ListParams::default().labels(selector)).await?;
    Ok(pods.iter().filter_map(|pod| pod.uid()).collect())
}

async fn restores(
    s: &Scenario,
    tenant: &Tenant,
    load: &Load,
    options: &Options,
    report: &mut Report,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let admin = tenant.admin(options.patience).await?;
    fill(&Api::namespaced(admin, "kube-public"), options.data_mib).await?;
    say(format!("{} MiB are written", options.data_mib));
    let (mut times, mut acks) = (Vec::new(), Vec::<Ack>::new());
    for round in 0..options.restores {
        is_whole(tenant, options).await?;
        snapshot(s, &tenant.name, round, options).await?;
        let written = load.write(options.deltas, options.rate).await?;
        acks.extend(written.acks);
        if written.failed > 0 {
            let note = format!("{} writes before restore {round} failed", written.failed);
            report.notes.push(note);
        }
        let time = restore(s, tenant, round, options).await?;
        times.push(time.as_secs_f64());
        say(format!(
            "restore {round}: {:.1} s to the first write",
            time.as_secs_f64()
        ));
        let gone = lost(&acks, &load.found().await?);
        report.lost = Some(report.lost.unwrap_or_default() + gone);
        confirm(s, tenant, round, options).await?;
    }
    report.restore_s = Spread::of(&times);
    Ok(())
}

/// A full snapshot, so that the writes after it are deltas.
async fn snapshot(s: &Scenario, cluster: &str, number: usize, options: &Options) -> Result<()> {
    let all: Api<Snapshot> = Api::namespaced(s.client().clone(), &s.namespace);
    let name = format!("before-{number}");
    let snapshot = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
        "metadata": { "name": name }, "spec": { "clusterName": cluster },
    }))?;
    all.create(&PostParams::default(), &snapshot).await?;
    wait_for(&all, &name, "is taken", options.patience, |snapshot| {
        let conditions = &snapshot.status.as_ref()?.conditions;
        condition::is_true(conditions, ConditionType::Ready).then_some(())
    })
    .await
}

fn restore_name(number: usize) -> String {
    format!("back-{number}")
}

/// From its creation to the first write that is taken afterwards.
async fn restore(
    s: &Scenario,
    tenant: &Tenant,
    number: usize,
    options: &Options,
) -> Result<Duration> {
    let all: Api<Restore> = Api::namespaced(s.client().clone(), &s.namespace);
    let name = restore_name(number);
    let restore = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": name }, "spec": { "clusterName": tenant.name },
    }))?;
    let begun = Instant::now();
    all.create(&PostParams::default(), &restore).await?;
    let mut said = String::new();
    let over = wait_for(&all, &name, "is over", options.patience, |restore| {
        let conditions = &restore.status.as_ref()?.conditions;
        let ends = [
            Reason::Restored,
            Reason::RestoreGivenUp,
            Reason::RestoreImpossible,
        ];
        conditions.iter().find_map(|condition| {
            said.clone_from(&condition.message);
            let mut ends = ends.into_iter();
            ends.find(|reason| condition.reason == *reason)
        })
    });
    match over.await? {
        Reason::Restored => {}
        reason => bail!("it was not restored: {reason}: {said}"),
    }
    // The API took writes until it was stopped, so that it takes one means nothing before.
    first_write(tenant, options).await?;
    Ok(begun.elapsed())
}

async fn first_write(tenant: &Tenant, options: &Options) -> Result<()> {
    // Of this moment, not of the create call.
    let again = Tenant {
        created: Instant::now(),
        ..tenant.clone()
    };
    again.usable(options.patience).await.map(drop)
}

async fn confirm(s: &Scenario, tenant: &Tenant, number: usize, options: &Options) -> Result<()> {
    let all: Api<Restore> = Api::namespaced(s.client().clone(), &s.namespace);
    let confirmed = Patch::Merge(json!({ "spec": { "confirmed": true } }));
    let params = PatchParams::default();
    all.patch(&restore_name(number), &params, &confirmed)
        .await?;
    let what = "what etcd had before is removed";
    wait_for(
        &tenant.api(),
        &tenant.name,
        what,
        options.patience,
        |cluster| {
            let status = cluster.status.as_ref()?;
            status.restore.is_none().then_some(())
        },
    )
    .await?;
    tenant.settled(options.patience).await.map(drop)
}

async fn replacements(
    s: &Scenario,
    options: &Options,
    report: &mut Report,
    say: &(dyn Fn(String) + Sync),
) -> Result<()> {
    let tenant = s
        .tenant("three", |spec| {
            spec.version.clone_from(&options.version);
            spec.etcd.replicas = 3;
        })
        .await?;
    let admin = tenant.usable(options.patience).await?.client;
    tenant.settled(options.patience).await?;
    all_ready(&tenant, options).await?;
    let kubeconfig = tenant.kubeconfig(options.patience).await?;
    let load = Load::new(Api::namespaced(admin, "default"));
    let (mut times, mut acks) = (Vec::new(), Vec::<Ack>::new());
    let mut replaced = Flow::default();
    for round in 0..options.replacements {
        if round > 0 {
            // The operator waits for so long by itself, and that is not what is measured.
            tokio::time::sleep(BETWEEN).await;
        }
        let clients = Both::start(&kubeconfig).await?;
        let goes = replace(&tenant, round % 3, options);
        let (time, written) = load.write_during(BESIDE, goes).await?;
        let (flow, notes) = clients.finish(time).await?;
        acks.extend(written.acks);
        times.push(time.as_secs_f64());
        replaced.add(&flow);
        report.notes.extend(notes);
        say(format!(
            "member {round} is replaced after {:.1} s",
            time.as_secs_f64()
        ));
    }
    if !times.is_empty() {
        report.member_replaced_s = Spread::of(&times);
        report.record("replacement", &replaced);
    }
    let measured = flows::measure(s.client(), &tenant, &kubeconfig, &load, options, say).await?;
    acks.extend(measured.acks);
    report.notes.extend(measured.notes);
    for (name, flow) in measured.flows {
        report.record(name, &flow);
    }
    let gone = lost(&acks, &load.found().await?);
    report.lost = Some(report.lost.unwrap_or_default() + gone);
    Ok(())
}

async fn all_ready(tenant: &Tenant, options: &Options) -> Result<()> {
    ready(tenant, 3, options).await
}

/// Takes a member's volume away, and waits until another one serves in its place.
async fn replace(tenant: &Tenant, number: usize, options: &Options) -> Result<Duration> {
    let member = format!("etcd-{number}");
    let volume = |members: &[EtcdMemberStatus]| {
        let mut members = members.iter();
        members
            .find(|one| one.name == member)
            .map(|one| one.volume_uid.clone())
    };
    let status = tenant.get().await?.status.unwrap_or_default();
    let before = status.etcd.as_ref().and_then(|etcd| volume(&etcd.members));
    let before = before.with_context(|| format!("{member} is not in the status"))?;
    let claims: Api<PersistentVolumeClaim> = tenant.parts();
    let pods: Api<Pod> = tenant.parts();
    let begun = Instant::now();
    let gone = DeleteParams::background();
    claims.delete(&format!("data-{member}"), &gone).await?;
    pods.delete(&member, &gone.grace_period(0)).await?;
    let what = "another volume, with a vote, and nothing under way";
    wait_for(
        &tenant.api(),
        &tenant.name,
        what,
        options.patience,
        |cluster| {
            let etcd = cluster.status.as_ref()?.etcd.as_ref()?;
            let is_there = |one: &&EtcdMemberStatus| one.name == member;
            let now = etcd.members.iter().find(is_there)?;
            let is_new = now.volume_uid != before && now.started && !now.learner;
            (is_new && etcd.replacing.is_none()).then_some(())
        },
    )
    .await?;
    all_ready(tenant, options).await?;
    Ok(begun.elapsed())
}
