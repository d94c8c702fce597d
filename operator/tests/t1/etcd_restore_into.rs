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
use backup_format::keys::RecoveryKey;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use lab::programs::Program;
use operator::controllers::tenant_backup::report;
use operator::tenant_session::etcd;
use operator::tenant_session::session::Dial;
use serde_json::{Value, json};
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use testkit::fixtures::{minimal, wait_for, wait_gone};
use testkit::programs::reference_or_skip;
use testkit::s3;
use testkit::waiting::{self, ask_until};

use crate::backup_targets::Target;
use crate::support::checks::secret;
use crate::support::etcd_members::{EtcdMembers, Writer, get, has_all, members, put};
use crate::support::pools::said;
use crate::support::restore_pods::{RestorePods, free_port};
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, PATIENCE, Site};

/// A Secret as a kube-apiserver stores it, and a node.
const KEPT: &str = "/registry/secrets/default/password";
const ENCRYPTED: &[u8] = b"k8s:enc:secretbox:v1:k1:\x00\x01\xff what it is";
const NODE: &str = "/registry/minions/worker-1";

/// What a tenant cluster is.
async fn identity(site: &Site, ns: &str) -> Result<Vec<(String, Option<Value>)>> {
    let secrets: Api<Secret> = Api::namespaced(site.admin.clone(), ns);
    let mut all = Vec::new();
    for name in AUTHORITIES.into_iter().chain([SERVICE_ACCOUNT, ENCRYPTION]) {
        let found = secrets.get_opt(name).await?.and_then(|secret| secret.data);
        all.push((
            name.to_owned(),
            found.map(serde_json::to_value).transpose()?,
        ));
    }
    Ok(all)
}

/// What its etcd is, once its only member has run.
async fn cluster_id(site: &Site, name: &str) -> Result<String> {
    let known = |cluster: &TenantCluster| cluster.status.clone()?.etcd?.cluster_id;
    let clusters = site.clusters();
    let is = |cluster: Option<&TenantCluster>| cluster.and_then(known).is_some();
    let found = wait_for(&clusters, name, is, 2 * PATIENCE).await?;
    found.as_ref().and_then(known).context("it was just seen")
}

async fn told(site: &Site, name: &str, type_: &str, wanted: (&str, Reason)) -> Result<Restore> {
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    let wanted = (wanted.0.to_owned(), wanted.1.as_str().to_owned());
    let is = |restore: Option<&Restore>| {
        let object = serde_json::to_value(restore).unwrap_or_default();
        said(&object, type_) == wanted
    };
    let found = wait_for(&restores, name, is, 3 * PATIENCE).await;
    if found.is_err() {
        let now = restores.get(name).await?.status;
        let clusters = site.clusters().list(&ListParams::default()).await?;
        let clusters: Vec<_> = clusters.items.into_iter().map(|c| c.status).collect();
        eprintln!("{}", serde_json::to_string_pretty(&json!([now, clusters]))?);
    }
    found?.context("it was just seen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_that_is_gone_becomes_another_one_with_its_data_authorities_and_keys()
-> Result<()> {
    let Some(site) = Site::without_etcd("etcd-restore-into").await? else {
        return Ok(());
    };
    let program = reference_or_skip(Program::ETCD, "etcd")?;
    let etcdutl = reference_or_skip(Program::ETCD, "etcdutl")?;
    let (Some(program), Some(etcdutl)) = (program, etcdutl) else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let Some((_store, s3_port)) = s3::serve(folder.path()).await? else {
        return Ok(());
    };
    let recovery = RecoveryKey::generate()?;
    let key = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "backup-key", "namespace": site.system },
        "data": { "wrapping-key": k8s_openapi::ByteString(recovery.wrapping_key().reveal()) },
    });
    apply(&site.admin, &key).await?;
    let login = json!({
        "access-key-id": s3::ACCESS_KEY_ID, "secret-access-key": s3::SECRET_ACCESS_KEY,
    });
    apply(&site.admin, &secret(&site.system, "backup-bucket", &login)).await?;
    let place = json!({ "s3": {
        "endpoint": format!("http://127.0.0.1:{s3_port}"), "bucket": "backups", "prefix": "covey",
        "credentialsSecret": "backup-bucket",
    }});
    let target = Target::make(&site, &place).await?;

    let mut cluster = minimal(&site.users, "demo");
    let backup = json!({ "target": target.name, "delta": "1s" });
    cluster.spec.backup = Some(serde_json::from_value(backup.clone())?);
    let cluster = site.create_as(&cluster).await?;
    let uid = cluster.uid().context("no UID")?;
    let ns = tenant_namespace(&cluster);
    let Some(first) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let mut again = minimal(&site.users, "again");
    again.spec.backup = Some(serde_json::from_value(backup)?);
    again.spec.etcd.bootstrap = Bootstrap::Restore;

    // One of the two runs at a time.
    let status = Arc::new(AtomicU16::new(free_port()?));
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
    let kubelet = |ns: &str, played: &EtcdMembers| RestorePods {
        client: site.admin.clone(),
        namespace: ns.to_owned(),
        status: Arc::clone(&status),
        volumes: played.volume(""),
        etcd: played.client_url(0),
        programs: [program.clone(), etcdutl.clone()],
        runs: None,
    };
    let before = cluster_id(&site, "demo").await?;
    let playing = kubelet(&ns, &first).start();
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
    let playing = kubelet(&ns, &second).start();

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
    // Elsewhere a controller makes it.
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default", "namespace": ns },
    });
    apply(&site.admin, &account).await?;
    let text = json!({ "recovery-key": recovery.reveal() });
    apply(&site.admin, &secret(&site.system, "recovery-key", &text)).await?;
    let names =
        json!({ "encryption": { "keySecret": "backup-key", "recoverySecret": "recovery-key" } });
    target.change(&names).await?;

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
    target.remove().await?;
    operator.stop().await
}
