//! A tenant cluster is brought back in place, with three real etcd processes, the very gate, and Jobs that build of a
//! snapshot as their pods are told to. What leads from a backup to such a snapshot is tested beside the program
//! (`etcd-agent/tests/t1/backup/in_place.rs`).
//!
//! Invariant: what was acknowledged until the snapshot is on every member afterwards, what came later on none, and the
//! data of before is there until it is confirmed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::names::ANNOTATION_KEPT_FOR_RESTORE;
use api::{Reason, Restore, TenantCluster};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use kit_objects::kinds;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use operator::tenant_session::etcd;
use serde_json::{Value, json};
use testkit::fixtures::{is_settled, wait_for};
use testkit::waiting::{self, ask_until};
use tokio::task::JoinHandle;

use crate::support::checks::files;
use crate::support::etcd_members::{EtcdMembers, MEMBERS, Writer, has_all, members};
use crate::support::etcd_stage::whole;
use crate::support::job_pods::{self, etcd_agent_backup, restore_snapshot};
use crate::support::pools::said;
use crate::support::restores::{BackedUp, give_account, told};
use crate::support::site::apply;
use crate::support::{PATIENCE, Site};

/// Less than the margin of the real one; more than is written here.
const BUMP: i64 = 1_000_000;
const LOOK: Duration = Duration::from_millis(250);

/// The Jobs' controller, and what their pods do.
pub(crate) struct Jobs {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) volumes: PathBuf,
    pub(crate) snapshot: PathBuf,
    pub(crate) revision: i64,
    pub(crate) etcdutl: PathBuf,
}

impl Jobs {
    pub(crate) fn start(self) -> JoinHandle<()> {
        tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                if let Err(error) = Box::pin(self.look()).await {
                    eprintln!("Jobs could not be played: {error:#}");
                }
            }
        })
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        <K as kube::Resource>::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn look(&self) -> Result<()> {
        let labels = ListParams::default().labels("app.kubernetes.io/component=etcd-restore");
        for job in self.api::<Job>().list(&labels).await? {
            let begun = job.status.as_ref().is_some_and(|s| s.start_time.is_some());
            if !begun && job.metadata.deletion_timestamp.is_none() {
                self.carry_out(&job).await?;
            }
        }
        Ok(())
    }

    async fn carry_out(&self, job: &Job) -> Result<()> {
        let value = serde_json::to_value(job)?;
        let template = &value["spec"]["template"];
        let claim = template["spec"]["volumes"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|volume| volume["name"] == "data")
            .and_then(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
            .context("no volume")?;
        let claim = self.api::<PersistentVolumeClaim>().get(claim).await?;
        let volume = self.volumes.join(claim.uid().context("no UID")?);
        let scratch = tempfile::tempdir()?;
        let containers = |field: &str| template["spec"][field].as_array().cloned();
        let init = containers("initContainers").unwrap_or_default();
        let build = init.iter().find(|container| container["name"] == "build");
        if let Some(build) = build {
            self.build(build, &volume)?;
            let replayed = json!({ "revision": self.revision }).to_string();
            std::fs::write(scratch.path().join("replayed.json"), replayed)?;
        }
        let last = containers("containers").context("no container")?.remove(0);
        let log = scratch.path().join("log");
        std::fs::write(&log, "")?;
        let args = arguments(&last, &volume).into_iter().map(|arg| {
            let arg = arg.replace("/dev/termination-log", &log.display().to_string());
            arg.replace("/scratch", &scratch.path().display().to_string())
        });
        etcd_agent_backup(args).await?;
        let pod = job_pods::make(&self.client, job, template).await?;
        let said = std::fs::read_to_string(&log)?;
        job_pods::end(&self.client, job, &pod, &last, &said).await
    }

    /// As its container does, of the snapshot.
    fn build(&self, container: &Value, volume: &Path) -> Result<()> {
        let args = arguments(container, volume);
        let folder = args
            .iter()
            .find_map(|arg| arg.strip_prefix("--data-dir="))
            .context("no data directory")?;
        let folder = Path::new(folder).parent().context("no folder")?;
        std::fs::create_dir_all(folder)?;
        let snapshot = self.snapshot.display().to_string();
        let args: Vec<_> = args
            .iter()
            .map(|arg| arg.replace("/scratch/restored.db", &snapshot))
            .collect();
        restore_snapshot(&self.etcdutl, &args)
    }
}

