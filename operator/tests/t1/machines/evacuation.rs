//! A node of the management cluster is being drained: KubeVirt does not evict the virtual machine, but
//! notes who asks for it (`status.evacuationNodeName` of the instance).
//!
//! Invariant: the tenant's node is drained before its virtual machine goes.

use anyhow::Result;
use kit_objects::kinds;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::World;

impl World {
    /// KubeVirt notes that this machine's node is drained.
    async fn evacuate(&self, name: &str) -> Result<()> {
        let asked = Patch::Merge(json!({ "status": { "evacuationNodeName": "node-7" } }));
        let kind = kinds::VIRTUAL_MACHINE_INSTANCE;
        let instances = self.site.objects(kind, &self.ns);
        let params = PatchParams::default();
        instances.patch(name, &params, &asked).await?;
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_that_is_to_be_evacuated_is_drained_first_and_another_takes_its_place() -> Result<()>
{
    let Some(world) = World::with_pool("evacuation", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.put_budget(0);
    world.put_pod(&name, "web", &json!({}));
    world.evacuate(&name).await?;
    world
        .wait_said(&name, "Drained", ("False", "Draining"))
        .await?;
    world.site.wait_event(&name, "Evacuating").await?;
    world.leaves_in_order(&name, "web").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_that_nobody_evacuates_stay() -> Result<()> {
    let Some(world) = World::with_pool("evacuation-one", 2).await? else {
        return Ok(());
    };
    let names = world.names().await?;
    world.evacuate(&names[0]).await?;
    world.replaced(&names[0]).await?;
    assert!(world.names().await?.contains(&names[1]));
    Ok(())
}
