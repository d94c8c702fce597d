//! A member of etcd loses its volume, has other data than the rest, or is set back, with real etcd processes (E1 and E3 to
//! E5 of the fault matrix).
//!
//! Invariant: every write that etcd acknowledged meanwhile is on every member afterwards, and the cluster is
//! the one that it was, whichever write of the operator was its last. Long because each way to lose data is told whole.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::condition::is_true;
use api::tenant_cluster::EtcdStatus;
use api::{ConditionType, TenantCluster};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use operator::etcd_replacement::patience::Patience;
use operator::tenant_session::etcd;
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Deaths;
use testkit::fixtures::{is_settled, wait_for};
use testkit::waiting::ask_until;

use crate::crash::{Writes, dies, for_deaths};
use crate::support::PATIENCE;
use crate::support::etcd_members::{Writer, put_flood, volume_of};
use crate::support::etcd_stage::{Stage, check, whole, without_indexes};

/// What a replacement may take (`operations.md` §8, E1).
const MOST: Duration = Duration::from_secs(180);
/// Lives at the same time, most of which is waiting. Each lane is a tenant cluster with an etcd of its own.
const LANES: usize = 2;
/// The member whose volume is lost.
const VICTIM: usize = 1;
/// Another one that fails.
const SECOND: usize = 2;

/// Deletes the claim and the pod of a member, and its data with them.
async fn lose(stage: &Stage, seat: usize) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let pods: Api<Pod> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let claim = format!("data-etcd-{seat}");
    claims.delete(&claim, &DeleteParams::default()).await?;
    let now = DeleteParams::default().grace_period(0);
    pods.delete(&format!("etcd-{seat}"), &now).await?;
    Ok(())
}

/// Makes the volume of a member's claim, which goes with it, as it is where a StorageClass says so. Gives the
/// volume's name.
async fn bind(stage: &Stage, seat: usize) -> Result<String> {
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let claim = claims.get(&format!("data-etcd-{seat}")).await?;
    let name = volume_of(&claim.uid().unwrap_or_default());
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "claimRef": {
                "namespace": stage.namespace, "name": claim.name_any(), "uid": claim.uid(),
            },
            "hostPath": { "path": "/nowhere" }, "persistentVolumeReclaimPolicy": "Delete",
        },
    });
    let volume = serde_json::from_value(volume)?;
    volumes(stage)
        .create(&PostParams::default(), &volume)
        .await?;
    Ok(name)
}

fn volumes(stage: &Stage) -> Api<PersistentVolume> {
    Api::all(stage.site.admin.clone())
}

/// Empties the volume of a member, and ends its pod.
async fn empty(stage: &Stage, seat: usize, claim_uid: &str) -> Result<()> {
    stage.members.empty(claim_uid)?;
    let pods: Api<Pod> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let now = DeleteParams::default().grace_period(0);
    pods.delete(&format!("etcd-{seat}"), &now).await?;
    Ok(())
}