/// With the volume where it is here.
fn arguments(container: &Value, volume: &Path) -> Vec<String> {
    let volume = volume.display().to_string();
    let args = container["args"].as_array().into_iter().flatten();
    let args = args.filter_map(Value::as_str);
    args.map(|arg| arg.replace("/var/lib/etcd", &volume))
        .collect()
}

/// Asks for a restore, and says what the process that backs up would have found.
async fn ask(site: &Site, name: &str, found: &Value) -> Result<()> {
    let restore = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": { "name": name, "namespace": site.users },
        "spec": { "clusterName": "demo", "at": { "revision": found["revision"] } },
    });
    apply(&site.admin, &restore).await?;
    find(site, name, found).await
}

/// Says of a Restore what the process that backs up would have found.
pub(crate) async fn find(site: &Site, name: &str, found: &Value) -> Result<()> {
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    // Nobody backs up here. Before that is said it would be said over what follows.
    let is_asked = |restore: Option<&Restore>| {
        let object = serde_json::to_value(restore).unwrap_or_default();
        said(&object, "Possible").1 == Reason::RestoreUnanswered.as_str()
    };
    wait_for(&restores, name, is_asked, PATIENCE).await?;
    let mut found = found.clone();
    found["conditions"] = json!([{ "type": "Possible", "status": "True", "reason": "RestorePossible",
        "message": "", "lastTransitionTime": Timestamp::now().to_string() }]);
    let found = Patch::Merge(json!({ "status": found }));
    restores
        .patch_status(name, &PatchParams::default(), &found)
        .await?;
    Ok(())
}

/// One that is deleted while Jobs build: they go, and members start on the data that they had.
async fn give_up(site: &Site, ns: &str, found: &Value) -> Result<()> {
    ask(site, "never", found).await?;
    let jobs: Api<Job> = Api::namespaced(site.admin.clone(), ns);
    let count = async |wanted: usize| {
        ask_until("Jobs", PATIENCE, || async {
            let found = jobs.list(&ListParams::default()).await?.items.len();
            Ok((found == wanted)
                .then_some(())
                .ok_or_else(|| found.to_string()))
        })
        .await
    };
    count(MEMBERS).await?;
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    restores.delete("never", &DeleteParams::default()).await?;
    count(0).await
}

/// A snapshot of what etcd has, by its own tool.
pub(crate) async fn save(
    site: &Site,
    ns: &str,
    played: &EtcdMembers,
    etcdctl: &Path,
) -> Result<PathBuf> {
    let secrets = played.file("secrets");
    std::fs::create_dir_all(&secrets)?;
    files(&site.admin, ns, "etcd-healthcheck-client", &secrets).await?;
    let snapshot = played.file("snapshot.db");
    let output = Command::new(etcdctl)
        .arg(format!("--endpoints={}", played.client_url(0)))
        .arg("--cacert")
        .arg(secrets.join("etcd-ca.crt"))
        .arg("--cert")
        .arg(secrets.join("etcd-healthcheck-client.crt"))
        .arg("--key")
        .arg(secrets.join("etcd-healthcheck-client.key"))
        .args(["snapshot", "save"])
        .arg(&snapshot)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "etcdctl: {text}");
    Ok(snapshot)
}

/// What etcd is, once it is another one that is whole.
pub(crate) async fn wait_whole(
    site: &Site,
    but: Option<&str>,
) -> Result<api::tenant_cluster::EtcdStatus> {
    let is = |cluster: &TenantCluster| {
        let etcd = whole(cluster);
        let is_it = etcd.is_some_and(|etcd| etcd.cluster_id.as_deref() != but);
        is_it && is_settled(cluster)
    };
    let clusters = site.clusters();
    let found = wait_for(&clusters, "demo", |c| c.is_some_and(is), 3 * PATIENCE).await;
    if found.is_err() {
        let now = clusters.get("demo").await?.status;
        eprintln!("{}", serde_json::to_string_pretty(&now)?);
    }
    found?.as_ref().and_then(whole).context("it was just seen")
}

/// Volumes that the tenant cluster of then does not know, and the machine that has one.
const VOLUMES: [(&str, &str); 2] = [("vol-pvc-late", ""), ("vol-pvc-held", "workers-a")];

