//! The volumes of all members of etcd are lost, and the newest moment of the backup takes their place by itself, with real
//! etcd processes and the very gate.
//!
//! Invariant: what the backup had is on every member afterwards, and it is asked for once.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::{Reason, Restore, TenantCluster};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use operator::tenant_session::etcd;
use serde_json::json;
use testkit::fixtures::wait_for;
use testkit::waiting::ask_until;

use crate::etcd_restore::{Jobs, find, save, wait_whole};
use crate::support::PATIENCE;
use crate::support::etcd_members::{MEMBERS, Writer, has_all, members};
use crate::support::restores::{BackedUp, give_account};

const BUMP: i64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newest_moment_of_the_backup_takes_the_place_of_volumes_that_are_all_gone() -> Result<()> {
    let backup = json!({ "onVolumeLoss": "Restore" });
    let Some(opened) = BackedUp::open("etcd-volume-loss", &backup).await? else {
        return Ok(());
    };
    let BackedUp {
        site,
        target,
        cluster,
        namespace: ns,
        played,
        operator,
        etcdctl,
        etcdutl,
    } = opened;
    wait_whole(&site, None).await?;
    // Which PersistentVolumes they have.
    let clusters = site.clusters();
    let is_bound = |cluster: &TenantCluster| {
        let etcd = cluster.status.as_ref().and_then(|s| s.etcd.as_ref());
        etcd.is_some_and(|etcd| etcd.members.iter().all(|m| m.volume.is_some()))
    };
    wait_for(&clusters, "demo", |c| c.is_some_and(is_bound), PATIENCE).await?;
    let before = wait_whole(&site, None).await?;
    let clients = members(&site.admin, &ns, &played).await?;
    let mut writer = Writer::start(clients.clone(), &played.file("acknowledged"))?;
    for _ in 0..20 {
        writer.next(PATIENCE).await?;
    }
    let wanted = writer.stop().await?;
    let revision = etcd::status(&clients[0]).await?.revision;
    let snapshot = save(&site, &ns, &played, &etcdctl).await?;
    give_account(&site, &ns).await?;
    // As the process that backs up says, which nobody plays here.
    let verified = json!({ "status": { "backup": { "verified": "2026-11-27T00:00:00Z" } } });
    let params = PatchParams::default();
    clusters
        .patch_status("demo", &params, &Patch::Merge(verified))
        .await?;

    let claims: Api<PersistentVolumeClaim> = Api::namespaced(site.admin.clone(), &ns);
    let pods: Api<Pod> = Api::namespaced(site.admin.clone(), &ns);
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    // All at once: of one that is left what it has would go first (`etcd_survivor`).
    site.change("demo", &json!({ "spec": { "paused": true } }))
        .await?;
    let is_paused = |cluster: &TenantCluster| {
        let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
        conditions.any(|condition| condition.reason == Reason::Paused)
    };
    wait_for(&clusters, "demo", |c| c.is_some_and(is_paused), PATIENCE).await?;
    for seat in 0..MEMBERS {
        let claim = format!("data-etcd-{seat}");
        claims.delete(&claim, &DeleteParams::default()).await?;
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&format!("etcd-{seat}"), &now).await?;
    }
    let asked = restores.list(&ListParams::default()).await?.items;
    ensure!(asked.is_empty(), "{asked:?}");
    site.change("demo", &json!({ "spec": { "paused": false } }))
        .await?;
    let lost = before.members.iter().map(|member| &member.volume_uid);
    let name = format!("demo-lost-{}", lost.min().context("there are members")?);
    let is_there = |restore: Option<&Restore>| restore.is_some();
    let made = wait_for(&restores, &name, is_there, 2 * PATIENCE).await?;
    let made = made.context("invariant: it was just seen")?;
    ensure!(made.spec.cluster_name == "demo" && made.spec.at.is_none());
    let found = json!({
        "clusterUID": cluster.uid(), "clusterID": before.cluster_id, "replaces": before.cluster_id,
        "revision": revision, "bump": BUMP,
    });
    find(&site, &name, &found).await?;
    let jobs = Jobs {
        client: site.admin.clone(),
        namespace: ns.clone(),
        volumes: played.volume(""),
        snapshot,
        revision,
        etcdutl,
    };
    let jobs = jobs.start();
    let after = wait_whole(&site, before.cluster_id.as_deref()).await?;
    for (now, before) in after.members.iter().zip(&before.members) {
        ensure!(now.volume_uid != before.volume_uid);
    }
    for client in &clients {
        let served = ask_until("a member that serves", 2 * PATIENCE, || async {
            let all = has_all(client, &wanted).await;
            Ok(all.map_err(|error| format!("{error:#}")))
        });
        served.await?;
    }
    let confirm = Patch::Merge(json!({ "spec": { "confirmed": true } }));
    restores.patch(&name, &params, &confirm).await?;
    let is_free = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| status.restore.is_none())
    };
    let free = |c: Option<&TenantCluster>| c.is_some_and(is_free);
    wait_for(&clusters, "demo", free, PATIENCE + Duration::from_secs(30)).await?;
    operator.settle(&site, "demo").await?;
    let asked = restores.list(&ListParams::default()).await?.items;
    ensure!(asked.len() == 1, "{asked:?}");
    jobs.abort();
    target.remove().await?;
    operator.stop().await
}