/// Waits until a member is another one than it was, and whole.
async fn replaced(stage: &Stage, before: &EtcdStatus, within: Duration) -> Result<EtcdStatus> {
    let is_another = |cluster: &TenantCluster| {
        let now = whole(cluster);
        let is_new = |etcd: &EtcdStatus| etcd.members[VICTIM].id != before.members[VICTIM].id;
        now.is_some_and(|etcd| is_new(&etcd)) && is_settled(cluster)
    };
    let clusters = stage.site.clusters();
    let found = wait_for(&clusters, "demo", |c| c.is_some_and(is_another), within).await?;
    found
        .as_ref()
        .and_then(whole)
        .context("invariant: it was just seen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_that_lost_its_volume_is_replaced_and_no_acknowledged_write_is_lost() -> Result<()> {
    let Some(stage) = Stage::new("etcd-lost", &[]).await? else {
        return Ok(());
    };
    let _operator = stage.operator(&FaultPlan::none(), Patience::default())?;
    let before = stage.whole(PATIENCE).await?;
    // The others have to have served for a minute, which is part of what is allowed.
    let writer = stage.writer().await?;
    let lost = Instant::now();
    lose(&stage, VICTIM).await?;
    let after = replaced(&stage, &before, MOST).await?;
    eprintln!("replaced after {:.1?}", lost.elapsed());
    let writes = writer.stop().await?;
    ensure!(writes.len() > 100, "it wrote {} times", writes.len());
    eprintln!(
        "{} acknowledged writes, newest {:?}",
        writes.len(),
        writes.last()
    );
    ensure!(after.cluster_id == before.cluster_id);
    let others = |etcd: &EtcdStatus| {
        let members = without_indexes(etcd).members.into_iter().enumerate();
        let others = members.filter(|(seat, _)| *seat != VICTIM);
        others.map(|(_, member)| member).collect::<Vec<_>>()
    };
    ensure!(others(&after) == others(&before), "{after:?}");
    ensure!(after.members[VICTIM].volume_uid != before.members[VICTIM].volume_uid);
    check(&stage, &after, &writes).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_whose_volume_was_emptied_gets_another_one_and_the_old_one_is_kept() -> Result<()> {
    let Some(stage) = Stage::new("etcd-empty", &[]).await? else {
        return Ok(());
    };
    let operator = stage.operator(&FaultPlan::none(), hasty())?;
    let before = stage.whole(PATIENCE).await?;
    operator.settle(&stage.site, "demo").await?;
    let volume = bind(&stage, VICTIM).await?;
    let writer = stage.writer().await?;
    let claim = &before.members[VICTIM].volume_uid;
    empty(&stage, VICTIM, claim).await?;
    // How long it takes is judged by the other test.
    let after = replaced(&stage, &before, 2 * MOST).await?;
    let writes = writer.stop().await?;
    let kept = volumes(&stage).get(&volume).await?;
    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let (now, params) = (DeleteParams::default(), PatchParams::default());
    volumes(&stage).delete(&volume, &now).await?;
    volumes(&stage).patch(&volume, &params, &free).await?;
    let policy = kept
        .spec
        .as_ref()
        .and_then(|s| s.persistent_volume_reclaim_policy.as_deref());
    ensure!(policy == Some("Retain"), "{kept:?}");
    let until = kept.annotations().get("covey.dev/keep-until");
    let until: Option<Timestamp> = until.and_then(|until| until.parse().ok());
    ensure!(
        until.is_some_and(|until| until > Timestamp::now()),
        "{kept:?}"
    );
    ensure!(after.cluster_id == before.cluster_id);
    ensure!(after.members[VICTIM].volume_uid != *claim);
    check(&stage, &after, &writes).await
}

/// Of who waits for nothing that needs not be waited for.
fn hasty() -> Patience {
    let second = Duration::from_secs(1);
    Patience {
        absent: second,
        steady: second,
        between: second,
        serving: second,
        ..Patience::default()
    }
}

/// Ends the pod of a member.
async fn end(stage: &Stage, seat: usize) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let now = DeleteParams::default().grace_period(0);
    pods.delete(&format!("etcd-{seat}"), &now).await?;
    Ok(())
}

/// Waits until what the status says of etcd is so.
async fn until(stage: &Stage, is_so: impl Fn(&EtcdStatus) -> bool) -> Result<EtcdStatus> {
    let etcd = |cluster: &TenantCluster| cluster.status.as_ref()?.etcd.clone();
    let is_it = |cluster: &TenantCluster| etcd(cluster).is_some_and(|etcd| is_so(&etcd));
    let clusters = stage.site.clusters();
    let found = wait_for(&clusters, "demo", |c| c.is_some_and(is_it), MOST).await?;
    found
        .as_ref()
        .and_then(etcd)
        .context("invariant: it was just seen")
}

/// Waits until too few members are ready.
async fn until_unready(stage: &Stage) -> Result<()> {
    let is_unready = |cluster: &TenantCluster| {
        let conditions = cluster.status.as_ref().map(|status| &status.conditions);
        let conditions = conditions.map(Vec::as_slice).unwrap_or_default();
        !is_true(conditions, ConditionType::EtcdReady)
    };
    let clusters = stage.site.clusters();
    let unready = |c: Option<&TenantCluster>| c.is_some_and(is_unready);
    wait_for(&clusters, "demo", unready, MOST).await.map(drop)
}

/// Waits until a member answers nobody.
async fn until_away(stage: &Stage, seat: usize) -> Result<()> {
    let clients = stage.clients().await?;
    let is_away = || async {
        let answer = etcd::status(&clients[seat]).await;
        anyhow::Ok(match answer {
            Ok(_) => Err("it answers".to_owned()),
            Err(_) => Ok(()),
        })
    };
    ask_until("a member that is away", PATIENCE, is_away).await
}

/// E4: a second member fails before the learner has caught up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_member_that_fails_stops_a_replacement_until_it_is_back() -> Result<()> {
    let Some(stage) = Stage::new("etcd-second", &[]).await? else {
        return Ok(());
    };
    let operator = stage.operator(&FaultPlan::none(), hasty())?;
    let before = stage.whole(PATIENCE).await?;
    operator.settle(&stage.site, "demo").await?;
    let mut writer = stage.writer().await?;
    for _ in 0..20 {
        writer.next(PATIENCE).await?;
    }
    // The learner is added, and has nothing yet.
    stage.members.hold(VICTIM);
    lose(&stage, VICTIM).await?;
    let is_learner = |etcd: &EtcdStatus| {
        let (now, was) = (&etcd.members[VICTIM], &before.members[VICTIM]);
        now.learner && now.id.is_some() && now.id != was.id
    };
    let added = until(&stage, is_learner).await?;
    // A write with one of three away, so that both others have what the learner lacks.
    writer.next(PATIENCE).await?;
    stage.members.hold(SECOND);
    end(&stage, SECOND).await?;
    until_away(&stage, SECOND).await?;
    until_unready(&stage).await?;
    // Nobody can give the learner anything, and nobody lets it vote.
    stage.members.release(VICTIM);
    for _ in 0..3 {
        operator.reconcile(&stage.site, "demo").await?;
    }
    let stopped = until(&stage, |_| true).await?;
    let [now, was] = [&stopped, &added].map(|etcd| &etcd.members[VICTIM]);
    ensure!(now.learner && !now.started, "{stopped:?}");
    ensure!(
        (&now.id, &now.volume_uid) == (&was.id, &was.volume_uid),
        "{stopped:?}"
    );
    ensure!(stopped.replacing.is_some() && stopped.cluster_id == before.cluster_id);
    let claims: Api<PersistentVolumeClaim> =
        Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    for (seat, member) in stopped.members.iter().enumerate() {
        let claim = claims.get(&format!("data-etcd-{seat}")).await?;
        ensure!(
            claim.uid().as_ref() == Some(&member.volume_uid)
                && claim.metadata.deletion_timestamp.is_none(),
            "{claim:?}"
        );
    }
    // With it back there is a majority again, and the same learner gets its vote.
    stage.members.release(SECOND);
    let after = replaced(&stage, &before, MOST).await?;
    let writes = writer.stop().await?;
    eprintln!("{} acknowledged writes", writes.len());
    ensure!(writes.len() > 20, "it wrote {} times", writes.len());
    ensure!(after.members[VICTIM].id == added.members[VICTIM].id);
    ensure!(after.members[SECOND].id == before.members[SECOND].id);
    ensure!(after.members[SECOND].volume_uid == before.members[SECOND].volume_uid);
    check(&stage, &after, &writes).await
}

