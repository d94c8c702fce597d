//! A tenant cluster that is gone becomes another TenantCluster, by its bucket and the recovery key: real members of etcd,
//! the very gate, the very program that backs up and reads, a real S3 endpoint, and Jobs whose containers run one after the
//! other as they are told to.
//!
//! Invariant: what was acknowledged and read back is there afterwards; authorities and keys are those of then; what names
//! machines of then is gone; nothing starts before.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::tenant_cluster::Bootstrap;
use api::{Reason, Restore, TenantCluster};
use backup_format::keys::RecoveryKey;
use clap::Parser as _;
use etcd_agent::args::{Args, Command as Agent};
use etcd_agent::backup::perform;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use lab::programs::Program;
use operator::controllers::tenant_backup::report;
use operator::tenant_session::etcd;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenant_cp::names::{AUTHORITIES, ENCRYPTION, SERVICE_ACCOUNT};
use testkit::fixtures::{minimal, wait_for, wait_gone};
use testkit::process::Process;
use testkit::programs::reference_or_skip;
use testkit::s3;
use testkit::waiting::{self, ask_until};
use tokio::task::JoinHandle;

use crate::backup_targets::Target;
use crate::support::checks::{secret, volumes};
use crate::support::etcd_members::{EtcdMembers, Writer, get, has_all, members, put};
use crate::support::pools::said;
use crate::support::site::{apply, tenant_namespace};
use crate::support::{Launch, PATIENCE, Site};

const LOOK: Duration = Duration::from_millis(250);
/// A Secret as a kube-apiserver stores it, and a node.
const KEPT: &str = "/registry/secrets/default/password";
const ENCRYPTED: &[u8] = b"k8s:enc:secretbox:v1:k1:\x00\x01\xff what it is";
const NODE: &str = "/registry/minions/worker-1";

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Plays the Deployment `backup` and the Jobs of a restore in one tenant namespace.
struct Kubelet {
    client: Client,
    namespace: String,
    /// Where the process of the Deployment answers: another port for each, because the one before may still have its own.
    status: Arc<AtomicU16>,
    /// Where members of etcd have their volumes, and serve.
    volumes: PathBuf,
    etcd: String,
    programs: [PathBuf; 2],
    runs: Option<Runs>,
}

