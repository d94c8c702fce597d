//! Two of three volumes of etcd are destroyed under a writer, and the process that backs up had ended before: what the third
//! one has goes into the backup, and the newest moment takes the place of all by itself. Real etcd processes, the very gate,
//! the very program that backs up, a real S3 endpoint, and Jobs whose containers run as they are told to.
//!
//! Invariant: every write that was acknowledged is on every member afterwards.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, Result, ensure};
use api::{Reason, Restore, TenantCluster};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use operator::etcd_replacement::patience::Patience;
use testkit::fixtures::{minimal, wait_for};
use testkit::ports::unused;
use testkit::waiting::ask_until;

use crate::etcd_restore::wait_whole;
use crate::support::etcd_members::{EtcdMembers, MEMBERS, Writer, has_all, members};
use crate::support::restores::{Bucket, give_account, told};
use crate::support::site::tenant_namespace;
use crate::support::{Launch, PATIENCE, Site};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_volume_of_three_has_goes_into_the_backup_and_no_acknowledged_write_is_lost()
-> Result<()> {
    let Some(site) = Site::without_etcd("etcd-survivor").await? else {
        return Ok(());
    };
    let Some(bucket) = Bucket::make(&site).await? else {
        return Ok(());
    };
    let mut cluster = minimal(&site.users, "demo");
    cluster.spec.etcd.replicas = i32::try_from(MEMBERS)?;
    let mut backup = bucket.backup()?;
    backup.on_volume_loss = api::tenant_cluster::OnVolumeLoss::Restore;
    cluster.spec.backup = Some(backup);
    let cluster = site.create_as(&cluster).await?;
    let ns = tenant_namespace(&cluster);
    let Some(played) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let status = Arc::new(AtomicU16::new(unused()?));
    let (usual, port) = (played.dial(site.dial()), Arc::clone(&status));
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(Arc::new(move |ns: &str, address: SocketAddr| {
        match (address.ip() == Ipv4Addr::LOCALHOST, address.port()) {
            (true, 2382) => SocketAddr::new(address.ip(), port.load(Ordering::Relaxed)),
            _ => usual(ns, address),
        }
    }));
    launch.etcd_patience = Patience::default();
    let operator = launch.start(&site)?;
    wait_whole(&site, None).await?;
    let playing = bucket.pods(&site, &ns, &played, &status).start();
    give_account(&site, &ns).await?;
    // Which PersistentVolumes they have, and that a full snapshot was found whole.
    let clusters = site.clusters();
    let is_backed_up = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        let etcd = status.and_then(|s| s.etcd.as_ref());
        let verified = status.and_then(|s| s.backup.as_ref()?.verified.as_ref());
        verified.is_some() && etcd.is_some_and(|e| e.members.iter().all(|m| m.volume.is_some()))
    };
    let backed_up = |c: Option<&TenantCluster>| c.is_some_and(is_backed_up);
    wait_for(&clusters, "demo", backed_up, 3 * PATIENCE).await?;
    let before = wait_whole(&site, None).await?;
    let clients = members(&site.admin, &ns, &played).await?;
    let mut writer = Writer::start(clients.clone(), &played.file("acknowledged"))?;
    for _ in 0..20 {
        writer.next(PATIENCE).await?;
    }

    // Nothing is backed up from here on, and its pod goes.
    drop(playing);
    let (pods, now) = (
        Api::<Pod>::namespaced(site.admin.clone(), &ns),
        DeleteParams::default().grace_period(0),
    );
    let of_backup = ListParams::default().labels("app.kubernetes.io/component=backup");
    for pod in pods.list(&of_backup).await? {
        pods.delete(&pod.name_any(), &now).await?;
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(site.admin.clone(), &ns);
    for seat in 0..2 {
        for _ in 0..20 {
            writer.next(PATIENCE).await?;
        }
        let claim = format!("data-etcd-{seat}");
        claims.delete(&claim, &DeleteParams::default()).await?;
        pods.delete(&format!("etcd-{seat}"), &now).await?;
    }
    let wanted = writer.stop().await?;
    ensure!(wanted.len() >= 60, "{}", wanted.len());

    // It comes up while there is no etcd that answers.
    let playing = bucket.pods(&site, &ns, &played, &status).start();
    let lost = before.members[..2].iter().map(|member| &member.volume_uid);
    let name = format!("demo-lost-{}", lost.min().context("there are two")?);
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    let is_there = |restore: Option<&Restore>| restore.is_some();
    let made = wait_for(&restores, &name, is_there, 2 * PATIENCE).await?;
    let made = made.context("invariant: it was just seen")?;
    ensure!(made.spec.survivor.as_deref() == Some("etcd-2"), "{made:?}");
    told(&site, &name, "Possible", ("True", Reason::RestorePossible)).await?;
    told(&site, &name, "Restored", ("True", Reason::Restored)).await?;
    let after = wait_whole(&site, before.cluster_id.as_deref()).await?;
    ensure!(after.members.len() == MEMBERS);
    let progress = clusters.get("demo").await?.status.and_then(|s| s.restore);
    let salvaged = progress.and_then(|progress| progress.salvaged);
    ensure!(
        salvaged
            .as_ref()
            .is_some_and(|salvaged| salvaged.aside.is_none()),
        "{salvaged:?}"
    );
    for client in &clients {
        let served = ask_until("a member that has all", 2 * PATIENCE, || async {
            let all = has_all(client, &wanted).await;
            Ok(all.map_err(|error| format!("{error:#}")))
        });
        served.await?;
    }
    drop(playing);
    bucket.target.remove().await?;
    operator.stop().await
}
