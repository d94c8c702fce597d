//! Backups of a tenant cluster: the operator gives a process all that it needs, the very program runs with that against
//! a real etcd and a real S3 endpoint, and the status says how far it is.
//!
//! Invariant: what is changed of the pod for the test are addresses and folders, and nothing else.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context as _, Result, ensure};
use api::{Reason, Restore, Snapshot, TenantCluster};
use backup_format::keys::RecoveryKey;
use clap::Parser;
use etcd_agent::args::{Args, Command};
use k8s_openapi::api::core::v1::Pod;
use kit_objects::kinds;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use lab::programs::Program;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::fixtures::{minimal, wait_for, wait_gone};
use testkit::ports::unused;
use testkit::process::Process;
use testkit::programs::reference_or_skip;
use testkit::s3;
use testkit::waiting::{self, ask_until};
use tokio::task::JoinHandle;

use crate::support::backup_target::Target;
use crate::support::checks::{command, files, secret, volumes};
use crate::support::pools::said;
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, Operator, PATIENCE, Site};

mod restore_test;

/// An etcd with the Secret of the tenant cluster's own.
struct Etcd {
    _process: Process,
    port: u16,
    etcdctl: PathBuf,
    secrets: PathBuf,
}

impl Etcd {
    async fn start(site: &Site, ns: &str, folder: &Path) -> Result<Option<Self>> {
        let Some(program) = reference_or_skip(Program::ETCD, "etcd")? else {
            return Ok(None);
        };
        let Some(etcdctl) = reference_or_skip(Program::ETCD, "etcdctl")? else {
            return Ok(None);
        };
        let secrets = folder.join("secrets");
        std::fs::create_dir_all(&secrets)?;
        files(&site.admin, ns, "etcd", &secrets).await?;
        files(&site.admin, ns, "etcd-healthcheck-client", &secrets).await?;
        let (port, peer) = (unused()?, unused()?);
        let file = |name: &str| secrets.join(name).display().to_string();
        let args = [
            "--name=etcd-0".to_owned(),
            format!("--data-dir={}", folder.join("data").display()),
            format!("--listen-client-urls=https://127.0.0.1:{port}"),
            format!("--advertise-client-urls=https://127.0.0.1:{port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=etcd-0=http://127.0.0.1:{peer}"),
            "--client-cert-auth=true".to_owned(),
            format!("--trusted-ca-file={}", file("etcd-ca.crt")),
            format!("--cert-file={}", file("etcd-0-server.crt")),
            format!("--key-file={}", file("etcd-0-server.key")),
        ];
        let process = Process::spawn("etcd", &program, &args, &folder.join("etcd.log"))?;
        let etcd = Self {
            _process: process,
            port,
            etcdctl,
            secrets,
        };
        ask_until("an etcd", waiting::PATIENCE, || {
            let put = etcd.put("a", "1");
            async move { Ok(put.map_err(|error| error.to_string())) }
        })
        .await?;
        Ok(Some(etcd))
    }

