//! Storage of the management cluster as tenants of it are offered it: block volumes that grow, are
//! snapshotted and cloned. `lab-agent` makes them; the stock sidecars of CSI, as programs of the host,
//! tell it to.
//!
//! Invariant: applying again what is there already changes nothing.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::{
    config::{BLOCK_SOCKET, Cluster},
    host::{Host, Order, Program},
    kubectl::kubectl,
    layout::ZONE,
    programs::{self, Bins},
    progress::Progress,
    run,
};

/// StorageClass and VolumeSnapshotClass.
pub(crate) const CLASS: &str = "lab-block";
/// The same storage, of which tenants are told that it is in [`ELSEWHERE`].
const FAR_CLASS: &str = "lab-block-far";
/// A zone without any machine.
const ELSEWHERE: &str = "lab-b";
/// The driver's name, which `lab-agent` knows, too.
const DRIVER: &str = "block.lab.covey.dev";
/// Without it the controller looks for kinds that are not there for half a minute first.
const NO_GROUPS: &str = "--feature-gates=CSIVolumeGroupSnapshot=false";
/// The kinds of snapshots, by the names of their definitions' files.
const KINDS: [&str; 3] = [
    "volumesnapshotclasses",
    "volumesnapshotcontents",
    "volumesnapshots",
];

/// Starts the sidecars on a host whose API answers, and writes what claims name.
pub(crate) fn start(
    host: &Host,
    cluster: &Cluster,
    bins: &Bins,
    progress: &Progress,
) -> Result<()> {
    let step = progress.step("starting block storage");
    step.finish(all(host, cluster, bins))
}

fn all(host: &Host, cluster: &Cluster, bins: &Bins) -> Result<()> {
    let folder = bins.dir(programs::Program::CSI)?;
    let apply = ["apply", "--server-side", "--force-conflicts"];
    let mut first = kubectl(&cluster.layout);
    first.args(apply);
    for kind in KINDS {
        first.arg("-f").arg(folder.join(format!("{kind}.yaml")));
    }
    run::output_with_input(first.args(["-f", "-"]), &objects())?;
    for program in sidecars(cluster, bins)? {
        host.order(&Order::Start(program))?;
    }
    let definition = format!("crd/{}.snapshot.storage.k8s.io", KINDS[0]);
    let established = ["wait", "--for=condition=Established", "--timeout=60s"];
    run::output(kubectl(&cluster.layout).args(established).arg(definition))?;
    run::output_with_input(
        kubectl(&cluster.layout).args(apply).args(["-f", "-"]),
        &snapshot_class().to_string(),
    )
    .context("the class of snapshots is refused")?;
    Ok(())
}

/// The sidecars are the stock ones, at the speed of a lab.
fn sidecars(cluster: &Cluster, bins: &Bins) -> Result<Vec<Program>> {
    let socket = format!("--csi-address={BLOCK_SOCKET}");
    let sidecar = |name: &str, more: &[&str]| {
        let mut argv = vec![
            bins.path(name)?.to_string_lossy().into_owned(),
            format!(
                "--kubeconfig={}",
                cluster.config_file("lab-agent.kubeconfig")
            ),
            "--kube-api-qps=100".to_owned(),
            "--kube-api-burst=200".to_owned(),
            "--retry-interval-start=200ms".to_owned(),
        ];
        argv.extend(more.iter().map(|&flag| flag.to_owned()));
        anyhow::Ok(cluster.program(name, argv))
    };
    Ok(vec![
        sidecar("csi-provisioner", &[&socket, "--worker-threads=10"])?,
        sidecar(
            "csi-resizer",
            &[&socket, "--handle-volume-inuse-error=false"],
        )?,
        sidecar("csi-snapshotter", &[&socket, NO_GROUPS])?,
        sidecar("snapshot-controller", &[NO_GROUPS])?,
    ])
}

fn objects() -> String {
    let driver = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": { "name": DRIVER },
        "spec": {
            "attachRequired": false,
            "fsGroupPolicy": "None",
            "podInfoOnMount": false,
            "volumeLifecycleModes": ["Persistent"],
        },
    });
    // Not the default one: without a class a claim gets a directory.
    let class = |name: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": { "name": name },
            "provisioner": DRIVER,
            "allowVolumeExpansion": true,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
        })
    };
    let items = [driver, class(CLASS), class(FAR_CLASS)];
    json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string()
}

fn snapshot_class() -> Value {
    json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
        "metadata": { "name": CLASS },
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    })
}

/// What the chart's `config.storage.classes` says of it: what is in the lab's zone, and what no machine
/// can have.
pub(crate) fn offered() -> Value {
    json!([
        {
            "name": "block",
            "storageClass": CLASS,
            "default": true,
            "expandable": true,
            "cloneable": true,
            "zeroed": true,
            "shared": true,
            "snapshotClass": CLASS,
            "zones": [ZONE],
        },
        { "name": "far", "storageClass": FAR_CLASS, "zeroed": true, "zones": [ELSEWHERE] },
    ])
}