/// As the CSI driver makes one.
fn volume(ns: &str, cluster_uid: &str, name: &str, attached: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": ns,
            "labels": { "app.kubernetes.io/component": "volume",
                "covey.dev/tenant-cluster-uid": cluster_uid },
            "annotations": { "covey.dev/attached-to": attached } },
        "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } },
    })
}

/// As the CSI driver makes one, of a volume that is gone.
fn snapshot(ns: &str, cluster_uid: &str, uid: &str) -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": { "name": format!("snap-snapshot-{uid}"), "namespace": ns,
            "labels": { "app.kubernetes.io/component": "snapshot",
                "covey.dev/tenant-cluster-uid": cluster_uid },
            "annotations": { "covey.dev/volume-name": format!("snapshot-{uid}") } },
        "spec": { "source": { "persistentVolumeClaimName": "vol-pvc-gone" } },
    })
}

/// Makes one that came later, one that the tenant cluster of then knows, and what it knows of one that is gone.
async fn cut(site: &Site, ns: &str, cluster_uid: &str) -> Result<()> {
    for uid in ["late", "known"] {
        apply(&site.admin, &snapshot(ns, cluster_uid, uid)).await?;
    }
    for uid in ["known", "gone"] {
        let name = format!("snapcontent-{uid}");
        let path = format!("/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/{name}");
        let content = json!({
            "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
            "metadata": { "name": name },
            "spec": { "driver": "csi.covey.dev", "source": { "volumeHandle": "vol-pvc-gone" },
                "volumeSnapshotRef": { "namespace": "default", "name": uid, "uid": uid } },
            "status": { "snapshotHandle": format!("snap-snapshot-{uid}") },
        });
        ensure!(site.tenants.put(ns, &path, &content), "{uid} is not there");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_is_brought_back_in_place_and_what_came_later_is_on_no_member() -> Result<()>
{
    let Some(opened) = BackedUp::open("etcd-restore", &json!({})).await? else {
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
    let before = wait_whole(&site, None).await?;

    let clients = members(&site.admin, &ns, &played).await?;
    let write = async |name: &str, most: usize| {
        let notes = played.file(name);
        let writer = Writer::start(clients.clone(), &notes)?;
        ask_until("acknowledged writes", waiting::PATIENCE, || {
            let lines = std::fs::read_to_string(&notes).map_or(0, |text| text.lines().count());
            let enough = lines > most;
            std::future::ready(Ok(enough.then_some(()).ok_or_else(|| lines.to_string())))
        })
        .await?;
        writer.stop().await
    };
    let wanted = write("until", 20).await?;
    let revision = etcd::status(&clients[0]).await?.revision;
    let snapshot = save(&site, &ns, &played, &etcdctl).await?;
    // Everything of it again, and more: numbers go on where the first ended.
    let later = write("after", 2 * wanted.len()).await?;
    let later: BTreeSet<_> = later.difference(&wanted).copied().collect();
    ensure!(wanted.len() > 10 && !later.is_empty());
    let newest = etcd::status(&clients[0]).await?.revision;

    give_account(&site, &ns).await?;
    // Of a Service that came later.
    let balancer = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "lb-late", "namespace": ns,
            "labels": { "app.kubernetes.io/component": "load-balancer" } },
        "spec": { "ports": [{ "port": 80 }] },
    });
    apply(&site.admin, &balancer).await?;
    let uid = cluster.uid().context("it has no UID")?;
    for (name, attached) in VOLUMES {
        apply(&site.admin, &volume(&ns, &uid, name, attached)).await?;
    }
    cut(&site, &ns, &uid).await?;
    let balancers: Api<Service> = Api::namespaced(site.admin.clone(), &ns);
    let mark = async || -> Result<Option<String>> {
        let mut annotations = balancers.get("lb-late").await?.metadata.annotations;
        let annotations = annotations.get_or_insert_default();
        Ok(annotations.remove(ANNOTATION_KEPT_FOR_RESTORE))
    };
    let found = json!({
        "clusterUID": cluster.uid(), "clusterID": before.cluster_id, "replaces": before.cluster_id,
        "revision": revision,
        "bump": newest - revision + BUMP,
    });
    let restores: Api<Restore> = Api::namespaced(site.admin.clone(), &site.users);
    give_up(&site, &ns, &found).await?;
    ask_until("the data of before", PATIENCE, || async {
        let found = has_all(&clients[0], &later).await;
        Ok(found.map_err(|error| format!("{error:#}")))
    })
    .await?;
    let same = wait_whole(&site, None).await?;
    ensure!(same == before, "{same:?}");

    let volumes = played.volume("");
    let jobs = Jobs {
        client: site.admin.clone(),
        namespace: ns.clone(),
        volumes: volumes.clone(),
        snapshot,
        revision,
        etcdutl,
    };
    let jobs = jobs.start();
    ask(&site, "back", &found).await?;

    let after = wait_whole(&site, before.cluster_id.as_deref()).await?;
    let is_said = |restore: Option<&Restore>| {
        let object = serde_json::to_value(restore).unwrap_or_default();
        said(&object, "Restored") == ("True".to_owned(), Reason::Restored.as_str().to_owned())
    };
    wait_for(&restores, "back", is_said, PATIENCE).await?;
    for (seat, client) in clients.iter().enumerate() {
        let status = etcd::status(client).await?;
        ensure!(Some(&status.cluster_id) == after.cluster_id.as_ref());
        ensure!(Some(&status.member_id) == after.members[seat].id.as_ref());
        ensure!(status.revision > newest, "{status:?}");
        has_all(client, &wanted).await?;
        for write in &later {
            let one = [*write].into();
            ensure!(
                has_all(client, &one).await.is_err(),
                "{write} is on etcd-{seat}"
            );
        }
    }
    let kept = |member: &api::tenant_cluster::EtcdMemberStatus| {
        let volume = volumes.join(&member.volume_uid);
        let entries = std::fs::read_dir(volume).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.starts_with("covey-restore-"))
    };
    ensure!(after.members.iter().all(kept), "the data of before is gone");
    ensure!(after.members.len() == MEMBERS);
    let uid = restores.get("back").await?.uid();
    ensure!(uid.is_some() && mark().await? == uid, "it is swept");
    // Nobody runs who could say whether the tenant cluster knows it.
    told(
        &site,
        "back",
        "Orphans",
        ("Unknown", Reason::OrphansUnknown),
    )
    .await?;
    let found = ("True", Reason::VolumesFound);
    let back = told(&site, "back", "OrphanedVolumes", found).await?;
    let status = back.status.unwrap_or_default();
    let late = status
        .orphans
        .iter()
        .filter(|orphan| orphan.kind == "VolumeSnapshot");
    let late: Vec<_> = late.collect();
    ensure!(
        late.len() == 1 && late[0].name == "snap-snapshot-late",
        "{late:?}"
    );
    let gone = status
        .missing
        .iter()
        .map(|gone| (&gone.kind[..], &gone.name[..]));
    let gone: Vec<_> = gone.collect();
    ensure!(
        gone == [("VolumeSnapshotContent", "snapcontent-gone")],
        "{gone:?}"
    );
    operator.settle(&site, "demo").await?;

    let confirm = Patch::Merge(json!({ "spec": { "confirmed": true, "orphans": "Delete" } }));
    let params = PatchParams::default();
    restores.patch("back", &params, &confirm).await?;
    let is_free = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| status.restore.is_none()) && is_settled(cluster)
    };
    let clusters = site.clusters();
    wait_for(&clusters, "demo", |c| c.is_some_and(is_free), PATIENCE).await?;
    ensure!(
        !after.members.iter().any(kept),
        "the data of before is kept"
    );
    ensure!(mark().await?.is_none(), "it is kept for ever");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(site.admin.clone(), &ns);
    for (name, attached) in VOLUMES {
        let claim = claims.get_opt(name).await?;
        let stays = claim.is_some_and(|claim| claim.metadata.deletion_timestamp.is_none());
        ensure!(stays != attached.is_empty(), "{name} stays: {stays}");
    }
    let snapshots = site.objects(kinds::VOLUME_SNAPSHOT, &ns);
    ensure!(snapshots.get_opt("snap-snapshot-late").await?.is_none());
    ensure!(snapshots.get_opt("snap-snapshot-known").await?.is_some());
    let kept = ("True", Reason::VolumesKept);
    told(&site, "back", "OrphanedVolumes", kept).await?;
    has_all(&clients[0], &wanted).await?;
    operator.settle(&site, "demo").await?;
    jobs.abort();
    target.remove().await?;
    operator.stop().await
}