/// The process of the Deployment, in this one.
struct Runs {
    template: Value,
    pod: String,
    task: JoinHandle<()>,
    _folder: TempDir,
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Aborts what it has when it is dropped.
struct Playing(JoinHandle<()>);

impl Drop for Playing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelet {
    fn start(mut self) -> Playing {
        Playing(tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                if let Err(error) = Box::pin(self.look()).await {
                    eprintln!("pods of {} could not be played: {error:#}", self.namespace);
                }
            }
        }))
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        <K as kube::Resource>::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn look(&mut self) -> Result<()> {
        let deployment = self.api::<Deployment>().get_opt("backup").await?;
        let spec = deployment.and_then(|deployment| deployment.spec);
        let spec = spec.filter(|spec| spec.replicas != Some(0));
        let template = spec.map(|spec| serde_json::to_value(spec.template));
        let template = template.transpose()?;
        if self.runs.as_ref().map(|runs| &runs.template) != template.as_ref() {
            if let Some(runs) = self.runs.take() {
                let now = DeleteParams::default().grace_period(0);
                self.api::<Pod>().delete(&runs.pod, &now).await?;
            }
            if let Some(template) = template {
                self.runs = Some(self.run(template).await?);
            }
        }
        let labels = ListParams::default().labels("app.kubernetes.io/component=etcd-restore");
        for job in self.api::<Job>().list(&labels).await? {
            let begun = job.status.as_ref().is_some_and(|s| s.start_time.is_some());
            if !begun && job.metadata.deletion_timestamp.is_none() {
                self.carry_out(&job).await?;
            }
        }
        Ok(())
    }

    async fn pod(&self, name: &str, template: &Value) -> Result<Pod> {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": template["metadata"], "spec": template["spec"],
        });
        pod["metadata"]["generateName"] = json!(format!("{name}-"));
        if name != "backup" {
            pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] = json!(name);
        }
        let pod: Pod = serde_json::from_value(pod)?;
        let made = self
            .api::<Pod>()
            .create(&PostParams::default(), &pod)
            .await?;
        Ok(made)
    }

    async fn run(&self, template: Value) -> Result<Runs> {
        let pod = self.pod("backup", &template).await?;
        let folder = tempfile::tempdir()?;
        let paths = volumes(&self.client, &self.namespace, &pod, folder.path()).await?;
        let container = &template["spec"]["containers"][0];
        let port = free_port()?;
        self.status.store(port, Ordering::Relaxed);
        let args = arguments(container).into_iter().map(|arg| {
            let arg = arg.replace("https://etcd-0:2379", &self.etcd);
            let arg = arg.replace("[::]:2382", &format!("127.0.0.1:{port}"));
            let mut arg = arg.replace("$(POD_NAME)", &pod.name_any());
            for (inside, outside) in &paths {
                arg = arg.replace(inside.as_str(), &outside.display().to_string());
            }
            arg
        });
        let args = Args::try_parse_from(std::iter::once("etcd-agent".to_owned()).chain(args))?;
        let Agent::Backup(args) = args.command else {
            anyhow::bail!("it is no backup");
        };
        let task = tokio::spawn(async move {
            if let Err(failure) = perform(args.command).await {
                eprintln!("the backup ended: {}", failure.said());
            }
        });
        let status = json!({ "status": { "phase": "Running", "podIP": "127.0.0.1" } });
        let params = PatchParams::default();
        let name = pod.name_any();
        self.api::<Pod>()
            .patch_status(&name, &params, &Patch::Merge(status))
            .await?;
        Ok(Runs {
            template,
            pod: name,
            task,
            _folder: folder,
        })
    }

    /// Its containers, one after the other.
    async fn carry_out(&self, job: &Job) -> Result<()> {
        let value = serde_json::to_value(job)?;
        let template = &value["spec"]["template"];
        let all = |field: &str| {
            template["spec"][field]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        let claim = all("volumes")
            .into_iter()
            .find(|volume| volume["name"] == "data");
        let claim = claim.context("no volume")?;
        let claim = claim["persistentVolumeClaim"]["claimName"]
            .as_str()
            .context("no claim")?
            .to_owned();
        let claim = self.api::<PersistentVolumeClaim>().get(&claim).await?;
        let volume = self.volumes.join(claim.uid().context("no UID")?);
        std::fs::create_dir_all(&volume)?;
        let scratch = tempfile::tempdir()?;
        let log = scratch.path().join("log");
        std::fs::write(&log, "")?;
        // Secrets are mounted by the first one.
        let mut first = template.clone();
        if let Some(reader) = all("initContainers").first() {
            first["spec"]["containers"] = json!([reader]);
        }
        let reads: Pod = serde_json::from_value(json!({
            "metadata": template["metadata"], "spec": first["spec"],
        }))?;
        let folder = tempfile::tempdir()?;
        let mut paths = volumes(&self.client, &self.namespace, &reads, folder.path()).await?;
        paths.insert("/var/lib/etcd".to_owned(), volume);
        paths.insert("/scratch".to_owned(), scratch.path().to_owned());
        paths.insert("/dev/termination-log".to_owned(), log.clone());
        let (client, peer) = (free_port()?, free_port()?);
        let mut serves = None;
        for container in all("initContainers").iter().chain(&all("containers")) {
            let args = arguments(container).into_iter().map(|arg| {
                let mut arg = arg.replace("127.0.0.1:2379", &format!("127.0.0.1:{client}"));
                arg = arg.replace("127.0.0.1:2380", &format!("127.0.0.1:{peer}"));
                for (inside, outside) in &paths {
                    arg = arg.replace(inside.as_str(), &outside.display().to_string());
                }
                arg
            });
            let args: Vec<_> = args.collect();
            let [etcd, etcdutl] = &self.programs;
            match container["command"][0].as_str() {
                None => ours(args).await?,
                Some("etcd") => {
                    serves = Some(Process::spawn(
                        "etcd",
                        etcd,
                        &args,
                        &scratch.path().join("etcd.log"),
                    )?);
                }
                Some(_) => theirs(etcdutl, &args)?,
            }
        }
        drop(serves);
        let last = all("containers").first().cloned().context("no container")?;
        self.end(job, template, &last, &std::fs::read_to_string(&log)?)
            .await
    }

    /// Its pod says what it said, and the Job that it is over.
    async fn end(&self, job: &Job, template: &Value, last: &Value, message: &str) -> Result<()> {
        let pod = self.pod(&job.name_any(), template).await?;
        let status = json!({ "status": { "phase": "Succeeded", "containerStatuses": [{
            "name": last["name"], "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 0, "message": message, "reason": "Completed" } },
        }] } });
        let params = PatchParams::default();
        let pods = self.api::<Pod>();
        pods.patch_status(&pod.name_any(), &params, &Patch::Merge(status))
            .await?;
        let now = Timestamp::now().to_string();
        let condition = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": now, "lastProbeTime": now });
        let status = json!({ "status": {
            "startTime": now, "completionTime": now, "succeeded": 1, "uncountedTerminatedPods": {},
            "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
        } });
        let jobs = self.api::<Job>();
        jobs.patch_status(&job.name_any(), &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }
}

fn arguments(container: &Value) -> Vec<String> {
    let args = container["args"].as_array().into_iter().flatten();
    args.filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn ours(args: Vec<String>) -> Result<()> {
    let args = Args::try_parse_from(std::iter::once("etcd-agent".to_owned()).chain(args))?;
    let Agent::Backup(args) = args.command else {
        anyhow::bail!("it is no backup");
    };
    let done = perform(args.command).await;
    done.map_err(|failure| anyhow::anyhow!("{}", failure.said().to_owned()))
}

fn theirs(program: &Path, args: &[String]) -> Result<()> {
    let output = Command::new(program)
        .args(["snapshot", "restore"])
        .args(args)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "etcdutl: {said}");
    Ok(())
}

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
    let etcd = reference_or_skip(Program::ETCD, "etcd")?;
    let etcdutl = reference_or_skip(Program::ETCD, "etcdutl")?;
    let (Some(etcd), Some(etcdutl)) = (etcd, etcdutl) else {
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
    let late: Arc<std::sync::OnceLock<operator::tenant_session::session::Dial>> = Arc::default();
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
    let kubelet = |ns: &str, played: &EtcdMembers| Kubelet {
        client: site.admin.clone(),
        namespace: ns.to_owned(),
        status: Arc::clone(&status),
        volumes: played.volume(""),
        etcd: played.client_url(0),
        programs: [etcd.clone(), etcdutl.clone()],
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
