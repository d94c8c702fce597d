//! Needs: operator, ccm, csi, vm, lab-agent
//!
//! Volumes of a tenant cluster on real machines: what a pod wrote is there for the next one, on any
//! node; volumes grow in use, are snapshotted and copied; a block device is one; and they follow
//! when a machine dies.
//!
//! Invariant: what is read back is compared with what was written by its SHA-256, after a sync.

mod death;
mod objects;
mod outage;
mod sidecars;

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use suites::scenario::{
    self, Scenario,
    kubectl::Kubectl,
    stateful::stateful,
    workers::{NODES, PODS, Workers},
};

use objects::{claim, copy_of, pod, snapshot, with_device};

/// Where pods have their volume.
const FILE: &str = "/data/file";

#[tokio::test]
async fn volumes_keep_what_was_written_grow_are_copied_and_move() {
    scenario::run("volumes", volumes).await;
}

async fn volumes(s: &Scenario) -> Result<()> {
    let workers = two_nodes(s).await?;
    let kubectl = &workers.kubectl;
    kubectl.apply(&stateful(None)).await?;
    ready(kubectl, "web-0").await?;
    let sum = write(kubectl, "web-0").await?;

    sidecars::killed(s, &workers).await?;
    grows(kubectl).await?;
    let sum = copies(kubectl, &sum).await?;
    block_device(kubectl).await?;
    moves(kubectl, &sum).await?;
    refused(kubectl).await?;
    waits(kubectl).await?;
    zones(kubectl).await
}

/// What a pod wrote is there for the next one. The claim is left behind.
pub(crate) async fn next_pod_reads_it(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&claim("kept", "Filesystem", "64Mi")).await?;
    kubectl.apply(&pod("first", "kept")).await?;
    ready(kubectl, "first").await?;
    let expected = write(kubectl, "first").await?;
    kubectl
        .run_within(PODS, &["delete", "pod", "first"])
        .await?;
    kubectl.apply(&pod("second", "kept")).await?;
    ready(kubectl, "second").await?;
    reads(kubectl, "second", &expected).await
}

/// A tenant cluster with the addon `csi` and two nodes.
pub(super) async fn two_nodes(s: &Scenario) -> Result<Workers> {
    let workers = s
        .workers(|cluster, nodes| {
            cluster.addons.cloud_controller.enabled = true;
            cluster.addons.csi.enabled = true;
            // Nobody asks for names here, and two processors are all that there are.
            cluster.addons.core_dns.enabled = false;
            nodes.replicas = 2;
            if let Some(kubevirt) = nodes.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
                kubevirt.cpu = 1;
            }
        })
        .await?;
    workers.pool.settled(2, NODES).await?;
    workers.tenant.settled(PODS).await?;
    Ok(workers)
}

/// Waits for a pod to be ready.
pub(super) async fn ready(kubectl: &Kubectl, pod: &str) -> Result<()> {
    let path = r#"jsonpath={.status.conditions[?(@.type=="Ready")].status}"#;
    let get = ["get", "pod", pod, "-o", path];
    let ready = kubectl.until(PODS, &get, |text| text == "True").await;
    ready
        .map(drop)
        .with_context(|| format!("pod {pod} is not ready"))
}

/// Has a pod run a command.
async fn shell(kubectl: &Kubectl, pod: &str, command: &str) -> Result<String> {
    let exec = ["exec", pod, "--", "sh", "-c", command];
    let said = kubectl.run_within(PODS, &exec).await?;
    Ok(said.trim().to_owned())
}

/// Writes 8 MiB of chance to the pod's volume, all the way to the disk; the sum of it.
async fn write(kubectl: &Kubectl, pod: &str) -> Result<String> {
    let command = format!("dd if=/dev/urandom of={FILE} bs=64k count=128 2>/dev/null && sync");
    shell(kubectl, pod, &command).await?;
    sum(kubectl, pod).await
}

/// The sum of what is on the pod's volume, read from the disk.
async fn sum(kubectl: &Kubectl, pod: &str) -> Result<String> {
    let said = shell(kubectl, pod, &format!("sha256sum {FILE}")).await?;
    let sum = said.split_whitespace().next().unwrap_or_default();
    ensure!(sum.len() == 64, "sha256sum said {said:?}");
    Ok(sum.to_owned())
}

/// A pod's volume has what was written.
async fn reads(kubectl: &Kubectl, pod: &str, expected: &str) -> Result<()> {
    let found = sum(kubectl, pod).await?;
    ensure!(found == expected, "{pod} has {found}, not {expected}");
    Ok(())
}

