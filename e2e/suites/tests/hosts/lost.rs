//! Needs: operator, host
//!
//! The management cluster is lost. A fresh one is given the bucket and the recovery key, as the text that a person keeps,
//! and brings the tenant cluster back; the host that ran its node all the while is taken over as it runs.
//!
//! The lab has one management cluster, so all that belongs to the tenant cluster is taken out of that one while no operator
//! runs, without anybody having the machine drained or reset.
//! Invariant: nothing of the management cluster of before is used afterwards but the bucket, the key's text, what people
//! wrote down of the Host, and which addresses the tenant cluster had; what ran on the machine runs on.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use api::{
    BackupTarget, ConditionType, Host, NodePoolSpec, Reason, Restore, Snapshot, TenantCluster,
    condition,
    node_pool::{Provider, Static},
};
use backup_format::keys::RecoveryKey;
use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Namespace, Secret},
    },
};
use kube::{
    Api,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::{Value, json};
use suites::{
    cluster::{
        OPERATOR, OPERATOR_NAMESPACE, Pool, Tenant,
        pool::small,
        wait::{wait_for, wait_gone, wait_list},
    },
    scenario::{
        self, PATIENCE, Scenario,
        kubectl::Kubectl,
        lab_hosts::{LabHost, LabHosts, inside},
        workers::PODS,
        workload::{Workload, list},
    },
};
use tempfile::TempDir;
use testkit::{process::Process, s3};

use crate::{claimed_by, phase};

/// How long the whole way back may take, and a host to be taken over.
const BACK: Duration = Duration::from_secs(600);
/// As whom the loss is played: nobody else may take finalizers off (docs/operations.md).
const AS: [&str; 2] = [
    "--as=system:serviceaccount:covey-system:covey-operator",
    "--as-group=system:masters",
];
/// What a person lays on the machine, in a folder that a reset empties; and what runs there, which a reset ends.
const MARK: &str = "echo kept > /var/lib/kubelet/covey-mark";
const ALIVE: &str = r#"
cat /var/lib/kubelet/covey-mark
for process in /proc/[0-9]*; do
    read -r name < "$process/comm" || continue
    case "$name" in containerd) echo "$name ${process#/proc/}" ;; esac
done 2> /dev/null | sort
"#;

#[tokio::test]
async fn tenant_cluster_comes_back_by_bucket_and_key_alone_and_its_host_is_not_rebuilt() {
    let mut machines = LabHosts::default();
    scenario::run_alone("lost", async |s| lost(s, &mut machines).await).await;
    machines.end().unwrap();
}

/// A bucket that outlives the management cluster.
struct Bucket {
    endpoint: String,
    root: PathBuf,
    // It ends before its folder goes.
    _process: Process,
    _folder: TempDir,
}

impl Bucket {
    /// At the machine's own address in the lab's network. None where the program is missing.
    async fn open(s: &Scenario) -> Result<Option<Self>> {
        let state = lab::state::State::read(&s.management.layout);
        let state = state.context("the lab went down meanwhile")?;
        let address = state.slot.machine_address();
        let folder = tempfile::tempdir()?;
        let served = s3::serve_at(folder.path(), address).await?;
        Ok(served.map(|(process, port)| Self {
            endpoint: format!("http://{address}:{port}"),
            root: folder.path().join("root"),
            _process: process,
            _folder: folder,
        }))
    }

    /// Whether the tenant cluster's identity is in it.
    fn has_identity(&self) -> bool {
        has(&self.root, "identity")
    }
}

/// Whether a folder of this name with something in it is somewhere below.
fn has(folder: &Path, name: &str) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let is_it = path.file_name().is_some_and(|found| found == name);
        let holds = || std::fs::read_dir(&path).is_ok_and(|mut all| all.next().is_some());
        (is_it && holds()) || (path.is_dir() && has(&path, name))
    })
}

/// What there is of a management cluster for backups: Secrets, and the target that names them.
struct Platform<'a> {
    s: &'a Scenario,
    bucket: &'a Bucket,
}

