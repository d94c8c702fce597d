//! The stock sidecars are killed in the middle of their calls: what they asked for is done once, by
//! those that come after them.
//!
//! Invariant: a call is under way when its caller dies. Either the lab's storage stands still
//! meanwhile, or it was seen on the claim that KubeVirt is at it.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kit_objects::quantity::bytes;
use kube::{Api, ResourceExt as _};
use suites::{
    cluster::{
        parts::restarts,
        wait::{wait_for, wait_gone},
    },
    scenario::{
        Scenario,
        processes::Process,
        workers::{PODS, Workers},
    },
};

use super::{claim, pod, reads, ready, write};

/// The driver's own container.
const DRIVER: &str = "csi";

/// One volume of the tenant cluster, from its making to its end.
struct Volume<'a> {
    s: &'a Scenario,
    workers: &'a Workers,
    /// The claims of the management cluster, and the name of this volume's.
    claims: Api<PersistentVolumeClaim>,
    id: String,
    /// The PersistentVolume.
    name: String,
}

/// Each sidecar that calls the driver for what takes time, in mid-call.
pub(super) async fn killed(s: &Scenario, workers: &Workers) -> Result<()> {
    let driver = restarts(&driver_pod(workers).await?, Some(DRIVER));
    let volume = made(s, workers).await?;
    let kubectl = &workers.kubectl;
    volume.attached().await?;
    ready(kubectl, "stock").await?;
    let sum = write(kubectl, "stock").await?;
    volume.grown().await?;
    reads(kubectl, "stock", &sum).await?;
    volume.detached().await?;
    kubectl
        .run_within(PODS, &["delete", "pvc", "stock"])
        .await?;
    wait_gone(&volume.claims, &volume.id, None, PODS).await?;
    let now = restarts(&driver_pod(workers).await?, Some(DRIVER));
    ensure!(now == driver, "the driver itself was restarted");
    Ok(())
}

/// CreateVolume waits for storage that makes nothing when the provisioner dies.
async fn made<'a>(s: &'a Scenario, workers: &'a Workers) -> Result<Volume<'a>> {
    let kubectl = &workers.kubectl;
    let storage = Process::of_storage("csi-provisioner").freeze(s)?;
    kubectl.apply(&claim("stock", "Filesystem", "64Mi")).await?;
    let uid = ["get", "pvc", "stock", "-o", "jsonpath={.metadata.uid}"];
    let name = format!("pvc-{}", kubectl.run(&uid).await?.trim());
    let volume = Volume {
        s,
        workers,
        claims: workers.tenant.parts(),
        id: format!("vol-{name}"),
        name,
    };
    let asked = volume.claim("is asked for", |_| true).await?;
    kill(s, workers, "csi-provisioner").await?;
    let phase = volume.claims.get(&volume.id).await?.status;
    let phase = phase.and_then(|status| status.phase);
    ensure!(phase.as_deref() == Some("Pending"), "it is {phase:?}");
    drop(storage);
    let get = ["get", "pvc", "stock", "-o", "jsonpath={.status.phase}"];
    kubectl.until(PODS, &get, |text| text == "Bound").await?;
    let handle = "jsonpath={.spec.csi.volumeHandle}";
    let handle = kubectl
        .run(&["get", "pv", &volume.name, "-o", handle])
        .await?;
    ensure!(handle == volume.id, "the volume is {handle}");
    let is = volume.claims.get(&volume.id).await?;
    ensure!(is.uid() == asked.uid(), "it was made twice");
    Ok(volume)
}

