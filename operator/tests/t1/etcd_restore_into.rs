//! A tenant cluster that is gone becomes another TenantCluster, by its bucket and the recovery key: real members of etcd,
//! the very gate, the very program that backs up and reads, a real S3 endpoint, and Jobs whose containers run one after the
//! other as they are told to.
//!
//! Invariant: what was acknowledged and read back is there afterwards; authorities and keys are those of then; what names
//! machines of then is gone; nothing starts before.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::Bootstrap;
use api::{Reason, Restore, TenantCluster};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use operator::controllers::tenant_backup::report;
use operator::tenant_session::etcd;
use operator::tenant_session::session::Dial;
use serde_json::json;
use testkit::fixtures::{minimal, wait_for, wait_gone};
use testkit::ports::unused;
use testkit::waiting::{self, ask_until};

use crate::support::etcd_members::{EtcdMembers, Writer, get, has_all, members, put};
use crate::support::restores::{Bucket, cluster_id, give_account, identity, told};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, PATIENCE, Site};

/// A Secret as a kube-apiserver stores it, and a node.
const KEPT: &str = "/registry/secrets/default/password";
const ENCRYPTED: &[u8] = b"k8s:enc:secretbox:v1:k1:\x00\x01\xff what it is";
const NODE: &str = "/registry/minions/worker-1";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_that_is_gone_becomes_another_one_with_its_data_authorities_and_keys()
-> Result<()> {
    let Some(site) = Site::without_etcd("etcd-restore-into").await? else {
        return Ok(());
    };
    let Some(bucket) = Bucket::make(&site).await? else {
        return Ok(());
    };

    let mut cluster = minimal(&site.users, "demo");
    cluster.spec.backup = Some(bucket.backup()?);
    let cluster = site.create_as(&cluster).await?;
    let uid = cluster.uid().context("no UID")?;
    let ns = tenant_namespace(&cluster);
    let Some(first) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let mut again = minimal(&site.users, "again");
    again.spec.backup = Some(bucket.backup()?);
    again.spec.etcd.bootstrap = Bootstrap::Restore;

    // One of the two runs at a time.
    let status = Arc::new(AtomicU16::new(unused()?));
    let (usual, port) = (first.dial(site.dial()), Arc::clone(&status));
    let late: Arc<OnceLock<Dial>> = Arc::default();
    let second_dial = Arc::clone(&late);
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(Arc::new(move |ns: &str, address: SocketAddr| {
        match (address.ip() == Ipv4Addr::LOCALHOST, address.port()) {
            (true, 2382) => SocketAddr::new(address.ip(), port.load(Ordering::Relaxed)),
            _ => match second_dial.get() {
                Some(dial) => dial(ns, address),
                None => usual(ns, address),
            },
        }
    }));
    let operator = launch.start(&site)?;
    let before = cluster_id(&site, "demo").await?;
    let playing = bucket.pods(&site, &ns, &first, &status).start();
    let clients = members(&site.admin, &ns, &first).await?;
    put(&clients[0], KEPT, ENCRYPTED).await?;
    put(&clients[0], NODE, b"a node").await?;
    let notes = first.file("until");
    let writer = Writer::start(clients[..1].to_vec(), &notes)?;
    ask_until("acknowledged writes", waiting::PATIENCE, || {
        let lines = std::fs::read_to_string(&notes).map_or(0, |text| text.lines().count());
        std::future::ready(Ok((lines > 50)
            .then_some(())
            .ok_or_else(|| lines.to_string())))
    })
    .await?;
    let wanted = writer.stop().await?;
    let newest = etcd::status(&clients[0]).await?.revision;
    let least = u64::try_from(newest)?;
    ask_until("all of it in the bucket", 3 * PATIENCE, || async {
        let port = status.load(Ordering::Relaxed);
        let report = report::ask(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
        let is_there = report.as_ref().is_ok_and(|report| {
            report.durable >= least && report.identity.is_some() && report.verified.is_some()
        });
        Ok(is_there.then_some(()).ok_or_else(|| format!("{report:?}")))
    })
    .await?;
    let was = identity(&site, &ns).await?;
    ensure!(was.iter().all(|(_, data)| data.is_some()), "{was:?}");
    let network = site
        .clusters()
        .get("demo")
        .await?
        .status
        .and_then(|s| s.network);
    let network = network.context("no ranges")?;

    // Everything of it goes, with its tenant namespace.
    drop(playing);
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", 2 * PATIENCE).await?;
    drop(first);

    // The Restore may be there first.
    let restore = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": "back", "namespace": site.users },
        "spec": { "clusterName": "again", "from": { "clusterUID": uid, "clusterID": before } },
    });
    apply(&site.admin, &restore).await?;
    again.spec.network = serde_json::from_value(serde_json::to_value(&network)?)?;
    let again = site.create_as(&again).await?;
    let ns = tenant_namespace(&again);
    let Some(second) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    ensure!(late.set(second.dial(site.dial())).is_ok());
    let playing = bucket.pods(&site, &ns, &second, &status).start();

    // Without the recovery key nothing of it starts, and no authority is made.
    told(&site, "back", "Possible", ("False", Reason::RestoreRefused)).await?;
    ensure!(
        identity(&site, &ns)
            .await?
            .iter()
            .all(|(_, data)| data.is_none())
    );
    let sets: Api<StatefulSet> = Api::namespaced(site.admin.clone(), &ns);
    ensure!(sets.get_opt("etcd").await?.is_none());
    give_account(&site, &ns).await?;
    bucket.lend_recovery_key(&site).await?;

    let found = told(&site, "back", "Possible", ("True", Reason::RestorePossible)).await?;
    let found = found.status.context("no status")?;
    ensure!(
        found.revision >= Some(newest) && found.replaces.is_none(),
        "{found:?}"
    );
    told(&site, "back", "Restored", ("True", Reason::Restored)).await?;
    let after = cluster_id(&site, "again").await?;
    ensure!(after != before, "it is the same etcd cluster");
    let now = identity(&site, &ns).await?;
    ensure!(now == was, "it has other authorities or keys");
    let clients = members(&site.admin, &ns, &second).await?;
    has_all(&clients[0], &wanted).await?;
    ensure!(get(&clients[0], KEPT).await?.as_deref() == Some(ENCRYPTED));
    ensure!(
        get(&clients[0], NODE).await?.is_none(),
        "nodes of then are there"
    );
    let revision = etcd::status(&clients[0]).await?.revision;
    ensure!(revision > newest + 1_000_000, "{revision}");

    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    let confirm = Patch::Merge(json!({ "spec": { "confirmed": true } }));
    restores
        .patch("back", &PatchParams::default(), &confirm)
        .await?;
    let is_free = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| status.restore.is_none() && status.etcd.is_some())
    };
    let clusters = site.clusters();
    wait_for(&clusters, "again", |c| c.is_some_and(is_free), 2 * PATIENCE).await?;
    let secrets: Api<Secret> = Api::namespaced(site.admin.clone(), &ns);
    wait_gone(&secrets, "restore-source", 2 * PATIENCE).await?;
    has_all(&clients[0], &wanted).await?;
    drop(playing);
    bucket.target.remove().await?;
    operator.stop().await
}
