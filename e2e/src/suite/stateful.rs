//! A pod that keeps what it wrote: a StatefulSet with a volume, as users would write it.
//!
//! Invariant: the pods satisfy Pod Security "restricted".

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    kubectl::Kubectl,
    workload::{HTTP, IMAGE, list},
};

/// A StatefulSet `web` of one pod with a volume at `/data`, and pods that leave a node which is not
/// ready after so many seconds instead of 300.
#[must_use]
pub fn stateful(leaves: Option<u64>) -> String {
    let mut spec = pod_spec(json!([]));
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
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
