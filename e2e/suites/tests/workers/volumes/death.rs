//! Needs: operator, ccm, csi, vm, lab-agent
//!
//! A machine that dies gives its volume away within a minute; one that is merely cut off keeps it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use suites::scenario::{
    self, PATIENCE, Scenario, hotplug,
    stateful::{self, kept, stateful, written},
    workers::{PODS, Workers},
};

use super::{node_of, ready, told, two_nodes};

#[tokio::test]
async fn a_volume_leaves_a_machine_that_is_dead_and_stays_with_one_that_is_cut_off() {
    scenario::run_alone("death", async |s| {
        // `volumes` takes the other way.
        let way = hotplug::other(&s.management)?;
        hotplug::with(&s.management, way, async || death(s).await).await
    })
    .await;
}

async fn death(s: &Scenario) -> Result<()> {
    let workers = two_nodes(s).await?;
    let kubectl = &workers.kubectl;
    kubectl.apply(&stateful(Some(5))).await?;
    ready(kubectl, "web-0").await?;
    cut_off(&workers).await?;
    killed(&workers).await
}

/// Its processor stands still: nobody hears of it, and nobody can say that it is dead. The pod is to
/// leave, and does not get its volume elsewhere; afterwards all is as it was.
async fn cut_off(workers: &Workers) -> Result<()> {
    let kubectl = &workers.kubectl;
    let before = written(kubectl, PODS).await?;
    let node = node_of(kubectl, "web-0").await?;
    pause(workers, &node, "pause").await?;
    let result = async {
        let path = "jsonpath={.metadata.deletionTimestamp}";
        let get = ["get", "pod", "web-0", "-o", path];
        let asked = kubectl.until(PODS, &get, |text| !text.is_empty()).await;
        asked.context("the pod is not asked to leave")?;
        let taints = ["get", "node", &node, "-o", "jsonpath={.spec.taints[*].key}"];
        let taints = kubectl.run(&taints).await?;
        ensure!(
            !taints.contains("out-of-service"),
            "{node} was declared dead: {taints}"
        );
        // Its owner insists: the object goes, the machine keeps the volume.
        let force = ["delete", "pod", "web-0", "--force", "--grace-period=0"];
        kubectl.run(&force).await?;
        let said = told(kubectl, "web-0", "FailedAttachVolume", "Multi-Attach").await;
        said.context("nobody says why the new pod has no volume")?;
        let holder = holder(workers).await?;
        ensure!(holder == node, "{holder} holds the volume, not {node}");
        anyhow::Ok(())
    }
    .await;
    pause(workers, &node, "unpause").await?;
    result?;
    ready(kubectl, "web-0").await?;
    kept(kubectl, PODS, &before).await
}

/// The instance ends at once and does not come back; how long until the pod is ready elsewhere.
async fn killed(workers: &Workers) -> Result<()> {
    let kubectl = &workers.kubectl;
    let node = node_of(kubectl, "web-0").await?;
    // To be acknowledged is to be on the disk, up to the last moment.
    let before = written(kubectl, PODS).await?;
    let begun = Instant::now();
    let halt = json!({ "spec": { "runStrategy": "Halted" } });
    let machines = workers.pool.virtual_machines();
    machines
        .patch(&node, &PatchParams::default(), &Patch::Merge(halt))
        .await?;
    let instances = workers.pool.instances();
    let at_once = DeleteParams::default().grace_period(0);
    instances.delete(&node, &at_once).await?;

    let moved = stateful::ready(kubectl, PATIENCE, Some(&node)).await;
    moved.context("the pod is not ready on another node")?;
    eprintln!(
        "ready elsewhere {:.1?} after the machine's end",
        begun.elapsed()
    );
    kept(kubectl, PODS, &before).await
}

/// The machine that holds the only volume.
async fn holder(workers: &Workers) -> Result<String> {
    let claims: Api<PersistentVolumeClaim> = workers.tenant.parts();
    let list = claims.list(&ListParams::default()).await?;
    let mut volumes = list
        .iter()
        .filter(|claim| claim.name_any().starts_with("vol-"));
    let (Some(one), None) = (volumes.next(), volumes.next()) else {
        bail!("there is not exactly one volume");
    };
    let holder = one.annotations().get("covey.dev/attached-to");
    holder.cloned().context("nobody holds the volume")
}

/// KubeVirt's subresources `pause` and `unpause`: the processors stand still and go on.
async fn pause(workers: &Workers, machine: &str, verb: &str) -> Result<()> {
    let (client, namespace) = (
        workers.tenant.management.clone(),
        workers.tenant.tenant_namespace(),
    );
    let path = format!(
        "/apis/subresources.kubevirt.io/v1/namespaces/{namespace}/virtualmachineinstances/{machine}/{verb}"
    );
    let request = http::Request::put(path)
        .header("content-type", "application/json")
        .body(b"{}".to_vec())?;
    let done = tokio::time::timeout(Duration::from_secs(30), client.request_text(request)).await;
    done.context("KubeVirt does not answer")??;
    Ok(())
}