impl Volume<'_> {
    /// Waits until its claim in the management cluster is as wanted.
    async fn claim(
        &self,
        what: &str,
        is: impl Fn(&PersistentVolumeClaim) -> bool,
    ) -> Result<PersistentVolumeClaim> {
        let found = wait_for(&self.claims, &self.id, what, PODS, |claim| {
            is(claim).then(|| claim.clone())
        });
        found.await
    }

    /// What the tenant cluster says of the attachment: `true` or nothing; nothing, too, without one.
    async fn attachment(&self) -> Result<String> {
        let path = format!(
            "jsonpath={{.items[?(@.spec.source.persistentVolumeName==\"{}\")].status.attached}}",
            self.name
        );
        let get = ["get", "volumeattachments", "-o", &path];
        self.workers.kubectl.run(&get).await
    }

    /// ControllerPublishVolume waits for KubeVirt when the attacher dies.
    async fn attached(&self) -> Result<()> {
        self.workers.kubectl.apply(&pod("stock", "stock")).await?;
        self.claim("is to be attached", |claim| has(claim, "attach-to"))
            .await?;
        let attached = self.attachment().await?;
        ensure!(attached != "true", "KubeVirt was quicker than the test");
        kill(self.s, self.workers, "csi-attacher").await
    }

    /// ControllerExpandVolume waits for storage that makes nothing larger when the resizer dies.
    async fn grown(&self) -> Result<()> {
        let kubectl = &self.workers.kubectl;
        let storage = Process::of_storage("csi-resizer").freeze(self.s)?;
        let more = r#"{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}"#;
        kubectl.run(&["patch", "pvc", "stock", "-p", more]).await?;
        self.claim("is to grow", |claim| {
            let spec = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
            let requests = spec.and_then(|resources| resources.requests.as_ref());
            let asked = requests.and_then(|all| bytes(&all["storage"].0));
            asked == Some(128 << 20)
        })
        .await?;
        kill(self.s, self.workers, "csi-resizer").await?;
        let path = "jsonpath={.status.capacity.storage}";
        let get = ["get", "pvc", "stock", "-o", path];
        let now = kubectl.run(&get).await?;
        ensure!(now == "64Mi", "it is {now} before storage made it larger");
        drop(storage);
        kubectl
            .until(PODS, &get, |text| text == "128Mi")
            .await
            .map(drop)
    }

    /// ControllerUnpublishVolume waits for KubeVirt when the attacher dies.
    async fn detached(&self) -> Result<()> {
        let delete = ["delete", "pod", "stock"];
        self.workers.kubectl.run_within(PODS, &delete).await?;
        self.claim("is to be detached", |claim| {
            !has(claim, "attach-to") && has(claim, "attached-to")
        })
        .await?;
        kill(self.s, self.workers, "csi-attacher").await?;
        self.claim("is detached", |claim| !has(claim, "attached-to"))
            .await?;
        let path = "jsonpath={.items[*].spec.source.persistentVolumeName}";
        let get = ["get", "volumeattachments", "-o", path];
        let gone = |text: &str| !text.contains(&self.name);
        let gone = self.workers.kubectl.until(PODS, &get, gone).await;
        gone.map(drop).context("the attachment stays")
    }
}

/// Whether the driver says so of a claim.
fn has(claim: &PersistentVolumeClaim, annotation: &str) -> bool {
    let value = claim.annotations().get(&format!("covey.dev/{annotation}"));
    value.is_some_and(|machines| !machines.is_empty())
}

/// SIGKILL to a sidecar; returns when the kubelet has seen it.
async fn kill(s: &Scenario, workers: &Workers, sidecar: &str) -> Result<()> {
    let pod = driver_pod(workers).await?;
    let before = restarts(&pod, Some(sidecar));
    Process::of_pod(&pod.uid().unwrap_or_default(), sidecar).signal(s, "KILL")?;
    let pods: Api<Pod> = workers.tenant.parts();
    let what = format!("has {sidecar} started again");
    wait_for(&pods, &pod.name_any(), &what, PODS, |pod| {
        (restarts(pod, Some(sidecar)) > before).then_some(())
    })
    .await
}

async fn driver_pod(workers: &Workers) -> Result<Pod> {
    let mut found = workers.tenant.pods_of(DRIVER).await?;
    ensure!(found.len() == 1, "{} pods of the driver", found.len());
    Ok(found.remove(0))
}
