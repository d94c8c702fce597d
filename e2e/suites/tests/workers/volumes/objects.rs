//! The objects of these tests, as users write them.

use serde_json::{Value, json};
use suites::scenario::stateful::{claim_spec, pod_spec};

/// A claim of the default class.
pub(super) fn claim(name: &str, mode: &str, size: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": claim_spec(mode, size),
    })
    .to_string()
}

/// A claim made of a VolumeSnapshot or another claim.
pub(super) fn copy_of(name: &str, kind: &str, source: &str) -> String {
    let mut spec = claim_spec("Filesystem", "128Mi");
    let mut from = json!({ "kind": kind, "name": source });
    if kind == "VolumeSnapshot" {
        from["apiGroup"] = json!("snapshot.storage.k8s.io");
    }
    spec["dataSource"] = from;
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": spec,
    })
    .to_string()
}

/// A VolumeSnapshot of the default class.
pub(super) fn snapshot(name: &str, claim: &str) -> String {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": { "name": name },
        "spec": { "source": { "persistentVolumeClaimName": claim } },
    })
    .to_string()
}

/// A pod with a claim at `/data`.
pub(super) fn pod(name: &str, claim: &str) -> String {
    let mut spec = pod_spec(volume(claim));
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "data", "mountPath": "/data" }]);
    object(name, &spec)
}

/// A pod with a claim as the device `/dev/data`.
pub(super) fn with_device(name: &str, claim: &str) -> String {
    let mut volumes = volume(claim);
    let tmp = json!({ "name": "tmp", "emptyDir": {} });
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(tmp);
    }
    let mut spec = pod_spec(volumes);
    // The device in the container is root's, whoever else the pod runs as.
    spec["securityContext"] = json!({ "runAsUser": 0 });
    spec["containers"][0]["volumeDevices"] = json!([{ "name": "data", "devicePath": "/dev/data" }]);
    spec["containers"][0]["volumeMounts"] = json!([{ "name": "tmp", "mountPath": "/tmp" }]);
    object(name, &spec)
}

fn object(name: &str, spec: &Value) -> String {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": spec })
        .to_string()
}

fn volume(claim: &str) -> Value {
    json!([{ "name": "data", "persistentVolumeClaim": { "claimName": claim } }])
}