    fn put(&self, key: &str, value: &str) -> Result<()> {
        let file = |name: &str| self.secrets.join(name);
        let output = process::Command::new(&self.etcdctl)
            .arg(format!("--endpoints=https://127.0.0.1:{}", self.port))
            .arg("--cacert")
            .arg(file("etcd-ca.crt"))
            .arg("--cert")
            .arg(file("etcd-healthcheck-client.crt"))
            .arg("--key")
            .arg(file("etcd-healthcheck-client.key"))
            .args(["put", key, value])
            .output()?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

/// The process of the Deployment `backup`, in this one.
struct Backup {
    task: JoinHandle<()>,
    _folder: TempDir,
}

impl Backup {
    async fn start(
        site: &Site,
        ns: &str,
        deployment: &DynamicObject,
        etcd: u16,
        status: u16,
    ) -> Result<Self> {
        let template = &deployment.data["spec"]["template"];
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "generateName": "backup-", "labels": template["metadata"]["labels"],
                "annotations": template["metadata"]["annotations"],
            },
            "spec": template["spec"],
        });
        let pods: Api<Pod> = Api::namespaced(site.admin.clone(), ns);
        let pod: Pod = serde_json::from_value(pod)?;
        let pod = pods.create(&PostParams::default(), &pod).await?;
        let folder = tempfile::tempdir()?;
        let paths = volumes(&site.admin, ns, &pod, folder.path()).await?;
        let here = |arg: &str| {
            arg.replace("https://etcd-0:2379", &format!("https://127.0.0.1:{etcd}"))
                .replace("[::]:2382", &format!("127.0.0.1:{status}"))
                .replace("$(POD_NAME)", &pod.name_any())
        };
        let command = command(&pod, &paths, here)?;
        let task = tokio::spawn(async move {
            if let Err(failure) = etcd_agent::backup::perform(command).await {
                eprintln!("the backup ended: {}", failure.said());
            }
        });
        let runs = json!({ "status": { "phase": "Running", "podIP": "127.0.0.1" } });
        pods.patch_status(
            &pod.name_any(),
            &PatchParams::default(),
            &Patch::Merge(runs),
        )
        .await?;
        Ok(Self {
            task,
            _folder: folder,
        })
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reconciles the backup once. The operator that runs does it as well, and who comes second finds an object that is
/// there already, and looks again.
async fn reconciled(site: &Site, operator: &Operator) -> Result<()> {
    ask_until("it is reconciled", PATIENCE, || async {
        let cluster = Arc::new(site.clusters().get("demo").await?);
        let context = Arc::clone(&operator.context);
        let done = operator::controllers::tenant_backup::reconcile(cluster, context).await;
        Ok(done.map(drop).map_err(|error| format!("{error:?}")))
    })
    .await
}

/// Looks until the condition says so.
async fn until(site: &Site, operator: &Operator, status: &str, reason: Reason) -> Result<Value> {
    let wanted = (status.to_owned(), reason.as_str().to_owned());
    ask_until("the condition BackupReady", PATIENCE, || async {
        reconciled(site, operator).await?;
        let now = serde_json::to_value(site.clusters().get("demo").await?)?;
        let told = said(&now, "BackupReady");
        Ok(match told == wanted {
            true => Ok(now),
            false => Err(format!("{told:?}")),
        })
    })
    .await
}

/// A Snapshot is taken of what was written before it was made, and says where it is.
async fn snapshot(operator: &Operator, site: &Site, etcd: &Etcd, bucket: &Path) -> Result<()> {
    etcd.put("marker", "before the snapshot")?;
    let until = "2099-01-01T00:00:00Z";
    let object = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
        "metadata": { "name": "now", "namespace": site.users },
        "spec": { "clusterName": "demo", "keepUntil": until },
    });
    apply(&site.admin, &object).await?;
    let all: Api<Snapshot> = Api::namespaced(site.admin.clone(), &site.users);
    let is_done = |snapshot: Option<&Snapshot>| {
        let object = serde_json::to_value(snapshot).unwrap_or_default();
        let ready = said(&object, "Ready") == is("True", Reason::SnapshotTaken);
        let whole = said(&object, "Verified") == is("True", Reason::SnapshotWhole);
        ready && whole && object["status"]["keptUntil"] == until
    };
    let taken = wait_for(&all, "now", is_done, PATIENCE).await;
    let now = all.get("now").await?.status.unwrap_or_default();
    taken.with_context(|| format!("{now:?}"))?;
    let key = now.key.clone().context("no key")?;
    ensure!(bucket.join(&key).is_file(), "{key} is not in the bucket");
    let (folder, _) = key.split_once("/full/").context("no snapshot's key")?;
    let kept = std::fs::read_dir(bucket.join(folder).join("kept"))?.count();
    ensure!(kept == 1, "{kept} wishes to keep one snapshot");
    ensure!(now.revision >= Some(2) && now.bytes > Some(0), "{now:?}");

    // At rest nothing is written, and what is in the bucket outlives the Snapshot.
    let reconcile = async || {
        let (now, context) = (all.get("now").await?, Arc::clone(&operator.context));
        operator::controllers::snapshot::reconcile(Arc::new(now), context).await?;
        Ok(())
    };
    site.rests("snapshots", reconcile).await?;
    all.delete("now", &DeleteParams::default()).await?;
    wait_gone(&all, "now", PATIENCE).await?;
    ensure!(bucket.join(&key).is_file(), "{key} went with its Snapshot");
    Ok(())
}

