//! Needs: operator, vm
//!
//! Machines that are lost are replaced: one whose virtual machine somebody deleted, and one that
//! never joins.

use anyhow::{Context as _, Result, ensure};
use api::{NodePoolSpec, node_pool::KernelBoot};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt as _, api::DeleteParams, runtime::watcher::Config};
use serde_json::json;
use suites::{
    cluster::wait::wait_list,
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS},
    },
};

#[tokio::test]
async fn a_virtual_machine_that_somebody_deletes_is_replaced_with_its_node() {
    scenario::run("vm-deleted", vm_deleted).await;
}

async fn vm_deleted(s: &Scenario) -> Result<()> {
    let workers = s.workers(|_, _| {}).await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let (old, _) = machines.first_key_value().context("no Machine")?;
    let virtual_machines = workers.pool.virtual_machines();
    virtual_machines
        .delete(old, &DeleteParams::default())
        .await?;
    workers
        .pool
        .machines_are("the Machine is gone, too", NODES, |all| {
            (!all.contains_key(old)).then_some(())
        })
        .await?;
    let machines = workers.pool.settled(1, NODES).await?;
    let nodes: Api<Node> = Api::all(workers.tenant.admin(PATIENCE).await?);
    let what = "only the new node is left";
    wait_list(&nodes, Config::default(), what, PODS, |all| {
        all.keys().eq(machines.keys()).then_some(())
    })
    .await
}

#[tokio::test]
async fn a_machine_that_does_not_join_in_time_is_replaced_until_the_template_is_mended() {
    scenario::run("no-join", no_join).await;
}

async fn no_join(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|_, nodes| {
            nodes.health.join_timeout = "45s".into();
            idle(nodes);
        })
        .await?;
    let pool = &workers.pool;
    let what = "there is a Machine";
    let first = pool.machines_are(what, PATIENCE, |all| all.keys().next().cloned());
    let first = first.await?;
    let what = "the Machine was replaced";
    pool.machines_are(what, NODES, |all| {
        (!all.contains_key(&first) && !all.is_empty()).then_some(())
    })
    .await?;
    // Never two virtual machines where one was asked for and none works.
    let nodes: Api<Node> = Api::all(workers.tenant.admin(PATIENCE).await?);
    let joined = nodes.list(&Default::default()).await?;
    ensure!(joined.items.is_empty(), "a node joined all the same");

    let mended = json!({
        "health": { "joinTimeout": "20m" },
        "provider": { "kubevirt": { "kernelBoot": null, "image": null } },
    });
    pool.patch(mended).await?;
    let machines = pool.settled(1, NODES).await?;
    let names: Vec<_> = machines.values().map(|m| m.name_any()).collect();
    ensure!(!names.contains(&first), "{names:?}");
    Ok(())
}

/// A machine that starts no more than what every boot needs: it runs, and nothing in it ever joins.
fn idle(nodes: &mut NodePoolSpec) {
    let version = scenario::VERSION;
    let image = format!("ghcr.io/covey-dev/worker:v{version}");
    if let Some(kubevirt) = nodes.provider.as_mut().and_then(|p| p.kubevirt.as_mut()) {
        kubevirt.image = Some(image.clone());
        kubevirt.kernel_boot = Some(KernelBoot {
            image,
            kernel_path: "/boot/vmlinux".to_owned(),
            initrd_path: "/boot/initrd.img".to_owned(),
            kernel_args: "root=/dev/vda ro console=ttyS0 systemd.unit=sysinit.target".to_owned(),
        });
    }
}
