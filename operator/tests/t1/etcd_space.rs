//! A database of etcd that is full, or mostly free, with real etcd processes (E7 of the fault matrix).
//!
//! Invariant: it takes writes again by itself as soon as enough of it is overwritten or deleted, and every write
//! that was acknowledged is on every member afterwards.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use api::{ConditionType, Reason, TenantCluster};
use operator::etcd_replacement::patience::Patience;
use operator::tenant_session::etcd;
use operator::tenant_session::etcd::answers::Alarm;
use testkit::FaultPlan;
use testkit::fixtures::{is_settled, wait_for};
use testkit::waiting::ask_until;

use crate::support::PATIENCE;
use crate::support::etcd_members::{Writer, delete_flood, put_flood};
use crate::support::etcd_stage::{Stage, check, without_indexes};

/// What members have at most.
const QUOTA: &str = "16777216";
/// Bytes of one key of a flood of few keys.
const LARGE: usize = 512 << 10;
/// From the deletion to the next write (`operations.md` §8, E7).
const RELIEVED: Duration = Duration::from_secs(60);
/// The same, where nobody knows yet that it is full.
const SEEN_AND_RELIEVED: Duration = Duration::from_secs(90);

fn told(cluster: &TenantCluster, type_: ConditionType) -> (String, String) {
    let conditions = cluster.status.iter().flat_map(|s| &s.conditions);
    let mut of_type = conditions.filter(|c| c.type_ == type_.as_str());
    let told = of_type.next();
    told.map(|c| (c.reason.clone(), c.message.clone()))
        .unwrap_or_default()
}

fn is_told(cluster: &TenantCluster, type_: ConditionType, reason: Reason) -> bool {
    told(cluster, type_).0 == reason.as_str()
}

/// Writes the same few keys again and again, until the alarm is raised.
async fn flood(stage: &Stage) -> Result<usize> {
    let client = &stage.clients().await?[0];
    for number in 0..1000 {
        if put_flood(client, number % 3, LARGE).await.is_err() {
            let status = etcd::status(client).await?;
            if status.alarms.contains(&Alarm::NoSpace) {
                return Ok(number);
            }
        }
    }
    anyhow::bail!("it is not full after a thousand writes")
}

/// Writes ever new keys, and does not end: of what was full before it was compacted and defragmented some room
/// comes back.
async fn flood_on(stage: &Stage) -> Result<()> {
    let client = &stage.clients().await?[0];
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    for number in 0..usize::MAX {
        if put_flood(client, number, LARGE / 8).await.is_err() {
            pace.tick().await;
        }
    }
    Ok(())
}