/// Waits for an Event about an object, of this reason, whose message has these words.
async fn told(kubectl: &Kubectl, object: &str, reason: &str, words: &str) -> Result<()> {
    let field = format!("--field-selector=involvedObject.name={object},reason={reason}");
    let path = "jsonpath={.items[*].message}";
    let get = ["get", "events", &field, "-o", path];
    let said = kubectl.until(PODS, &get, |text| text.contains(words));
    said.await.map(drop)
}

/// The node that a pod is on.
pub(super) async fn node_of(kubectl: &Kubectl, pod: &str) -> Result<String> {
    let get = ["get", "pod", pod, "-o", "jsonpath={.spec.nodeName}"];
    kubectl.run(&get).await
}

/// The claim grows while the pod goes on, and the pod has the room.
async fn grows(kubectl: &Kubectl) -> Result<()> {
    let more = r#"{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}"#;
    let patch = ["patch", "pvc", "data-web-0", "-p", more];
    kubectl.run(&patch).await?;
    let path = "jsonpath={.status.capacity.storage}";
    let get = ["get", "pvc", "data-web-0", "-o", path];
    kubectl.until(PODS, &get, |text| text == "128Mi").await?;
    let room = "df -k /data | tail -n 1 | awk '{print $2}'";
    let room: u64 = shell(kubectl, "web-0", room).await?.parse()?;
    ensure!(room > 100 * 1024, "the filesystem has {room} KiB");
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    let get = ["get", "pod", "web-0", "-o", restarts];
    ensure!(kubectl.run(&get).await? == "0", "the pod was restarted");
    Ok(())
}

/// A snapshot keeps what was there, although the volume changes; a volume made of it has that, and a
/// copy of the volume what there is now. Gives the sum of the latter.
async fn copies(kubectl: &Kubectl, expected: &str) -> Result<String> {
    kubectl.apply(&snapshot("before", "data-web-0")).await?;
    let path = "jsonpath={.status.readyToUse}";
    let get = ["get", "volumesnapshot", "before", "-o", path];
    kubectl.until(PODS, &get, |text| text == "true").await?;
    let changed = write(kubectl, "web-0").await?;
    ensure!(changed != expected, "the second content is the first one");

    kubectl
        .apply(&copy_of("restored", "VolumeSnapshot", "before"))
        .await?;
    kubectl
        .apply(&copy_of("copied", "PersistentVolumeClaim", "data-web-0"))
        .await?;
    for (name, expected) in [("restored", expected), ("copied", changed.as_str())] {
        kubectl.apply(&pod(name, name)).await?;
        ready(kubectl, name).await?;
        reads(kubectl, name, expected).await?;
    }
    for name in ["restored", "copied"] {
        kubectl.run_within(PODS, &["delete", "pod", name]).await?;
        kubectl.run_within(PODS, &["delete", "pvc", name]).await?;
    }
    let delete = ["delete", "volumesnapshot", "before"];
    kubectl.run_within(PODS, &delete).await?;
    Ok(changed)
}

/// A claim of mode Block is a device in the pod.
async fn block_device(kubectl: &Kubectl) -> Result<()> {
    kubectl.apply(&claim("raw", "Block", "64Mi")).await?;
    kubectl.apply(&with_device("raw", "raw")).await?;
    ready(kubectl, "raw").await?;
    let command = "test -b /dev/data && dd if=/dev/urandom of=/tmp/content bs=64k count=16 2>/dev/null \
                   && dd if=/tmp/content of=/dev/data bs=64k conv=fsync 2>/dev/null \
                   && sha256sum < /tmp/content && head -c 1048576 /dev/data | sha256sum";
    let said = shell(kubectl, "raw", command).await?;
    let sums: BTreeSet<_> = said
        .split_whitespace()
        .filter(|word| *word != "-")
        .collect();
    ensure!(
        sums.len() == 1,
        "the device gave back something else: {said}"
    );
    removed(kubectl, "raw").await?;
    // The lab's class is said to be zeroed (docs/csi.md): what was written there is not shown again.
    kubectl.apply(&claim("fresh", "Block", "64Mi")).await?;
    kubectl.apply(&with_device("fresh", "fresh")).await?;
    ready(kubectl, "fresh").await?;
    let count = r"head -c 1048576 /dev/data | tr -d '\000' | wc -c";
    let said = shell(kubectl, "fresh", count).await?;
    ensure!(said.trim() == "0", "a new device shows {said} bytes");
    removed(kubectl, "fresh").await
}

