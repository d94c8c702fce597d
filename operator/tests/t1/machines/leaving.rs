//! What happens in a tenant cluster with a cloud controller manager when a machine goes, or is gone.
//!
//! Invariant: nothing is sent to a machine that goes, and nothing of it that is left is waited for
//! longer than it has to be.

use anyhow::{Context as _, Result};
use kit_objects::kinds;
use serde_json::json;
use testkit::fixtures::wait_gone;

use super::World;
use super::drain::pod_path;
use crate::support::PATIENCE;
use crate::support::kubevirt::node_path;

const EXCLUDED: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// With a pool that is ready, and the addon.
async fn with_balancers(prefix: &str) -> Result<Option<(World, String)>> {
    let Some(world) = World::with_pool(prefix, 1).await? else {
        return Ok(None);
    };
    let on = json!({ "spec": { "addons": { "cloudController": { "enabled": true } } } });
    world.site.change("demo", &on).await?;
    let name = world.names().await?.remove(0);
    Ok(Some((world, name)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn load_balancers_are_told_that_a_node_goes_before_its_virtual_machine_does() -> Result<()> {
    let Some((world, name)) = Box::pin(with_balancers("leaving")).await? else {
        return Ok(());
    };
    world.put_pod(&name, "web", &json!({}));
    world.delete_machine(&name).await?;
    world.wait_pod_goes("web").await?;
    let (tenants, node) = (&world.site.tenants, node_path(&name));
    let labels = |node: Option<serde_json::Value>| node.map(|n| n["metadata"]["labels"].clone());
    let before = labels(tenants.object(&world.ns, &node)).unwrap_or_default();
    assert!(before[EXCLUDED].is_null(), "its pod still serves: {before}");
    world.end_pod("web");
    let excluded = |node: Option<&serde_json::Value>| {
        node.is_some_and(|node| node["metadata"]["labels"][EXCLUDED] == "true")
    };
    tenants.wait(&world.ns, &node, excluded, PATIENCE).await?;
    world
        .wait_said(&name, "Drained", ("True", "Drained"))
        .await?;
    world.still_has_its_vm(&name).await?;
    world.replaced(&name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_machine_that_is_gone_are_ended_once_that_is_proven() -> Result<()> {
    let Some((world, name)) = Box::pin(with_balancers("ended")).await? else {
        return Ok(());
    };
    let going = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    world.put_pod(&name, "db-0", &going);
    let (tenants, node) = (&world.site.tenants, node_path(&name));
    let attached = json!({ "status": { "volumesAttached": [{ "name": "a", "devicePath": "" }] } });
    assert!(tenants.change(&world.ns, &node, &attached));
    world.delete(kinds::VIRTUAL_MACHINE, &name).await?;
    world
        .wait_said(&name, "Ready", ("False", "VolumesAttached"))
        .await?;
    world
        .operator
        .reconcile_pool(&world.site, "workers")
        .await?;
    assert!(world.pod("db-0").is_some(), "nobody has proven anything");
    let proven = json!({ "spec": { "taints": [{
        "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
    }] } });
    assert!(tenants.change(&world.ns, &node, &proven));
    let gone = |pod: Option<&serde_json::Value>| pod.is_none();
    tenants
        .wait(&world.ns, &pod_path("db-0"), gone, PATIENCE)
        .await?;
    let detached = json!({ "status": { "volumesAttached": [] } });
    assert!(tenants.change(&world.ns, &node, &detached));
    world.replaced(&name).await
}

/// Without an answer it would be kept for the settle time, which is longer than anybody waits here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_whose_virtual_machine_was_refused_is_not_kept_for_it() -> Result<()> {
    let Some((world, name, _refuses)) = World::refusing_vm("refused-goes").await? else {
        return Ok(());
    };
    let machine = world.site.machines().get(&name).await?;
    let status = machine.status.unwrap_or_default();
    let request = status.request.context("it is stored before it is asked")?;
    assert!(request.type_.is_some() && status.creation_pending_since.is_some());
    world.delete_machine(&name).await?;
    wait_gone(&world.site.machines(), &name, PATIENCE).await
}
