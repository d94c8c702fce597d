//! One member of etcd becomes three, and three become one, and members move to volumes of another StorageClass, with
//! real etcd processes.
//!
//! Invariant: every write that etcd acknowledged meanwhile is on every member afterwards, and the cluster is
//! the one that it was, whichever write of the operator was its last.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::EtcdStatus;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use operator::etcd_replacement::patience::Patience;
use operator::tenant_session::etcd;
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Deaths;
use testkit::fixtures::{is_settled, wait_for};

use crate::crash::{Writes, dies, for_deaths};
use crate::support::etcd_members::{MEMBERS, Writer, has_all};
use crate::support::etcd_stage::{CLASSES, Stage};

/// A change of the number takes no longer.
const MOST: Duration = Duration::from_secs(180);
/// Lives at the same time, most of which is waiting. Each lane is a tenant cluster with an etcd of its own.
const LANES: usize = 2;

/// What is known of etcd, where it has so many members, all of which have run and vote.
fn is_of(cluster: &TenantCluster, members: usize) -> Option<EtcdStatus> {
    let etcd = cluster.status.as_ref()?.etcd.clone()?;
    let mut each = etcd.members.iter();
    let all = each.all(|m| m.started && !m.learner && m.id.is_some());
    let is_it = all && etcd.members.len() == members && etcd.replacing.is_none();
    (is_it && is_settled(cluster)).then_some(etcd)
}

async fn wait_until_of(stage: &Stage, members: usize) -> Result<EtcdStatus> {
    let clusters = stage.site.clusters();
    let is_it = |cluster: &TenantCluster| is_of(cluster, members).is_some();
    let found = wait_for(&clusters, "demo", |c| c.is_some_and(is_it), MOST).await?;
    let found = found.and_then(|cluster| is_of(&cluster, members));
    found.context("invariant: it was just seen")
}

async fn ask_for(stage: &Stage, members: usize) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "etcd": { "replicas": members } } }));
    let params = PatchParams::default();
    stage.site.clusters().patch("demo", &params, &patch).await?;
    Ok(())
}

/// The member that is there whatever the number is.
async fn first(stage: &Stage) -> Result<Client> {
    let clients = stage.clients().await?;
    clients.into_iter().next().context("there are clients")
}

async fn servers(stage: &Stage) -> Result<String> {
    let deployments: Api<Deployment> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let live = serde_json::to_value(deployments.get("control-plane").await?)?;
    let containers = live["spec"]["template"]["spec"]["containers"]
        .as_array()
        .cloned();
    let args = containers.into_iter().flatten().map(|c| c["args"].clone());
    let args = args.flat_map(|args| args.as_array().cloned().unwrap_or_default());
    let mut args = args.filter_map(|arg| arg.as_str().map(str::to_owned));
    let servers = args.find_map(|arg| arg.strip_prefix("--etcd-servers=").map(str::to_owned));
    servers.context("it asks no etcd")
}