/// E5: an old copy of a volume takes its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_whose_volume_was_set_back_does_not_start_on_it_and_is_replaced() -> Result<()> {
    let Some(stage) = Stage::new("etcd-set-back", &[]).await? else {
        return Ok(());
    };
    let operator = stage.operator(&FaultPlan::none(), hasty())?;
    let before = stage.whole(PATIENCE).await?;
    operator.settle(&stage.site, "demo").await?;
    let claim = &before.members[VICTIM].volume_uid;
    let copy = stage.members.copy(claim)?;
    let mut writer = stage.writer().await?;
    for _ in 0..50 {
        writer.next(PATIENCE).await?;
    }
    // While another one is away the operator asks all members what they have.
    stage.members.hold(SECOND);
    end(&stage, SECOND).await?;
    until_unready(&stage).await?;
    operator.reconcile(&stage.site, "demo").await?;
    stage.members.release(SECOND);
    stage.whole(PATIENCE).await?;

    stage.members.hold(VICTIM);
    end(&stage, VICTIM).await?;
    until_away(&stage, VICTIM).await?;
    let noted = until(&stage, |etcd| etcd.members[VICTIM].last_index.is_some()).await?;
    let had = noted.members[VICTIM].last_index.unwrap_or_default();
    ensure!(had > 50, "it had {had}");
    let secrets: Api<Secret> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
    let wanted = format!("\"lastIndex\":{had}");
    let is_told = |secret: &Secret| {
        let file = secret
            .data
            .as_ref()
            .and_then(|data| data.get("identity.json"));
        file.is_some_and(|file| String::from_utf8_lossy(&file.0).contains(&wanted))
    };
    wait_for(&secrets, "etcd", |s| s.is_some_and(is_told), PATIENCE).await?;
    stage.members.set_back(VICTIM, claim, &copy)?;
    stage.members.release(VICTIM);
    let after = replaced(&stage, &before, 2 * MOST).await?;
    let writes = writer.stop().await?;
    ensure!(after.cluster_id == before.cluster_id);
    ensure!(after.members[VICTIM].volume_uid != *claim);
    check(&stage, &after, &writes).await
}

