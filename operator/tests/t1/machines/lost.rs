//! Machines that are lost are replaced, a share at a time, and none while all are silent together.
//!
//! Invariant: what replaces a Machine has another name, and nothing of the lost one is left.

use anyhow::{Context as _, Result};
use kit_objects::kinds;
use kube::api::DeleteParams;
use serde_json::json;
use testkit::fixtures::wait_gone;

use super::World;
use crate::support::PATIENCE;
use crate::support::kubevirt::{Mode, node_path, node_status};
use crate::support::pools::said;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn virtual_machine_that_somebody_deletes_is_replaced() -> Result<()> {
    let Some(world) = World::with_pool("vm-gone", 2).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    world.delete(kinds::VIRTUAL_MACHINE, &name).await?;
    world.replaced(&name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instance_that_vanishes_is_replaced_with_its_machine() -> Result<()> {
    let Some(world) = World::with_pool("vmi-gone", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    // KubeVirt starts another one, whose disk is empty.
    world.delete(kinds::VIRTUAL_MACHINE_INSTANCE, &name).await?;
    world.replaced(&name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_that_somebody_deletes_is_replaced() -> Result<()> {
    let Some(world) = World::with_pool("machine-gone", 1).await? else {
        return Ok(());
    };
    let name = world.names().await?.remove(0);
    let machines = world.site.machines();
    machines.delete(&name, &DeleteParams::default()).await?;
    world.replaced(&name).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_that_does_not_join_in_time_is_replaced() -> Result<()> {
    let Some(world) = World::new("late").await? else {
        return Ok(());
    };
    world.kubevirt.set(Mode::Mute);
    world.site.create_pool("workers", 1).await?;
    let name = world.only_machine().await?;
    world
        .wait_said(&name, "Ready", ("False", "Booting"))
        .await?;
    let short = json!({ "spec": { "health": { "joinTimeout": "1s" } } });
    world.site.change_pool("workers", &short).await?;
    wait_gone(&world.site.machines(), &name, PATIENCE).await?;
    let long = json!({ "spec": { "health": { "joinTimeout": "10m" } } });
    world.site.change_pool("workers", &long).await?;
    world.kubevirt.set(Mode::Joining);
    world.settle().await?;
    world.site.nothing_is_orphaned(&world.cluster).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_addons_keep_no_machine_from_joining_nor_from_being_replaced() -> Result<()> {
    let Some(world) = World::with_pool("broken-addons", 1).await? else {
        return Ok(());
    };
    let World { site, ns, .. } = &world;
    site.play_addons(ns, 1, 0);
    site.wait("demo", |cluster| {
        let cluster = serde_json::to_value(cluster).unwrap_or_default();
        said(&cluster, "Ready") == ("False".to_owned(), "AddonsNotReady".to_owned())
    })
    .await?;
    // Another operator makes a Machine before it has asked the tenant's API anything.
    let world = world
        .restarted(json!({ "spec": { "replicas": 2 } }))
        .await?;
    world.settle().await?;
    world.kubevirt.set(Mode::Mute);
    let short = json!({ "spec": { "replicas": 3, "health": { "joinTimeout": "1s" } } });
    world.site.change_pool("workers", &short).await?;
    let replaced = |pool: &api::NodePool| {
        let status = pool.status.as_ref();
        status.and_then(|s| s.last_machine_number) > Some(3)
    };
    world.site.wait_pool("workers", replaced).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_that_goes_silent_alone_is_replaced_and_all_together_are_not() -> Result<()> {
    let Some(world) = World::with_pool("silent", 2).await? else {
        return Ok(());
    };
    let (site, ns) = (&world.site, &world.ns);
    let names = world.names().await?;
    let silent = |name: &String| {
        let status = json!({ "status": node_status("Unknown") });
        assert!(site.tenants.change(ns, &node_path(name), &status));
    };
    names.iter().for_each(silent);
    for name in &names {
        world
            .wait_said(name, "NodeReady", ("False", "NodeNotReady"))
            .await?;
    }
    // No shorter than the two conditions are apart: so they went silent together.
    let mut since = Vec::new();
    for name in &names {
        let status = site.machines().get(name).await?.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter();
        let silent = conditions.find(|condition| condition.type_ == "NodeReady");
        since.push(silent.context("it was just seen")?.last_transition_time.0);
    }
    let apart = since[1].duration_since(since[0]).abs().as_secs() + 2;
    let short = json!({ "spec": { "health": { "notReadyTimeout": format!("{apart}s") } } });
    site.change_pool("workers", &short).await?;
    let held = |pool: &api::NodePool| {
        let pool = serde_json::to_value(pool).unwrap_or_default();
        said(&pool, "Degraded") == ("True".to_owned(), "AllNodesSilent".to_owned())
    };
    site.wait_pool("workers", held).await?;
    assert_eq!(world.names().await?, names);
    let back = json!({ "status": node_status("True") });
    assert!(site.tenants.change(ns, &node_path(&names[1]), &back));
    world.replaced(&names[0]).await
}