/// Whether a moment can be had is said, and of one that cannot the nearest, and nothing is stopped for it.
async fn restore(site: &Site) -> Result<()> {
    let all: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    let ask = async |name: &str, at: Value, wanted: (String, String)| {
        let mut object = json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
            "metadata": { "name": name, "namespace": site.users },
            "spec": { "clusterName": "demo", "dryRun": true },
        });
        if !at.is_null() {
            object["spec"]["at"] = at;
        }
        apply(&site.admin, &object).await?;
        let is_said = |restore: Option<&Restore>| {
            let object = serde_json::to_value(restore).unwrap_or_default();
            said(&object, "Possible") == wanted
        };
        let found = wait_for(&all, name, is_said, PATIENCE).await;
        let now = all.get(name).await?.status.unwrap_or_default();
        found.with_context(|| format!("{now:?}"))?;
        anyhow::Ok(now)
    };
    let possible = is("True", Reason::RestorePossible);
    let newest = ask("newest", Value::Null, possible.clone()).await?;
    ensure!(
        newest.full.is_some() && newest.revision > Some(1),
        "{newest:?}"
    );
    let first = ask("earlier", json!({ "revision": newest.revision }), possible).await?;
    ensure!(first.revision == newest.revision, "{first:?}");
    let never = is("False", Reason::RestoreImpossible);
    let never = ask("never", json!({ "revision": 1_000_000 }), never).await?;
    let message = &never.conditions[0].message;
    ensure!(
        message.contains("the nearest moment before it") && never.revision.is_some(),
        "{message}"
    );
    let done = serde_json::to_value(site.clusters().get("demo").await?)?;
    ensure!(
        said(&done, "BackupReady") == is("True", Reason::BackedUp),
        "{done}"
    );
    Ok(())
}

/// Runs `etcd-agent backup`.
async fn perform(what: &str, reading: &[String], more: Option<String>) -> Result<()> {
    let command = ["etcd-agent", "backup", what].map(str::to_owned);
    let args = command.into_iter().chain(reading.iter().cloned());
    let args = Args::try_parse_from(args.chain(more))?;
    let Command::Backup(args) = args.command else {
        anyhow::bail!("it is no backup");
    };
    let done = etcd_agent::backup::perform(args.command).await;
    ensure!(done.is_ok(), "{what}: {done:?}");
    Ok(())
}

/// What was in the bucket is what the tenant cluster is: every authority and key, the TenantCluster, its addresses.
async fn has_identity(site: &Site, ns: &str, cluster: &TenantCluster, file: &Path) -> Result<()> {
    use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
    let document: Value = serde_json::from_slice(&std::fs::read(file)?)?;
    let live = site.objects(kinds::SECRET, ns);
    let secrets = document["secrets"].as_object().context("no Secrets")?;
    for name in AUTHORITIES.into_iter().chain([SERVICE_ACCOUNT, ENCRYPTION]) {
        let live = live.get(name).await?;
        ensure!(secrets.get(name) == Some(&live.data["data"]), "{name}");
    }
    ensure!(
        secrets.len() == AUTHORITIES.len() + 2,
        "{:?}",
        secrets.keys()
    );
    let of = &document["tenantCluster"];
    ensure!(of["metadata"]["uid"] == json!(cluster.uid()), "{of}");
    let now = serde_json::to_value(site.clusters().get("demo").await?)?;
    ensure!(of["spec"] == now["spec"], "{of}");
    for field in ["endpoint", "network", "addresses", "namespace"] {
        ensure!(of["status"][field] == now["status"][field], "{field}");
    }
    Ok(())
}

