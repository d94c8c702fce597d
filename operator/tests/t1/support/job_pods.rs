//! Pods of Jobs that no kubelet runs: what becomes of them here, and the programs of their containers.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser as _;
use etcd_agent::args::{Args, Command as Agent};
use etcd_agent::backup::perform;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// Makes a pod of a template, as the controller of `owner` would.
pub(crate) async fn of_template(
    client: &Client,
    namespace: &str,
    owner: &str,
    template: &Value,
) -> Result<Pod> {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": template["metadata"], "spec": template["spec"],
    });
    pod["metadata"]["generateName"] = json!(format!("{owner}-"));
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pod = serde_json::from_value(pod)?;
    Ok(pods.create(&PostParams::default(), &pod).await?)
}

/// Makes the pod of a Job.
pub(crate) async fn make(client: &Client, job: &Job, template: &Value) -> Result<Pod> {
    let namespace = job.namespace().context("no namespace")?;
    let mut template = template.clone();
    template["metadata"]["labels"]["batch.kubernetes.io/job-name"] = json!(job.name_any());
    of_template(client, &namespace, &job.name_any(), &template).await
}

/// Its pod says what it said, and the Job that it is over.
pub(crate) async fn end(
    client: &Client,
    job: &Job,
    pod: &Pod,
    last: &Value,
    message: &str,
) -> Result<()> {
    let namespace = job.namespace().context("no namespace")?;
    let status = json!({ "status": { "phase": "Succeeded", "containerStatuses": [{
        "name": last["name"], "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 0, "message": message, "reason": "Completed" } },
    }] } });
    let params = PatchParams::default();
    let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
    pods.patch_status(&pod.name_any(), &params, &Patch::Merge(status))
        .await?;
    let now = Timestamp::now().to_string();
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "lastTransitionTime": now, "lastProbeTime": now });
    let status = json!({ "status": {
        "startTime": now, "completionTime": now, "succeeded": 1, "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    } });
    let jobs = Api::<Job>::namespaced(client.clone(), &namespace);
    jobs.patch_status(&job.name_any(), &params, &Patch::Merge(status))
        .await?;
    Ok(())
}

/// Runs `etcd-agent backup` with these arguments, in this process.
pub(crate) async fn etcd_agent_backup(args: impl IntoIterator<Item = String>) -> Result<()> {
    let args = Args::try_parse_from(std::iter::once("etcd-agent".to_owned()).chain(args))?;
    let Agent::Backup(args) = args.command else {
        bail!("it is no backup");
    };
    let done = perform(args.command).await;
    done.map_err(|failure| anyhow::anyhow!("{}", failure.said().to_owned()))
}

/// Runs `etcdutl snapshot restore` with these arguments.
pub(crate) fn restore_snapshot(program: &Path, args: &[String]) -> Result<()> {
    let output = Command::new(program)
        .args(["snapshot", "restore"])
        .args(args)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "etcdutl: {said}");
    Ok(())
}
