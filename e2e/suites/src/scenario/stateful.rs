//! A pod that keeps what it wrote: a StatefulSet with a volume, as users would write it. A second
//! container writes records all the time, and says of each that it is on the disk.
//!
//! Invariant: the pods satisfy Pod Security "restricted"; a record counts as written only after fsync.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::{
    kubectl::Kubectl,
    workload::{HTTP, IMAGE, list},
};

/// A record a second, each a file of its own with the number of the file as its name. One that was
/// begun before is never written again.
const WRITER: &str = "mkdir -p /data/records && cd /data/records && n=$(ls | wc -l) && \
    while :; do n=$((n+1)); \
    dd if=/dev/urandom of=$n bs=4096 count=1 conv=fsync 2>/dev/null && sha256sum $n; \
    sleep 1; done";

/// Records by their names, with their SHA-256.
pub type Records = BTreeMap<String, String>;

/// The records that the pod that runs now said it has written.
///
/// # Errors
/// When the tenant's API or the node does not answer.
pub async fn written(kubectl: &Kubectl, patience: Duration) -> Result<Records> {
    let logs = kubectl.run_within(patience, &["logs", "web-0"]).await?;
    Ok(records(&logs))
}

/// All of these are on the volume, as they were written.
///
/// # Errors
/// When one is missing or has other content.
pub async fn kept(kubectl: &Kubectl, patience: Duration, written: &Records) -> Result<()> {
    ensure!(!written.is_empty(), "nothing was written");
    let read = "cd /data/records && sha256sum *";
    let exec = [
        "exec",
        "web-0",
        "--container",
        "testserver",
        "--",
        "sh",
        "-c",
        read,
    ];
    let found = records(&kubectl.run_within(patience, &exec).await?);
    let lost: Vec<_> = written
        .iter()
        .filter(|(name, sum)| found.get(*name) != Some(sum))
        .collect();
    ensure!(
        lost.is_empty(),
        "{} of {} records are lost: {lost:?}",
        lost.len(),
        written.len()
    );
    Ok(())
}

fn records(text: &str) -> Records {
    let line = |line: &str| {
        let (sum, name) = line.split_once("  ")?;
        (sum.len() == 64).then(|| (name.to_owned(), sum.to_owned()))
    };
    text.lines().filter_map(line).collect()
}

/// A StatefulSet `web` of one pod with a volume at `/data`, and pods that leave a node which is not
/// ready after so many seconds instead of 300.
#[must_use]
pub fn stateful(leaves: Option<u64>) -> String {
    let mut spec = pod_spec(json!([]));
    let mount = json!([{ "name": "data", "mountPath": "/data" }]);
    spec["containers"][0]["volumeMounts"] = mount;
    // In one container: each more costs an emulated processor seconds.
    let both = format!("({WRITER}) & exec /testserver web");
    spec["containers"][0]["command"] = json!(["sh", "-c", both]);
    if let Some(container) = spec["containers"][0].as_object_mut() {
        container.remove("args");
    }
    if let Some(seconds) = leaves {
        let leave = |key: &str| {
            json!({
                "key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": seconds,
            })
        };
        spec["tolerations"] = json!([leave("not-ready"), leave("unreachable")]);
    }
    let labels = json!({ "app": "web" });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "clusterIP": "None", "selector": labels, "ports": [{ "port": HTTP }] },
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "web" },
        "spec": {
            "serviceName": "web", "replicas": 1, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec },
            "volumeClaimTemplates": [{
                "metadata": { "name": "data" }, "spec": claim_spec("Filesystem", "64Mi"),
            }],
        },
    });
    list(&[service, set])
}

/// Waits until the set's pod is ready, on any node or on any `but` this one. Gives its node.
///
/// # Errors
/// When that takes longer than `patience`.
pub async fn ready(kubectl: &Kubectl, patience: Duration, but: Option<&str>) -> Result<String> {
    let path = r#"jsonpath={.spec.nodeName} {.status.conditions[?(@.type=="Ready")].status}"#;
    let get = ["get", "pod", "web-0", "-o", path];
    let node = |text: &str| {
        let (node, ready) = text.split_once(' ')?;
        let right = ready == "True" && !node.is_empty() && Some(node) != but;
        right.then(|| node.to_owned())
    };
    let text = kubectl.until(patience, &get, |text| node(text).is_some());
    Ok(node(&text.await?).unwrap_or_default())
}

/// What a claim of the default class asks for, of `volumeMode` Filesystem or Block.
#[must_use]
pub fn claim_spec(mode: &str, size: &str) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"], "volumeMode": mode,
        "resources": { "requests": { "storage": size } },
    })
}

/// A testserver that is not root, so that the volume's group (`fsGroup`) is needed to write.
#[must_use]
pub fn pod_spec(volumes: Value) -> Value {
    json!({
        "terminationGracePeriodSeconds": 3, "automountServiceAccountToken": false,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [{
            "name": "testserver", "image": IMAGE, "args": ["web"],
            "readinessProbe": {
                "httpGet": { "path": "/ready", "port": HTTP }, "periodSeconds": 1, "timeoutSeconds": 5,
            },
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": { "drop": ["ALL"] },
            },
        }],
        "volumes": volumes,
    })
}