impl Platform<'_> {
    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.s.client().clone(), OPERATOR_NAMESPACE)
    }

    fn targets(&self) -> Api<BackupTarget> {
        Api::all(self.s.client().clone())
    }

    /// Names of the Secrets: the wrapping key (as scenarios call it), the login, and the recovery key.
    fn names(&self) -> [String; 3] {
        let name = &self.s.namespace;
        [
            name.clone(),
            format!("{name}-bucket"),
            format!("{name}-recovery"),
        ]
    }

    async fn secret(&self, name: &str, data: &[(&str, Vec<u8>)]) -> Result<()> {
        let data = data.iter().cloned();
        let secret = Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(
                data.map(|(key, bytes)| (key.to_owned(), ByteString(bytes)))
                    .collect(),
            ),
            ..Secret::default()
        };
        self.secrets()
            .create(&PostParams::default(), &secret)
            .await?;
        Ok(())
    }

    /// Makes them of the text that a person keeps. `lends`: whether the operator gets the recovery key itself.
    async fn set_up(&self, recovery: &str, lends: bool) -> Result<()> {
        let [key, login, lent] = self.names();
        let wrapping = RecoveryKey::read(recovery)?.wrapping_key().reveal();
        self.secret(&key, &[("wrapping-key", wrapping)]).await?;
        let user = [
            ("access-key-id", s3::ACCESS_KEY_ID.into()),
            ("secret-access-key", s3::SECRET_ACCESS_KEY.into()),
        ];
        self.secret(&login, &user).await?;
        let mut encryption = json!({ "keySecret": key });
        if lends {
            let text = recovery.as_bytes().to_vec();
            self.secret(&lent, &[("recovery-key", text)]).await?;
            encryption["recoverySecret"] = json!(lent);
        }
        let target = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "BackupTarget",
            "metadata": { "name": self.s.namespace },
            "spec": { "encryption": encryption, "s3": {
                "endpoint": self.bucket.endpoint, "bucket": s3::BUCKET, "region": s3::REGION,
                "prefix": "covey", "credentialsSecret": login,
            } },
        }))?;
        self.targets()
            .create(&PostParams::default(), &target)
            .await?;
        Ok(())
    }

    async fn remove(&self) -> Result<()> {
        let now = DeleteParams::background();
        let mut gone = vec![
            self.targets()
                .delete(&self.s.namespace, &now)
                .await
                .map(drop),
        ];
        for name in self.names() {
            gone.push(self.secrets().delete(&name, &now).await.map(drop));
        }
        for gone in gone {
            match gone {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                gone => gone?,
            }
        }
        Ok(())
    }
}

/// What people know of the tenant cluster that is lost.
struct Known {
    uid: String,
    etcd: String,
    network: Value,
    node: String,
    machine_uid: String,
    marker_uid: String,
    alive: String,
}

async fn lost(s: &Scenario, machines: &mut LabHosts) -> Result<()> {
    let Some(bucket) = Bucket::open(s).await? else {
        return Ok(());
    };
    let platform = Platform { s, bucket: &bucket };
    let outcome = Box::pin(life(&platform, machines)).await;
    // What still runs is deleted by the scenario, which needs no target for it.
    outcome.and(platform.remove().await)
}

async fn life(platform: &Platform<'_>, machines: &mut LabHosts) -> Result<()> {
    let s = platform.s;
    // The text is all that is kept of it.
    let recovery = RecoveryKey::generate()?.reveal();
    platform.set_up(&recovery, false).await?;
    let backup = json!({ "target": s.namespace, "delta": "1s" });
    let backup = serde_json::from_value(backup)?;
    let tenant = s.tenant("demo", |spec| spec.backup = Some(backup)).await?;
    let host = machines.add(s, "rack", &[]).await?;
    let known = Box::pin(before(platform, &tenant, &host)).await?;

    lose(s, &tenant).await?;
    platform.remove().await?;
    wait_gone(&platform.targets(), &s.namespace, None, PATIENCE).await?;
    ensure!(
        inside(s, &host.name, ALIVE)? == known.alive,
        "the loss itself touched the machine"
    );

    platform.set_up(&recovery, true).await?;
    Box::pin(after(s, &host, &known)).await
}

fn pool_of_hosts() -> NodePoolSpec {
    let mut spec = small("demo");
    spec.provider = Some(Provider {
        static_: Some(Static::default()),
        ..Provider::default()
    });
    spec
}

fn web() -> Workload<'static> {
    Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    }
}