/// Deletes a pod and the claim of its name.
async fn removed(kubectl: &Kubectl, name: &str) -> Result<()> {
    kubectl.run_within(PODS, &["delete", "pod", name]).await?;
    let delete = ["delete", "pvc", name];
    kubectl.run_within(PODS, &delete).await.map(drop)
}

/// The next pod is on the other node, and has what the first one wrote.
async fn moves(kubectl: &Kubectl, expected: &str) -> Result<()> {
    let before = node_of(kubectl, "web-0").await?;
    kubectl.run(&["cordon", &before]).await?;
    kubectl
        .run_within(PODS, &["delete", "pod", "web-0"])
        .await?;
    ready(kubectl, "web-0").await?;
    let after = node_of(kubectl, "web-0").await?;
    ensure!(before != after, "the pod stayed on {before}");
    reads(kubectl, "web-0", expected).await?;
    kubectl.run(&["uncordon", &before]).await.map(drop)
}

/// What cannot be had is said where its user looks: in Events of the claim.
async fn refused(kubectl: &Kubectl) -> Result<()> {
    let mut many: serde_json::Value = serde_json::from_str(&claim("many", "Filesystem", "64Mi"))?;
    many["spec"]["accessModes"] = serde_json::json!(["ReadWriteMany"]);
    kubectl.apply(&many.to_string()).await?;
    let said = told(kubectl, "many", "ProvisioningFailed", "use ReadWriteOnce").await;
    said.context("the claim is not told why it has no volume")?;
    kubectl
        .run_within(PODS, &["delete", "pvc", "many"])
        .await
        .map(drop)
}

/// Of a class that waits for its first pod the scheduler asks how much there is, and takes no answer
/// for nothing: where no quota says, there is room.
async fn waits(kubectl: &Kubectl) -> Result<()> {
    let class = serde_json::json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": { "name": "waits" },
        "provisioner": "csi.covey.dev", "parameters": { "class": "block" },
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    kubectl.apply(&class.to_string()).await?;
    let mut late: serde_json::Value = serde_json::from_str(&claim("late", "Filesystem", "64Mi"))?;
    late["spec"]["storageClassName"] = "waits".into();
    kubectl.apply(&late.to_string()).await?;
    kubectl.apply(&pod("late", "late")).await?;
    ready(kubectl, "late").await?;
    let path = "jsonpath={.items[?(@.storageClassName==\"waits\")].capacity}";
    let get = [
        "get",
        "csistoragecapacities",
        "-n",
        "kube-system",
        "-o",
        path,
    ];
    let published = kubectl.run(&get).await?;
    ensure!(!published.trim().is_empty(), "no capacity is published");
    removed(kubectl, "late").await?;
    let delete = ["delete", "storageclass", "waits"];
    kubectl.run_within(PODS, &delete).await.map(drop)
}

/// A volume says in which zone it is, and the scheduler heeds it: a pod whose volume is in a zone
/// without nodes waits, and its Event says for what.
async fn zones(kubectl: &Kubectl) -> Result<()> {
    ensure!(zone_of(kubectl, "data-web-0").await? == lab::ZONE);
    let mut far: serde_json::Value = serde_json::from_str(&claim("far", "Filesystem", "64Mi"))?;
    far["spec"]["storageClassName"] = "far".into();
    kubectl.apply(&far.to_string()).await?;
    let get = ["get", "pvc", "far", "-o", "jsonpath={.status.phase}"];
    kubectl.until(PODS, &get, |text| text == "Bound").await?;
    let zone = zone_of(kubectl, "far").await?;
    ensure!(zone != lab::ZONE, "the volume is in {zone}");
    kubectl.apply(&pod("far", "far")).await?;
    let said = told(kubectl, "far", "FailedScheduling", "node affinity").await;
    said.context("the pod is not told that no node can have its volume")?;
    kubectl.run_within(PODS, &["delete", "pod", "far"]).await?;
    let delete = ["delete", "pvc", "far"];
    kubectl.run_within(PODS, &delete).await.map(drop)
}

/// The zone that a claim's volume can be used in.
async fn zone_of(kubectl: &Kubectl, claim: &str) -> Result<String> {
    let volume = ["get", "pvc", claim, "-o", "jsonpath={.spec.volumeName}"];
    let volume = kubectl.run(&volume).await?;
    let path =
        "jsonpath={.spec.nodeAffinity.required.nodeSelectorTerms[*].matchExpressions[*].values[*]}";
    kubectl.run(&["get", "pv", volume.trim(), "-o", path]).await
}
