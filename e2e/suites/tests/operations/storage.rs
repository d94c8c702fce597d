//! Needs: lab-agent
//!
//! The lab's own block storage does what tenants of it are promised: a claim is bound, grows while it
//! is in use, and has the same bytes after a snapshot and its restoration, and in a clone.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, LogParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
    runtime::wait::await_condition,
};
use serde_json::{Value, json};
use suites::{
    cluster::wait::{wait_for, wait_gone},
    scenario::{self, Scenario},
};
use tokio::time::timeout;

const CLASS: &str = "lab-block";
const IMAGE: &str = "ghcr.io/covey-dev/testbox:1";
const PATIENCE: Duration = Duration::from_secs(90);
/// Prints the hash of what the tests write.
const HASH: &str = "dd if=/dev/disk bs=1M count=8 2>/dev/null | sha256sum";

#[tokio::test]
async fn block_volumes_grow_are_snapshotted_restored_and_cloned() {
    scenario::run("storage", storage).await;
}

async fn storage(s: &Scenario) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(s.client().clone(), &s.namespace);
    let made = claim("one", "64Mi", &Value::Null)?;
    claims.create(&PostParams::default(), &made).await?;
    let volume = bound(&claims, "one", "64Mi").await?;
    let write =
        format!("dd if=/dev/urandom of=/dev/disk bs=1M count=8 conv=fsync 2>/dev/null && {HASH}");
    let written = run(s, "write", "one", &write).await?;

    grow(s, &claims).await?;

    let snapshots = GroupVersionKind::gvk("snapshot.storage.k8s.io", "v1", "VolumeSnapshot");
    let snapshots = ApiResource::from_gvk(&snapshots);
    let snapshots: Api<DynamicObject> =
        Api::namespaced_with(s.client().clone(), &s.namespace, &snapshots);
    let snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": { "name": "cut" },
        "spec": {
            "volumeSnapshotClassName": CLASS,
            "source": { "persistentVolumeClaimName": "one" },
        },
    });
    let snapshot: DynamicObject = serde_json::from_value(snapshot)?;
    snapshots.create(&PostParams::default(), &snapshot).await?;
    let ready = |snapshot: Option<&DynamicObject>| {
        snapshot.is_some_and(|snapshot| snapshot.data["status"]["readyToUse"] == true)
    };
    timeout(PATIENCE, await_condition(snapshots.clone(), "cut", ready))
        .await
        .context("the snapshot cannot be used")??;

    let overwrite =
        format!("dd if=/dev/zero of=/dev/disk bs=1M count=8 conv=fsync 2>/dev/null && {HASH}");
    let overwritten = run(s, "overwrite", "one", &overwrite).await?;
    ensure!(overwritten != written, "nothing was overwritten");
    let of_snapshot = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "cut",
    });
    let of_claim = json!({ "kind": "PersistentVolumeClaim", "name": "one" });
    for (name, source, expected) in [
        ("restored", of_snapshot, &written),
        ("cloned", of_claim, &overwritten),
    ] {
        let made = claim(name, "128Mi", &source)?;
        claims.create(&PostParams::default(), &made).await?;
        bound(&claims, name, "128Mi").await?;
        let read = run(s, &format!("read-{name}"), name, HASH).await?;
        ensure!(read == *expected, "{name}: {read} instead of {expected}");
    }

    snapshots.delete("cut", &DeleteParams::default()).await?;
    for name in ["restored", "cloned", "one"] {
        claims.delete(name, &DeleteParams::default()).await?;
    }
    let volumes: Api<PersistentVolume> = Api::all(s.client().clone());
    wait_gone(&volumes, &volume, None, PATIENCE).await
}

/// A pod that has the disk all the while sees it grow.
async fn grow(s: &Scenario, claims: &Api<PersistentVolumeClaim>) -> Result<()> {
    let wait = "until [ $(blockdev --getsize64 /dev/disk) -ge 134217728 ]; do sleep 1; done";
    start(s, "grow", "one", wait).await?;
    let pods: Api<Pod> = Api::namespaced(s.client().clone(), &s.namespace);
    wait_for(&pods, "grow", "runs", PATIENCE, |pod| {
        (pod.status.as_ref()?.phase.as_deref()? == "Running").then_some(())
    })
    .await?;
    let larger = json!({ "spec": { "resources": { "requests": { "storage": "128Mi" } } } });
    claims
        .patch("one", &PatchParams::default(), &Patch::Merge(&larger))
        .await?;
    end(s, "grow").await?;
    bound(claims, "one", "128Mi").await.map(drop)
}

fn claim(name: &str, size: &str, source: &Value) -> Result<PersistentVolumeClaim> {
    Ok(serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "storageClassName": CLASS,
            "resources": { "requests": { "storage": size } },
            "dataSource": source,
        },
    }))?)
}

/// Waits until a claim has a volume of this size, and says which.
async fn bound(claims: &Api<PersistentVolumeClaim>, name: &str, size: &str) -> Result<String> {
    let expected = BTreeMap::from([("storage".to_owned(), Quantity(size.to_owned()))]);
    wait_for(claims, name, "is bound", PATIENCE, |claim| {
        let status = claim.status.as_ref()?;
        let has = status.phase.as_deref()? == "Bound" && status.capacity.as_ref()? == &expected;
        has.then(|| claim.spec.as_ref()?.volume_name.clone())?
    })
    .await
}

async fn run(s: &Scenario, name: &str, claim: &str, script: &str) -> Result<String> {
    start(s, name, claim, script).await?;
    end(s, name).await
}

/// Starts a pod with the claim's disk as /dev/disk.
async fn start(s: &Scenario, name: &str, claim: &str, script: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(s.client().clone(), &s.namespace);
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "testbox", "image": IMAGE, "command": ["sh", "-c", script],
                // The device is root's.
                "securityContext": { "runAsUser": 0 },
                "volumeDevices": [{ "name": "disk", "devicePath": "/dev/disk" }],
            }],
            "volumes": [{ "name": "disk", "persistentVolumeClaim": { "claimName": claim } }],
        },
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    Ok(())
}

/// Waits for the end of a pod's script, says what it printed, and removes the pod.
async fn end(s: &Scenario, name: &str) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(s.client().clone(), &s.namespace);
    let phase = wait_for(&pods, name, "its script ends", PATIENCE, |pod| {
        let phase = pod.status.as_ref()?.phase.clone()?;
        matches!(phase.as_str(), "Succeeded" | "Failed").then_some(phase)
    })
    .await?;
    let log = pods.logs(name, &LogParams::default()).await;
    let log = log.context("read the pod's log")?;
    ensure!(phase == "Succeeded", "{name}: {log}");
    let now = DeleteParams::default().grace_period(0);
    pods.delete(name, &now).await?;
    wait_gone(&pods, name, None, PATIENCE).await?;
    Ok(log)
}