/// One cluster of so many members that vote, as each of them says it, with all of these writes on each.
async fn check(stage: &Stage, etcd: &EtcdStatus, writes: &BTreeSet<u64>) -> Result<()> {
    let members = etcd.members.len();
    for (seat, client) in stage.clients().await?.iter().take(members).enumerate() {
        let status = etcd::status(client).await?;
        ensure!(
            Some(&status.cluster_id) == etcd.cluster_id.as_ref(),
            "{status:?}"
        );
        ensure!(
            Some(&status.member_id) == etcd.members[seat].id.as_ref(),
            "{status:?}"
        );
        let list = etcd::member_list(client).await?;
        ensure!(
            list.len() == members && list.iter().all(|m| !m.is_learner),
            "{list:?}"
        );
        let on = format!("etcd-{seat}");
        has_all(client, writes).await.context(on)?;
    }
    let wanted: Vec<_> = (0..members)
        .map(|n| format!("https://etcd-{n}:2379"))
        .collect();
    ensure!(servers(stage).await? == wanted.join(","));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_member_becomes_three_and_one_again_and_no_acknowledged_write_is_lost() -> Result<()> {
    let Some(stage) = Stage::of("etcd-sizes", 1, &[]).await? else {
        return Ok(());
    };
    let _operator = stage.operator(&FaultPlan::none(), Patience::default())?;
    let before = wait_until_of(&stage, 1).await?;
    let file = stage.members.file("acknowledged");
    let writer = Writer::start(vec![first(&stage).await?], &file)?;
    let begun = Instant::now();
    ask_for(&stage, 3).await?;
    let three = wait_until_of(&stage, 3).await?;
    eprintln!("three after {:.1?}", begun.elapsed());
    ensure!(three.cluster_id == before.cluster_id && three.members[0] == before.members[0]);
    let begun = Instant::now();
    ask_for(&stage, 1).await?;
    let one = wait_until_of(&stage, 1).await?;
    eprintln!("one after {:.1?}", begun.elapsed());
    ensure!(
        one.cluster_id == before.cluster_id && one.members == before.members,
        "{one:?}"
    );
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    for seat in 1..3 {
        let claim = claims.get(&format!("data-etcd-{seat}")).await?;
        ensure!(
            claim.annotations().contains_key("covey.dev/keep-until"),
            "{claim:?}"
        );
        ensure!(claim.uid().as_ref() == Some(&three.members[seat].volume_uid));
    }
    let written = writer.end().await?;
    let (failed, gap, count) = (written.failed, written.gap, written.acknowledged.len());
    eprintln!("{count} acknowledged, {failed} failed, longest gap {gap:.1?}");
    ensure!(count > 100 && failed == 0, "{failed} of {count} failed");
    check(&stage, &one, &written.acknowledged).await?;
    // And three again, on other volumes. Somebody writes, as a kube-apiserver does all the time: one that begins with a
    // snapshot takes no request before it applied an entry that came later (etcd 3.6 sets the index that it measures how
    // far it is behind by only there), so it never serves where more than 5,000 came before and none comes any more.
    let file = stage.members.file("acknowledged-again");
    let writer = Writer::start(vec![first(&stage).await?], &file)?;
    ask_for(&stage, 3).await?;
    let again = wait_until_of(&stage, 3).await?;
    ensure!(again.members[1].volume_uid != three.members[1].volume_uid);
    check(&stage, &again, &writer.stop().await?).await?;
    check(&stage, &again, &written.acknowledged).await
}

/// Of who waits for nothing that needs not be waited for.
fn hasty() -> Patience {
    let second = Duration::from_secs(1);
    Patience {
        steady: second,
        between: second,
        shrinking: second,
        serving: second,
        ..Patience::default()
    }
}

async fn ask_for_class(stage: &Stage, class: &str) -> Result<()> {
    let class = json!({ "spec": { "etcd": { "storage": { "storageClassName": class } } } });
    let params = PatchParams::default();
    let clusters = stage.site.clusters();
    clusters
        .patch("demo", &params, &Patch::Merge(class))
        .await?;
    Ok(())
}

/// Waits until there are so many members, and each of them has another volume than before.
async fn wait_until_moved(stage: &Stage, before: &EtcdStatus) -> Result<EtcdStatus> {
    let members = before.members.len();
    let is_moved = |cluster: &TenantCluster| {
        is_of(cluster, members).is_some_and(|now| {
            let mut each = now.members.iter().zip(&before.members);
            each.all(|(now, before)| now.volume_uid != before.volume_uid && now.id != before.id)
        })
    };
    let clusters = stage.site.clusters();
    let found = wait_for(&clusters, "demo", |c| c.is_some_and(is_moved), MOST).await?;
    let found = found.and_then(|cluster| is_of(&cluster, members));
    found.context("invariant: it was just seen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_move_to_another_class_one_by_one_and_no_acknowledged_write_is_lost()
-> Result<()> {
    let Some(stage) = Stage::new("etcd-class", &[]).await? else {
        return Ok(());
    };
    let members = MEMBERS;
    let [slow, fast] = CLASSES;
    ask_for_class(&stage, slow).await?;
    let _operator = stage.operator(&FaultPlan::none(), hasty())?;
    let before = wait_until_of(&stage, members).await?;
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let on = async |seat: usize| {
        let claim = claims.get(&format!("data-etcd-{seat}")).await?;
        let class = claim.spec.and_then(|spec| spec.storage_class_name);
        anyhow::Ok((claim.metadata.uid, class))
    };
    for seat in 0..members {
        ensure!(on(seat).await?.1.as_deref() == Some(slow));
    }
    let writer = stage.writer().await?;
    let begun = Instant::now();
    ask_for_class(&stage, fast).await?;
    let after = wait_until_moved(&stage, &before).await?;
    eprintln!("moved after {:.1?}", begun.elapsed());
    let written = writer.end().await?;
    let (failed, gap, count) = (written.failed, written.gap, written.acknowledged.len());
    eprintln!("{count} acknowledged, {failed} failed, longest gap {gap:.1?}");
    ensure!(count > 100 && after.cluster_id == before.cluster_id);
    for (seat, member) in after.members.iter().enumerate() {
        let (uid, class) = on(seat).await?;
        ensure!(
            uid.as_ref() == Some(&member.volume_uid) && class.as_deref() == Some(fast),
            "etcd-{seat}: {uid:?} {class:?}"
        );
    }
    let sets: Api<StatefulSet> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let set = serde_json::to_value(sets.get("etcd").await?)?;
    let makes = &set["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"];
    ensure!(makes == fast, "{set}");
    check(&stage, &after, &written.acknowledged).await
}

/// One that is crashed again and again, and what was written to it meanwhile.
struct Lane {
    stage: Stage,
    writer: Writer,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn number_of_members_changes_the_same_wherever_the_operator_dies() -> Result<()> {
    let patience = hasty();
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let Some(stage) = Stage::of("etcd-sizes-crash", 1, &[]).await? else {
            return Ok(());
        };
        let operator = stage.operator(&FaultPlan::none(), patience)?;
        wait_until_of(&stage, 1).await?;
        drop(operator);
        let file = stage.members.file("acknowledged");
        let writer = Writer::slow(vec![first(&stage).await?], &file)?;
        lanes.push(Lane { stage, writer });
    }
    let life = async |Lane { stage, .. }: &Lane, crash| {
        let now = stage.site.clusters().get("demo").await?.spec.etcd.replicas;
        let to = if now == 1 { 3 } else { 1 };
        let plan = FaultPlan::none();
        let operator = stage.operator(&plan, patience)?;
        operator.settle(&stage.site, "demo").await?;
        plan.arm(crash);
        ask_for(stage, to).await?;
        let changed = async || wait_until_of(stage, to).await.map(drop);
        let died = Box::pin(dies(&operator, changed())).await?;
        drop(operator);
        let operator = stage.operator(&FaultPlan::none(), patience)?;
        wait_until_of(stage, to).await?;
        operator.settle(&stage.site, "demo").await?;
        Ok(died)
    };
    let all = lanes.iter().collect();
    // The model dies after each (`operator/src/etcd_replacement/tests/sizes.rs`).
    let deaths = Deaths::asked_for_beside_the_model(4);
    let writes = Writes::at_least(6);
    for_deaths(deaths, "sizes", all, writes, async |lane: &&Lane, crash| {
        Box::pin(life(lane, crash)).await
    })
    .await?;
    for Lane { stage, writer } in lanes {
        let writes = writer.stop().await?;
        eprintln!("{} acknowledged writes", writes.len());
        let now = stage.site.clusters().get("demo").await?.spec.etcd.replicas;
        let after = wait_until_of(&stage, usize::try_from(now)?).await?;
        check(&stage, &after, &writes).await?;
    }
    Ok(())
}
