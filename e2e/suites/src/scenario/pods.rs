//! Commands run in a pod of the lab's testbox image, to see the network as pods see it.
//!
//! Invariant: such a pod satisfies Pod Security "restricted", has no service account token, and
//! never becomes Ready, so that no Service sends anything to it whatever labels it has.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, LogParams, PostParams},
};
use serde_json::json;

use crate::cluster::{suffix, wait::wait_for};

const IMAGE: &str = "ghcr.io/covey-dev/testbox:1";
const PATIENCE: Duration = Duration::from_secs(90);
/// Where [`Command::secret`] is mounted.
pub const SECRET_DIR: &str = "/secret";

/// Address and port.
pub type Target = (String, u16);

/// What is run.
#[derive(Clone, Debug, Default)]
pub struct Command {
    /// Labels of the pod, which decide what NetworkPolicies say about it.
    pub labels: BTreeMap<String, String>,
    /// For `sh`.
    pub script: String,
    /// A Secret of the namespace to mount at [`SECRET_DIR`].
    pub secret: Option<String>,
}

/// How it ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Whether the script ended with 0.
    pub succeeded: bool,
    /// What it printed.
    pub log: String,
}

/// Makes the pod, which is there until its namespace goes, and gives its name.
///
/// # Errors
/// When the pod cannot be made.
pub async fn start(client: &Client, namespace: &str, command: &Command) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let name = format!("testbox-{}", suffix());
    let mut volumes = vec![json!({ "name": "tmp", "emptyDir": {} })];
    let mut mounts = vec![json!({ "name": "tmp", "mountPath": "/tmp" })];
    if let Some(secret) = &command.secret {
        let secret = json!({ "secretName": secret, "defaultMode": 0o440 });
        volumes.push(json!({ "name": "secret", "secret": secret }));
        mounts.push(json!({ "name": "secret", "mountPath": SECRET_DIR, "readOnly": true }));
    }
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name, "labels": command.labels },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": 1,
            "readinessGates": [{ "conditionType": "covey.dev/never" }],
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "testbox", "image": IMAGE, "command": ["sh", "-c", command.script],
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
                "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    }))?;
    pods.create(&PostParams::default(), &pod)
        .await
        .context("create a testbox pod")?;
    Ok(name)
}

/// Runs a script in a pod and removes the pod.
///
/// # Errors
/// When the pod cannot be made or does not end.
pub async fn run(client: &Client, namespace: &str, command: Command) -> Result<Outcome> {
    let name = start(client, namespace, &command).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let phase = wait_for(&pods, &name, "its script ends", PATIENCE, |pod| {
        let phase = pod.status.as_ref()?.phase.clone()?;
        matches!(phase.as_str(), "Succeeded" | "Failed").then_some(phase)
    })
    .await?;
    let log = pods
        .logs(&name, &LogParams::default())
        .await
        .context("read the testbox's log")?;
    pods.delete(&name, &DeleteParams::background().grace_period(0))
        .await?;
    Ok(Outcome {
        succeeded: phase == "Succeeded",
        log,
    })
}

/// Labels of a pod of one part of the control plane, by the public label.
#[must_use]
pub fn component(name: &str) -> BTreeMap<String, String> {
    [(api::names::LABEL_COMPONENT.to_owned(), name.to_owned())].into()
}

/// A script that prints `reached <address> <port>` or `blocked <address> <port> <why>` per target.
/// "Connection refused" is `open`: no policy stood in the way, only nobody listened.
#[must_use]
pub fn probe(targets: &[Target]) -> String {
    let mut script = String::new();
    for (address, port) in targets {
        script += &format!(
            "if why=$(nc -w 3 {address} {port} -e true </dev/null 2>&1); then echo reached {address} \
             {port}; else case $why in *refused*) echo open {address} {port};; *) echo blocked \
             {address} {port} $why;; esac; fi\n"
        );
    }
    script
}

/// What [`probe`] found out about one target.
#[must_use]
pub fn found(log: &str, what: &str, target: &Target) -> bool {
    let wanted = format!("{what} {} {}", target.0, target.1);
    log.lines()
        .any(|line| line == wanted || line.starts_with(&format!("{wanted} ")))
}

/// What [`probe`] finds out from a pod of this part ([`component`]).
///
/// # Errors
/// As [`run`].
pub async fn probe_from(
    client: &Client,
    namespace: &str,
    part: &str,
    targets: &[Target],
) -> Result<String> {
    let command = Command {
        labels: component(part),
        script: probe(targets),
        secret: None,
    };
    Ok(run(client, namespace, command).await?.log)
}

/// That a policy kept `who` from all of them.
///
/// # Errors
/// Names the first that it did not.
pub fn ensure_blocked(log: &str, targets: &[Target], who: &str) -> Result<()> {
    for target in targets {
        ensure!(
            found(log, "blocked", target),
            "{who} is not kept from {target:?}:\n{log}"
        );
    }
    Ok(())
}

/// That no policy kept `who` from any of them, whether or not somebody listened.
///
/// # Errors
/// Names the first from which one did.
pub fn ensure_let_in(log: &str, targets: &[Target], who: &str) -> Result<()> {
    for target in targets {
        ensure!(
            !found(log, "blocked", target),
            "{who} is kept from {target:?}:\n{log}"
        );
    }
    Ok(())
}

/// Address of one of the pods that the selector finds and that are not going.
///
/// # Errors
/// When there is none.
pub async fn address(client: &Client, namespace: &str, selector: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = pods.list(&ListParams::default().labels(selector)).await?;
    let running = pods
        .items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut addresses = running.filter_map(|pod| pod.status?.pod_ip);
    let address = addresses.next();
    address.with_context(|| format!("no pod {selector} of {namespace} has an address"))
}
