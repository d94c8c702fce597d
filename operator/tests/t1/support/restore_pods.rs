//! Plays the Deployment `backup` and the Jobs of a restore: the very program runs, and programs of etcd beside it, one
//! container after the other, with the arguments and Secrets of their pods.
//!
//! Invariant: what is changed of them for the test are addresses and folders, and nothing else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use etcd_agent::args::{Args, Command as Agent};
use etcd_agent::backup::perform;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::ports::unused;
use testkit::process::Process;
use tokio::task::JoinHandle;

use super::checks::volumes;
use super::job_pods::{self, etcd_agent_backup, restore_snapshot};

const LOOK: Duration = Duration::from_millis(250);

/// Plays the Deployment `backup` and the Jobs of a restore in one tenant namespace.
pub(crate) struct RestorePods {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Where the process of the Deployment answers: another port for each, because the one before may still have its own.
    pub(crate) status: Arc<AtomicU16>,
    /// Where members of etcd have their volumes, and where each of them serves.
    pub(crate) volumes: PathBuf,
    pub(crate) etcd: Vec<String>,
    pub(crate) programs: [PathBuf; 2],
    pub(crate) runs: Option<Runs>,
}

/// The process of the Deployment, in this one.
pub(crate) struct Runs {
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
pub(crate) struct Playing(JoinHandle<()>);

impl Drop for Playing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RestorePods {
    pub(crate) fn start(mut self) -> Playing {
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
                Box::pin(self.carry_out(&job)).await?;
            }
        }
        Ok(())
    }

    async fn run(&self, template: Value) -> Result<Runs> {
        let pod = job_pods::of_template(&self.client, &self.namespace, "backup", &template).await?;
        let folder = tempfile::tempdir()?;
        let paths = volumes(&self.client, &self.namespace, &pod, folder.path()).await?;
        let container = &template["spec"]["containers"][0];
        let port = unused()?;
        self.status.store(port, Ordering::Relaxed);
        let args = arguments(container).into_iter().map(|mut arg| {
            for (seat, served) in self.etcd.iter().enumerate() {
                arg = arg.replace(&format!("https://etcd-{seat}:2379"), served);
            }
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
        // Secrets are mounted by the one that has the most.
        let mut first = template.clone();
        let mounts = |container: &Value| container["volumeMounts"].as_array().map_or(0, Vec::len);
        let of_pod = all("initContainers").into_iter().chain(all("containers"));
        if let Some(reader) = of_pod.max_by_key(mounts) {
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
        let (client, peer) = (unused()?, unused()?);
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
                None => etcd_agent_backup(args).await?,
                Some("etcd") => {
                    serves = Some(Process::spawn(
                        "etcd",
                        etcd,
                        &args,
                        &scratch.path().join("etcd.log"),
                    )?);
                }
                Some(_) => restore_snapshot(etcdutl, &args)?,
            }
        }
        drop(serves);
        let last = all("containers").first().cloned().context("no container")?;
        let pod = job_pods::make(&self.client, job, template).await?;
        let said = std::fs::read_to_string(&log)?;
        job_pods::end(&self.client, job, &pod, &last, &said).await
    }
}

fn arguments(container: &Value) -> Vec<String> {
    let args = container["args"].as_array().into_iter().flatten();
    args.filter_map(Value::as_str).map(str::to_owned).collect()
}
