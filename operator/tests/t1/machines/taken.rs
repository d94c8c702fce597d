//! A virtual machine of the name that a Machine needs is there already and is not its own.
//!
//! Invariant: it is neither adopted, nor changed, nor deleted; people are told, and the pool goes on
//! with another Machine.

use std::sync::atomic::Ordering;

use anyhow::Result;
use api::{Machine, names};
use kit_objects::kinds;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testkit::fixtures::wait_gone;

use super::World;
use crate::support::PATIENCE;
use crate::support::site::apply;

/// Somebody makes a virtual machine with these labels between a Machine and its own.
async fn taken(prefix: &str, labels: impl FnOnce(&Machine) -> Value) -> Result<()> {
    let Some((world, name, refuses)) = World::refusing_vm(prefix).await? else {
        return Ok(());
    };
    let site = &world.site;
    let machine = site.machines().get(&name).await?;
    let foreign = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine",
        "metadata": { "name": name, "namespace": world.ns, "labels": labels(&machine) },
        "spec": {
            "runStrategy": "Halted",
            "template": { "spec": { "domain": { "devices": {} } } },
        },
    });
    let comes = async {
        let made = apply(&site.admin, &foreign).await?;
        refuses.store(false, Ordering::SeqCst);
        // Not every one of them has labels that its watch selects.
        let touch = json!({ "metadata": { "annotations": { "example.com/look": "1" } } });
        let machines = site.machines();
        machines
            .patch(&name, &PatchParams::default(), &Patch::Merge(touch))
            .await?;
        anyhow::Ok(made)
    };
    let said = world.wait_said(&name, "Ready", ("False", "VirtualMachineTaken"));
    // On the heap: statuses of several kinds are in it.
    let (said, comes) = (Box::pin(said), Box::pin(comes));
    let ((), made) = futures::try_join!(said, comes)?;
    let event = site.wait_event(&name, "VirtualMachineTaken").await?;
    assert_eq!(event.type_.as_deref(), Some("Warning"));

    wait_gone(&site.machines(), &name, PATIENCE).await?;
    Box::pin(world.settle()).await?;
    let now = world.names().await?;
    assert!(now.len() == 1 && now[0] != name, "{now:?}");
    let found = site.objects(kinds::VIRTUAL_MACHINE, &world.ns);
    let found = found.get(&name).await?;
    assert_eq!(found.uid(), made.uid());
    assert_eq!(found.metadata.deletion_timestamp, None);
    assert_eq!(found.labels(), made.labels());
    assert_eq!(found.data["spec"], made.data["spec"]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_machine_of_somebody_else_is_not_adopted() -> Result<()> {
    let seen = taken("taken", |_| json!({ "example.com/whose": "not-ours" }));
    Box::pin(seen).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_machine_of_an_earlier_machine_of_the_same_name_is_not_adopted() -> Result<()> {
    let seen = taken("taken-earlier", |machine| {
        json!({
            names::LABEL_MANAGED_BY: names::MANAGED_BY,
            names::LABEL_TENANT_UID: machine.spec.cluster_uid,
            names::LABEL_TENANT_NAMESPACE: machine.namespace(),
            names::LABEL_MACHINE: machine.name_any(),
            names::LABEL_MACHINE_UID: "00000000-0000-4000-8000-000000000000",
        })
    });
    Box::pin(seen).await
}