/// Bytes of a value that one member reads back otherwise than they were written.
const BYTES: usize = 96;

/// Revisions after which a page of the database has no room any more.
const AFTERWARDS: i64 = 300;

/// What becomes of a member once bits of its volume have flipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Then {
    /// It is restarted.
    Restart,
    /// It runs on, until its data is compared with that of the others.
    Compact,
}

/// Flips bits of what a member has in a directory of its volume; it is replaced, and the others have all.
async fn is_replaced_for_its_data(prefix: &str, directory: &str, then: Then) -> Result<()> {
    let Some(stage) = Stage::new(prefix, &[]).await? else {
        return Ok(());
    };
    let operator = stage.operator(&FaultPlan::none(), hasty())?;
    let before = stage.whole(PATIENCE).await?;
    operator.settle(&stage.site, "demo").await?;
    let clients = stage.clients().await?;
    put_flood(&clients[0], 0, BYTES).await?;
    let writer = stage.writer().await?;
    let claim = &before.members[VICTIM].volume_uid;
    // The page that has it is written anew as long as there is room beside it, and what flips in a page of before is
    // nobody's.
    let put = etcd::status(&clients[VICTIM]).await?.revision;
    let rested = async || {
        let now = etcd::status(&clients[VICTIM]).await?.revision;
        anyhow::Ok(match now - put > AFTERWARDS {
            true => Ok(()),
            false => Err(format!("{} revisions", now - put)),
        })
    };
    ask_until("a page at rest", PATIENCE, rested).await?;
    // It is in the database a moment after it is in the log.
    let flip = || async {
        let flipped = stage.members.flip(claim, directory, &[7; BYTES])?;
        let found = if flipped > 0 {
            Ok(())
        } else {
            Err("none".to_owned())
        };
        anyhow::Ok(found)
    };
    ask_until("bits to flip", PATIENCE, flip).await?;
    let flipped = Instant::now();
    match then {
        Then::Restart => {
            let pods: Api<Pod> = Api::namespaced(stage.site.admin.clone(), &stage.namespace);
            let now = DeleteParams::default().grace_period(0);
            pods.delete(&format!("etcd-{VICTIM}"), &now).await?;
        }
        Then::Compact => {
            let revision = etcd::status(&clients[0]).await?.revision;
            etcd::compact(&clients[0], revision).await?;
        }
    }
    let after = replaced(&stage, &before, 2 * MOST).await?;
    eprintln!("replaced after {:.1?}", flipped.elapsed());
    let writes = writer.stop().await?;
    ensure!(after.cluster_id == before.cluster_id);
    ensure!(after.members[VICTIM].volume_uid != *claim);
    for client in stage.clients().await? {
        let status = etcd::status(&client).await?;
        ensure!(status.alarms.is_empty(), "{status:?}");
    }
    check(&stage, &after, &writes).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_that_starts_with_other_data_than_the_two_others_is_replaced() -> Result<()> {
    is_replaced_for_its_data("etcd-flip", "snap", Then::Restart).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_that_starts_with_a_damaged_log_is_replaced() -> Result<()> {
    is_replaced_for_its_data("etcd-wal", "wal", Then::Restart).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_whose_data_changes_while_it_runs_is_replaced_after_the_next_compaction()
-> Result<()> {
    is_replaced_for_its_data("etcd-alarm", "snap", Then::Compact).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_say_how_long_their_disks_take() -> Result<()> {
    let Some(stage) = Stage::new("etcd-disks", &[]).await? else {
        return Ok(());
    };
    let _operator = stage.operator(&FaultPlan::none(), Patience::default())?;
    stage.whole(PATIENCE).await?;
    let clients = stage.clients().await?;
    let mut before = Vec::new();
    for client in &clients {
        before.push(etcd::disk_times(client).await?);
    }
    for number in 0..50 {
        put_flood(&clients[0], number, 1024).await?;
    }
    for (client, before) in clients.iter().zip(&before) {
        let told = async || {
            // A member that lags takes several writes into its log at once.
            put_flood(&clients[0], 0, 1024).await?;
            let now = etcd::disk_times(client).await?;
            let since = now.since(before).context("it is the same process")?;
            let (logged, committed) = (since.fsync.count(), since.commit.count());
            let is_told = since.fsync.slowest().is_some() && logged >= 50 && committed > 0;
            eprintln!(
                "{logged} and {committed} times, the slowest {:?}",
                since.fsync.slowest()
            );
            anyhow::Ok(match is_told {
                true => Ok(()),
                false => Err(format!("{logged} and {committed} times")),
            })
        };
        ask_until("times of its disk", PATIENCE, told).await?;
    }
    Ok(())
}

/// One that is crashed again and again, and what was written to it meanwhile.
struct Lane {
    stage: Stage,
    writer: Writer,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacement_ends_the_same_wherever_the_operator_dies() -> Result<()> {
    let patience = hasty();
    let mut lanes = Vec::new();
    for _ in 0..LANES {
        let Some(stage) = Stage::new("etcd-crash", &[]).await? else {
            return Ok(());
        };
        let operator = stage.operator(&FaultPlan::none(), patience)?;
        stage.whole(PATIENCE).await?;
        drop(operator);
        let writer = Writer::slow(stage.clients().await?, &stage.members.file("acknowledged"))?;
        lanes.push(Lane { stage, writer });
    }
    // That it is begun, what was added, its Secret, the end of its old pod, that it has data, that it votes.
    let life = async |Lane { stage, .. }: &Lane, crash| {
        let before = stage.whole(PATIENCE).await?;
        let plan = FaultPlan::none();
        let operator = stage.operator(&plan, patience)?;
        operator.settle(&stage.site, "demo").await?;
        plan.arm(crash);
        lose(stage, VICTIM).await?;
        let is_replaced = async || replaced(stage, &before, MOST).await.map(drop);
        let died = Box::pin(dies(&operator, is_replaced())).await?;
        drop(operator);
        let operator = stage.operator(&FaultPlan::none(), patience)?;
        let after = replaced(stage, &before, MOST).await?;
        operator.settle(&stage.site, "demo").await?;
        ensure!(after.cluster_id == before.cluster_id);
        Ok(died)
    };
    let all = lanes.iter().collect();
    // The model forgets its phase and loses answers anywhere (`operator/src/etcd_replacement/tests.rs`).
    let deaths = Deaths::asked_for_beside_the_model(3);
    for_deaths(
        deaths,
        "replacement",
        all,
        Writes::at_least(6),
        async |lane: &&Lane, crash| Box::pin(life(lane, crash)).await,
    )
    .await?;
    for Lane { stage, writer } in lanes {
        let writes = writer.stop().await?;
        eprintln!("{} acknowledged writes", writes.len());
        let after = stage.whole(PATIENCE).await?;
        check(&stage, &after, &writes).await?;
    }
    Ok(())
}