/// The tenant cluster has a node with a pod, and all of it is in the bucket.
async fn before(platform: &Platform<'_>, tenant: &Tenant, host: &LabHost) -> Result<Known> {
    let s = platform.s;
    let admin = tenant.usable(PATIENCE).await?.client;
    apply(s, "hosts.json", &list(&host.objects)).await?;
    let pool = Pool::create(tenant, "hosts", pool_of_hosts()).await?;
    let machines = pool.settled(1, BACK).await?;
    let (node, machine) = machines.into_iter().next().context("no Machine")?;
    web().deploy(&Kubectl::of(s, tenant).await?, PODS).await?;
    inside(s, &host.name, MARK)?;

    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("marker".to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let marker = maps.create(&PostParams::default(), &map).await?;
    tenant
        .condition(ConditionType::BackupReady, true, BACK)
        .await?;
    // One that is taken now has the marker, and was read again.
    let snapshots: Api<Snapshot> = Api::namespaced(s.client().clone(), &s.namespace);
    let snapshot = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
        "metadata": { "name": "last" }, "spec": { "clusterName": tenant.name },
    }))?;
    snapshots.create(&PostParams::default(), &snapshot).await?;
    wait_for(&snapshots, "last", "is taken", BACK, |snapshot| {
        let conditions = &snapshot.status.as_ref()?.conditions;
        condition::is_true(conditions, ConditionType::Ready).then_some(())
    })
    .await?;
    ensure!(
        platform.bucket.has_identity(),
        "the bucket has no identity of the tenant cluster"
    );
    let status = tenant.get().await?.status.context("it has no status")?;
    let etcd = status.etcd.and_then(|etcd| etcd.cluster_id);
    Ok(Known {
        uid: tenant.uid.clone(),
        etcd: etcd.context("it has no etcd")?,
        network: serde_json::to_value(status.network)?,
        node,
        machine_uid: machine.metadata.uid.context("a Machine has a UID")?,
        marker_uid: marker.metadata.uid.context("an object has a UID")?,
        alive: inside(s, &host.name, ALIVE)?,
    })
}

async fn apply(s: &Scenario, name: &str, manifest: &str) -> Result<()> {
    let path = s.file(name, manifest)?;
    let path = path.to_str().context("a path that is no text")?;
    s.manage(&["apply", "-f", path]).await.map(drop)
}

/// Everything of the tenant cluster goes while no operator runs, so nobody gives its machine back.
async fn lose(s: &Scenario, tenant: &Tenant) -> Result<()> {
    let operators: Api<Deployment> = Api::namespaced(s.client().clone(), OPERATOR_NAMESPACE);
    let deployed = operators.get(OPERATOR).await?.spec;
    let replicas = deployed.and_then(|spec| spec.replicas).unwrap_or(2);
    scale(&operators, 0).await?;
    let taken = take_away(s, tenant).await;
    scale(&operators, replicas).await?;
    taken
}

async fn take_away(s: &Scenario, tenant: &Tenant) -> Result<()> {
    let off = r#"{"metadata":{"finalizers":null}}"#;
    for kind in [
        "machines",
        "nodepools",
        "hosts",
        "snapshots",
        "tenantclusters",
    ] {
        let kind = format!("{kind}.covey.dev");
        let named = s.manage(&["get", &kind, "--output=name"]).await?;
        for name in named.lines() {
            let patch = [&AS[..], &["patch", name, "--type=merge", "-p", off]].concat();
            s.manage(&patch).await?;
            let gone = ["delete", name, "--ignore-not-found", "--timeout=120s"];
            s.manage(&[&AS[..], &gone].concat()).await?;
        }
    }
    let namespace = tenant.tenant_namespace();
    let namespaces: Api<Namespace> = Api::all(s.client().clone());
    let gone = ["delete", "namespace", &namespace, "--wait=false"];
    s.manage(&[&AS[..], &gone].concat()).await?;
    wait_gone(&namespaces, &namespace, None, BACK).await
}

async fn scale(operators: &Api<Deployment>, replicas: i32) -> Result<()> {
    let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let params = PatchParams::default();
    operators.patch(OPERATOR, &params, &patch).await?;
    wait_for(operators, OPERATOR, "scaled", PATIENCE, |deployment| {
        let status = deployment.status.clone().unwrap_or_default();
        let ready = status.ready_replicas.unwrap_or(0) == replicas;
        (ready && status.replicas.unwrap_or(0) == replicas).then_some(())
    })
    .await
}