fn is(status: &str, reason: Reason) -> (String, String) {
    (status.to_owned(), reason.as_str().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_backed_up_to_a_bucket_and_the_recovery_key_opens_it() -> Result<()> {
    let Some(site) = Site::new("backup").await? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let Some((store, s3_port)) = s3::serve(folder.path()).await? else {
        return Ok(());
    };
    let status = Arc::new(AtomicU16::new(unused()?));
    let (usual, port) = (site.dial(), Arc::clone(&status));
    let launch = Launch {
        dial: Some(Arc::new(move |ns: &str, address: SocketAddr| {
            match address.ip() == Ipv4Addr::LOCALHOST && address.port() == 2382 {
                true => SocketAddr::new(address.ip(), port.load(Ordering::Relaxed)),
                false => usual(ns, address),
            }
        })),
        ..Launch::new(&site)?
    };
    let operator = launch.start(&site)?;

    let recovery = RecoveryKey::generate()?;
    let key = recovery.wrapping_key().reveal();
    let key = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": { "name": "backup-key", "namespace": site.system },
        "data": { "wrapping-key": k8s_openapi::ByteString(key) },
    });
    let login = json!({
        "access-key-id": s3::ACCESS_KEY_ID, "secret-access-key": s3::SECRET_ACCESS_KEY,
    });
    let endpoint = format!("http://127.0.0.1:{s3_port}");
    let place = json!({ "s3": {
        "endpoint": endpoint, "bucket": "backups", "prefix": "covey", "credentialsSecret": "backup-bucket",
    }});

    let mut cluster: TenantCluster = minimal(&site.users, "demo");
    let name = format!("target-of-{}", site.users);
    let backup = json!({ "target": name, "delta": "1s" });
    cluster.spec.backup = Some(serde_json::from_value(backup)?);
    site.create_as(&cluster).await?;
    let cluster = site.wait_ready("demo").await?;
    until(&site, &operator, "False", Reason::TargetMissing).await?;
    let target = Target::make(&site, &place).await?;
    until(&site, &operator, "False", Reason::TargetSecretUnusable).await?;
    apply(&site.admin, &key).await?;
    apply(&site.admin, &secret(&site.system, "backup-bucket", &login)).await?;

    let ns = tenant_namespace(&cluster);
    reconciled(&site, &operator).await?;
    let deployments = site.objects(kinds::DEPLOYMENT, &ns);
    let deployment = wait_for(&deployments, "backup", |d| d.is_some(), PATIENCE).await?;
    let deployment = deployment.context("invariant: it was just seen")?;
    let Some(etcd) = Etcd::start(&site, &ns, folder.path()).await? else {
        return Ok(());
    };
    etcd.put("marker", "one")?;
    let port = status.load(Ordering::Relaxed);
    let process = Backup::start(&site, &ns, &deployment, etcd.port, port).await?;
    let now = until(&site, &operator, "True", Reason::BackedUp).await?;
    ensure!(now["status"]["backup"]["verified"].is_string(), "{now}");

    snapshot(&operator, &site, &etcd, &folder.path().join("root/backups")).await?;

    let uid = cluster.uid().context("no UID")?;
    let place = folder.path().join("root/backups/covey").join(&uid);
    let id = std::fs::read_dir(&place)?
        .next()
        .context("nothing there")??;
    // There is no pod of etcd here that the operator could have it from.
    let known = json!({ "status": { "etcd": { "clusterID": id.file_name().to_string_lossy() } } });
    let params = PatchParams::default();
    let known = Patch::Merge(known);
    site.clusters()
        .patch_status("demo", &params, &known)
        .await?;
    restore(&site).await?;

    Box::pin(restore_test::is_carried_out(
        &site,
        &operator,
        &etcd,
        (&ns, folder.path()),
    ))
    .await?;

    // With the bucket and the recovery key alone it can be read.
    let recovery_file = folder.path().join("recovery");
    std::fs::write(&recovery_file, recovery.reveal())?;
    let login = folder.path().join("login");
    std::fs::create_dir_all(&login)?;
    files(&site.admin, &site.system, "backup-bucket", &login).await?;
    let document = folder.path().join("identity");
    let reading = [
        "--s3-bucket=backups".to_owned(),
        format!("--s3-endpoint={endpoint}"),
        format!("--s3-credentials={}", login.display()),
        "--prefix=covey".to_owned(),
        format!("--tenant={uid}"),
        format!("--cluster={}", id.file_name().to_string_lossy()),
        format!("--recovery-key={}", recovery_file.display()),
    ];
    perform("verify", &reading, None).await?;
    let anywhere = |arg: &&String| !arg.starts_with("--tenant") && !arg.starts_with("--cluster");
    let all: Vec<_> = reading.iter().filter(anywhere).cloned().collect();
    perform("clusters", &all, None).await?;
    let to = format!("--to={}", document.display());
    perform("identity", &reading, Some(to)).await?;
    has_identity(&site, &ns, &cluster, &document).await?;

    // At rest nothing is written: when the snapshot that was asked for was read again, too.
    let read_again = ask_until("what is in the status", PATIENCE, || async {
        let now = until(&site, &operator, "True", Reason::BackedUp).await?;
        let backup = &now["status"]["backup"];
        Ok(match backup["lastFull"] == backup["verified"] {
            true => Ok(()),
            false => Err(backup.to_string()),
        })
    });
    read_again.await?;
    site.rests("", async || reconciled(&site, &operator).await)
        .await?;

    // A store that is away is told, and never as if all were well.
    drop(store);
    etcd.put("marker", "two")?;
    let now = until(&site, &operator, "False", Reason::BackupLate).await?;
    ensure!(now["status"]["backup"]["verified"].is_string(), "{now}");

    // Switched off, its process and its credentials go, and the data key stays.
    drop(process);
    let off = json!({ "spec": { "backup": null } });
    site.change("demo", &off).await?;
    wait_gone(&deployments, "backup", PATIENCE).await?;
    let secrets = site.objects(kinds::SECRET, &ns);
    wait_gone(&secrets, "backup-etcd-client", PATIENCE).await?;
    wait_gone(&secrets, "backup-identity", PATIENCE).await?;
    ensure!(secrets.get_opt("backup-keys").await?.is_some(), "no key");
    site.wait("demo", |cluster| {
        let now = serde_json::to_value(cluster).unwrap_or_default();
        said(&now, "BackupReady").0.is_empty() && now["status"]["backup"].is_null()
    })
    .await?;
    target.remove().await?;
    operator.stop().await
}
