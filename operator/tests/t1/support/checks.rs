//! Plays the Jobs' controller and the kubelet for what checks BackupTargets: the very program runs, with the
//! arguments, Secrets and annotations of its pod, and says in the pod's status what it says.
//!
//! Invariant: it sees the Jobs of one namespace, runs each once, and does with it what Kubernetes would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use api::names;
use clap::Parser;
use etcd_agent::args::backup::BackupCommand;
use etcd_agent::args::{Args, Command};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::site::apply;

/// A running one; it ends when it is dropped.
pub(crate) struct Checks {
    task: JoinHandle<()>,
}

impl Checks {
    /// Starts to play in a namespace.
    pub(crate) fn start(client: &Client, namespace: &str) -> Self {
        let stage = Stage {
            client: client.clone(),
            namespace: namespace.to_owned(),
        };
        let task = tokio::spawn(async move {
            if let Err(error) = Box::pin(stage.play()).await {
                eprintln!("what plays checks ended: {error:#}");
            }
        });
        Self { task }
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Stage {
    client: Client,
    namespace: String,
}

impl Stage {
    async fn play(&self) -> Result<()> {
        // Elsewhere a controller makes it.
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": { "name": "default", "namespace": self.namespace },
        });
        apply(&self.client, &account).await?;
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().labels(names::LABEL_BACKUP_TARGET);
        let mut events = watcher::watcher(jobs, config).boxed();
        while let Some(event) = events.next().await {
            if let Event::Apply(job) | Event::InitApply(job) = event?
                && job.metadata.deletion_timestamp.is_none()
                && job.status.as_ref().is_none_or(|s| s.start_time.is_none())
            {
                // One that went meanwhile has no pod.
                if let Err(error) = Box::pin(self.carry_out(&job)).await {
                    eprintln!("{}: {error:#}", job.name_any());
                }
            }
        }
        Ok(())
    }

    async fn carry_out(&self, job: &Job) -> Result<()> {
        let pod = self.pod(job).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods.create(&PostParams::default(), &pod).await?;
        let (code, message) = self.run(&pod).await?;
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let status = json!({ "status": { "phase": phase, "containerStatuses": [{
            "name": "check", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": code, "message": message, "reason": "Error" } },
        }] } });
        let params = PatchParams::default();
        pods.patch_status(&pod.name_any(), &params, &Patch::Merge(status))
            .await?;
        let now = Timestamp::now().to_string();
        let condition = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": now, "lastProbeTime": now });
        let status = match code {
            0 => json!({
                "startTime": now, "completionTime": now, "succeeded": 1,
                "uncountedTerminatedPods": {},
                "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
            }),
            _ => json!({
                "startTime": now, "failed": 1, "uncountedTerminatedPods": {},
                "conditions": [condition("FailureTarget"), condition("Failed")],
            }),
        };
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), &self.namespace);
        let status = Patch::Merge(json!({ "status": status }));
        jobs.patch_status(&job.name_any(), &params, &status).await?;
        Ok(())
    }

    /// As the Jobs' controller makes it.
    async fn pod(&self, job: &Job) -> Result<Pod> {
        let spec = job.spec.as_ref().context("no spec")?;
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": spec.template.metadata, "spec": spec.template.spec,
        });
        let uid = job.uid().context("no UID")?;
        pod["metadata"]["generateName"] = json!(format!("{}-", job.name_any()));
        pod["metadata"]["labels"]["batch.kubernetes.io/controller-uid"] = json!(uid);
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "batch/v1", "kind": "Job", "name": job.name_any(), "uid": uid, "controller": true,
        }]);
        Ok(serde_json::from_value(pod)?)
    }

    /// Exit code and last word.
    async fn run(&self, pod: &Pod) -> Result<(i32, String)> {
        let folder = tempfile::tempdir()?;
        let paths = volumes(&self.client, &self.namespace, pod, folder.path()).await?;
        let log = folder.path().join("log");
        std::fs::write(&log, "")?;
        let here = |arg: &str| arg.replace("/dev/termination-log", &log.display().to_string());
        let command = command(pod, &paths, here)?;
        let code = match etcd_agent::backup::perform(command).await {
            Ok(()) => 0,
            Err(failure) => i32::from(failure.code()),
        };
        Ok((code, std::fs::read_to_string(&log)?))
    }
}

/// What a pod's container does with a backup, with the paths of here, and with what `here` changes besides.
pub(crate) fn command(
    pod: &Pod,
    paths: &BTreeMap<String, PathBuf>,
    here: impl Fn(&str) -> String,
) -> Result<BackupCommand> {
    let spec = pod.spec.as_ref().context("no spec")?;
    let container = spec.containers.first().context("no container")?;
    let args = container.args.iter().flatten().map(|arg| {
        let mut arg = here(arg);
        for (inside, outside) in paths {
            arg = arg.replace(inside.as_str(), &outside.display().to_string());
        }
        arg
    });
    let args = Args::try_parse_from(std::iter::once("etcd-agent".to_owned()).chain(args))?;
    match args.command {
        Command::Backup(args) => Ok(args.command),
        _ => anyhow::bail!("it is no backup"),
    }
}

/// Where what a pod mounts is here, by the path inside.
pub(crate) async fn volumes(
    client: &Client,
    namespace: &str,
    pod: &Pod,
    folder: &Path,
) -> Result<BTreeMap<String, PathBuf>> {
    let spec = pod.spec.as_ref().context("no spec")?;
    let container = spec.containers.first().context("no container")?;
    let mut paths = BTreeMap::new();
    for mount in container.volume_mounts.iter().flatten() {
        let mut volumes = spec.volumes.iter().flatten();
        // That of a token is the API server's own.
        let Some(volume) = volumes.find(|volume| volume.name == mount.name) else {
            continue;
        };
        let place = folder.join(&volume.name);
        std::fs::create_dir_all(&place)?;
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            files(client, namespace, name, &place).await?;
        }
        if volume.downward_api.is_some() {
            let bundle = pod.annotations().get("covey.dev/backup-ca-bundle");
            std::fs::write(place.join("ca.crt"), bundle.context("no annotation")?)?;
        }
        paths.insert(mount.mount_path.clone(), place);
    }
    Ok(paths)
}

/// Fields of a Secret as files; none where there is no such Secret.
pub(crate) async fn files(
    client: &Client,
    namespace: &str,
    name: &str,
    place: &Path,
) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = secrets.get_opt(name).await?;
    for (field, value) in secret.into_iter().flat_map(|s| s.data.unwrap_or_default()) {
        std::fs::write(place.join(field), value.0)?;
    }
    Ok(())
}

/// Makes a Secret, or changes it.
pub(crate) fn secret(namespace: &str, name: &str, fields: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "namespace": namespace },
        "stringData": fields,
    })
}