/// Waits until it takes writes again; says how it is where it does not.
async fn is_relieved(stage: &Stage, writer: &mut Writer, within: Duration) -> Result<()> {
    let Err(error) = writer.next(within).await else {
        return Ok(());
    };
    let mut members = Vec::new();
    for client in stage.clients().await? {
        members.push(etcd::status(&client).await);
    }
    let cluster = stage.site.clusters().get("demo").await?;
    let told = told(&cluster, ConditionType::EtcdReady);
    Err(error.context(format!("{told:?}, {members:#?}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_database_takes_writes_again_once_it_can_and_no_acknowledged_write_is_lost()
-> Result<()> {
    let instead = [("quota-backend-bytes", QUOTA)];
    let Some(stage) = Stage::new("etcd-full", &instead).await? else {
        return Ok(());
    };
    let operator = stage.operator(&FaultPlan::none(), Patience::default())?;
    let before = stage.whole(PATIENCE).await?;
    operator.settle(&stage.site, "demo").await?;
    let mut writer = stage.writer().await?;
    writer.next(PATIENCE).await?;

    // What was overwritten is enough: nobody has to do anything.
    let many = flood(&stage).await?;
    let full = Instant::now();
    is_relieved(&stage, &mut writer, SEEN_AND_RELIEVED).await?;
    eprintln!("full after {many}, relieved after {:.1?}", full.elapsed());

    // What is there is too much: that is told, and goes on once it is deleted.
    let clusters = stage.site.clusters();
    let is_full = |cluster: &TenantCluster| {
        let says = |type_| is_told(cluster, type_, Reason::NoSpace);
        let much = "more than nine tenths of its 16 MiB";
        says(ConditionType::Ready)
            && says(ConditionType::Degraded)
            && told(cluster, ConditionType::EtcdReady).1.contains(much)
    };
    let within = 4 * SEEN_AND_RELIEVED;
    let seen = wait_for(&clusters, "demo", |c| c.is_some_and(is_full), within);
    tokio::select! {
        seen = seen => drop(seen?),
        ended = flood_on(&stage) => return ended,
    };
    let next = writer.next(Duration::from_secs(1)).await;
    ensure!(next.is_err(), "it takes writes");
    delete_flood(&stage.clients().await?[0]).await?;
    let deleted = Instant::now();
    is_relieved(&stage, &mut writer, RELIEVED).await?;
    eprintln!("back {:.1?} after the deletion", deleted.elapsed());

    let is_well = |cluster: &TenantCluster| {
        is_settled(cluster) && is_told(cluster, ConditionType::EtcdReady, Reason::MembersReady)
    };
    wait_for(&clusters, "demo", |c| c.is_some_and(is_well), PATIENCE).await?;
    let writes = writer.stop().await?;
    for client in stage.clients().await? {
        let status = etcd::status(&client).await?;
        ensure!(status.alarms.is_empty(), "{status:?}");
        ensure!(status.size * 10 < status.quota * 9, "{status:?}");
    }
    let after = stage.whole(PATIENCE).await?;
    ensure!(
        without_indexes(&after) == without_indexes(&before),
        "{after:?}"
    );
    check(&stage, &after, &writes).await
}

/// Keys of a flood that leaves more than a start gives back (100 MiB), of one MiB each.
const MANY: usize = 130;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_are_mostly_free_are_written_anew_by_restarts_and_writes_go_on() -> Result<()> {
    let Some(stage) = Stage::new("etcd-fragments", &[]).await? else {
        return Ok(());
    };
    let patience = Patience {
        fragments: Duration::from_secs(1),
        ..Patience::default()
    };
    let operator = stage.operator(&FaultPlan::none(), patience)?;
    let before = stage.whole(PATIENCE).await?;
    operator.settle(&stage.site, "demo").await?;
    let clients = stage.clients().await?;
    for number in 0..MANY {
        put_flood(&clients[0], number, 1 << 20).await?;
    }
    delete_flood(&clients[0]).await?;
    let mut writer = stage.writer().await?;
    writer.next(PATIENCE).await?;
    let revision = etcd::status(&clients[0]).await?.revision;
    etcd::compact(&clients[0], revision).await?;
    let begun = Instant::now();
    let are_small = || async {
        let mut sizes = Vec::new();
        for client in &clients {
            let status = etcd::status(client).await;
            sizes.push(status.map(|status| status.size >> 20).ok());
        }
        let are_small = sizes.iter().all(|size| size.is_some_and(|size| size < 30));
        Ok(match are_small {
            true => Ok(()),
            false => Err(format!("{sizes:?} MiB")),
        })
    };
    ask_until("small files", 2 * SEEN_AND_RELIEVED, are_small).await?;
    eprintln!("written anew after {:.1?}", begun.elapsed());
    let after = stage.whole(PATIENCE).await?;
    ensure!(
        without_indexes(&after) == without_indexes(&before),
        "{after:?}"
    );
    let written = writer.end().await?;
    let (failed, gap) = (written.failed, written.gap);
    let count = written.acknowledged.len();
    eprintln!("{count} acknowledged, {failed} failed, longest gap {gap:.1?}");
    // Who is cut off asks the next member.
    ensure!(failed <= 6, "{failed} failed");
    check(&stage, &after, &written.acknowledged).await
}