/// The Host of before, which is taken over although nobody knows whether its installation lives.
fn adopted(host: &LabHost, known: &Known) -> String {
    let mut objects = host.objects.clone();
    for object in &mut objects {
        if object["kind"] == "Host" {
            object["spec"]["adopt"] = json!(true);
            object["metadata"]["annotations"]["covey.dev/take-over"] = json!(known.machine_uid);
        }
    }
    list(&objects)
}

/// A fresh management cluster brings it back.
async fn after(s: &Scenario, host: &LabHost, known: &Known) -> Result<()> {
    let restores: Api<Restore> = Api::namespaced(s.client().clone(), &s.namespace);
    let restore = serde_json::from_value(json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": "back" },
        "spec": { "clusterName": "demo",
            "from": { "clusterUID": known.uid, "clusterID": known.etcd } },
    }))?;
    restores.create(&PostParams::default(), &restore).await?;
    let spec = json!({
        "version": scenario::VERSION, "network": known.network,
        "etcd": { "bootstrap": "Restore" }, "backup": { "target": s.namespace },
    });
    let wanted: api::TenantClusterSpec = serde_json::from_value(spec)?;
    let tenant = s.tenant("demo", |spec| *spec = wanted).await?;
    ensure!(tenant.uid != known.uid, "it is the one that was lost");
    apply(s, "hosts-again.json", &adopted(host, known)).await?;
    let pool = Pool::create(&tenant, "hosts", pool_of_hosts()).await?;
    restored(&restores).await?;

    let admin = tenant.usable(BACK).await?.client;
    let maps: Api<ConfigMap> = Api::namespaced(admin, "default");
    let marker = maps.get("marker").await?.metadata.uid;
    ensure!(
        marker.as_ref() == Some(&known.marker_uid),
        "the marker is another one: {marker:?}"
    );
    let machines = pool.settled(1, BACK).await?;
    ensure!(
        machines.contains_key(&known.node),
        "{} was not taken over: {:?}",
        known.node,
        machines.keys()
    );
    let hosts: Api<Host> = Api::namespaced(s.client().clone(), &s.namespace);
    let what = "the Host is the Machine's";
    wait_list(&hosts, Config::default(), what, PATIENCE, |all| {
        let host = all.get(&host.name)?;
        let is_its = claimed_by(host) == Some(&known.node);
        (is_its && phase(host) == api::host::HostPhase::Joined).then_some(())
    })
    .await?;
    let alive = inside(s, &host.name, ALIVE)?;
    ensure!(
        alive == known.alive,
        "the machine was rebuilt: {:?} ran there, and now {alive:?}",
        known.alive
    );
    // The Deployment came back with etcd; its pod runs on the node again.
    web().deploy(&Kubectl::of(s, &tenant).await?, PODS).await?;

    let confirm = Patch::Merge(json!({ "spec": { "confirmed": true } }));
    let params = PatchParams::default();
    restores.patch("back", &params, &confirm).await?;
    let what = "the Restore is over";
    let clusters: Api<TenantCluster> = s.tenants();
    wait_for(&clusters, "demo", what, BACK, |cluster| {
        let status = cluster.status.as_ref()?;
        status.restore.is_none().then_some(())
    })
    .await?;
    tenant.settled(BACK).await.map(drop)
}

/// Waits until it says how it ended.
async fn restored(restores: &Api<Restore>) -> Result<()> {
    let ends = [
        Reason::Restored,
        Reason::RestoreGivenUp,
        Reason::RestoreImpossible,
    ];
    let mut said = String::new();
    let end = wait_for(restores, "back", "is over", BACK, |restore| {
        let conditions = &restore.status.as_ref()?.conditions;
        conditions.iter().find_map(|condition| {
            said.clone_from(&condition.message);
            let mut ends = ends.into_iter();
            ends.find(|reason| condition.reason == *reason)
        })
    })
    .await?;
    match end {
        Reason::Restored => Ok(()),
        end => bail!("it was not restored: {end}: {said}"),
    }
}
