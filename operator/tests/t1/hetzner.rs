//! Node pools at Hetzner, and what is special there; what is the same for each cloud is in [`super::clouds`].
//!
//! Invariant: how many servers there ever were is read from the fake's journal.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::names;
use fake_clouds::hetzner::project::Server;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kit_objects::kinds;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use operator::controllers::provider_config;
use providers::identity::{INSTALLATION, MACHINE_UID};
use serde_json::json;
use testkit::fixtures::wait_gone;

use crate::clouds::which::{OTHER, TOKEN, Which};
use crate::clouds::{POOL, ROUND, World, dies_at_any_write, shown, wrong_credentials};
use crate::support::PATIENCE;

mod restored;

/// The cloud, and what the ProviderConfig and its Secret are called.
const HETZNER: Which = Which::Hetzner;
const NAME: &str = "hetzner";

fn servers_of(world: &World) -> Vec<Server> {
    // What time brought.
    let _ = world.hetzner.journal();
    let contents = world.hetzner.contents();
    let project = contents.projects.get(TOKEN);
    project
        .iter()
        .flat_map(|p| p.servers.values())
        .cloned()
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_two_makes_two_servers_and_scaled_to_none_it_leaves_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-pool", &[HETZNER]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 2).await?;
    let servers = servers_of(&world);
    ensure!(servers.len() == 2, "{servers:?}");
    let machines = world.machines().await?;
    for server in &servers {
        let uid = server.labels.get(MACHINE_UID);
        let machine = machines.iter().find(|m| m.uid().as_ref() == uid);
        let status = machine
            .and_then(|m| m.status.clone())
            .context("of nobody")?;
        let id = format!("hcloud://{}", server.id);
        ensure!(status.provider_id == Some(id), "{status:?}");
        let request = status.request.context("no request")?;
        ensure!(request.type_.as_deref() == Some("cx22"), "{request:?}");
        ensure!(request.image == "worker-1.35.4" && request.account.is_some());
        ensure!(server.user_data.starts_with("#cloud-config"));
        ensure!(!server.user_data.contains("PRIVATE KEY") && !server.user_data.contains(TOKEN));
    }
    let config = world.configs.get(NAME).await?;
    let seen = shown(&(&config, &machines))?;
    ensure!(!seen.contains(TOKEN), "{seen}");

    // What is of no Machine goes, once that was seen twice, and nothing else does. What is older than the ProviderConfig may
    // be of a state that is not remembered: a person says that it is not.
    let namespaces = Api::<Namespace>::all(world.site.admin.clone());
    let installation = namespaces
        .get("kube-system")
        .await?
        .uid()
        .unwrap_or_default();
    let clock = &world.time.clock;
    let stray = Server {
        id: 1,
        name: "stray".to_owned(),
        created: clock.now().checked_sub(SignedDuration::from_mins(20))?,
        labels: [(INSTALLATION, installation.as_str()), (MACHINE_UID, "gone")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..servers[0].clone()
    };
    if let Some(project) = world.hetzner.contents().projects.get_mut(TOKEN) {
        project.servers.insert(stray.id, stray);
    }
    let look = async || -> Result<()> {
        clock.advance(Duration::from_secs(180));
        let config = Arc::new(world.configs.get(NAME).await?);
        provider_config::reconcile(config, Arc::clone(&operator.context)).await?;
        Ok(())
    };
    look().await?;
    let told = world.wait_said(HETZNER, "Leaks", "LeaksHeld").await?;
    ensure!(told.contains("server stray (1)"), "{told}");
    look().await?;
    ensure!(servers_of(&world).len() == 3, "it was deleted");
    let said = told.rsplit('=').next().context("no command")?;
    let annotations = json!({ names::ANNOTATION_DELETE_UNKNOWN: said });
    let annotations = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    let params = PatchParams::default();
    world.configs.patch(NAME, &params, &annotations).await?;
    world.wait_said(HETZNER, "Leaks", "LeaksFound").await?;
    look().await?;
    clock.advance(ROUND);
    let mut left: Vec<_> = servers_of(&world).into_iter().map(|s| s.id).collect();
    left.sort_unstable();
    let mut own: Vec<_> = servers.iter().map(|s| s.id).collect();
    own.sort_unstable();
    ensure!(left == own, "{left:?}");

    world.goes_down(&operator).await?;
    world.is_clean()?;
    ensure!(world.hetzner.journal().made("server") == 2);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_namespace_that_is_deleted_takes_along_waits_for_the_last_server() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-goes", &[HETZNER]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    let told = world
        .wait_said(HETZNER, "InUse", "NeededByMachines")
        .await?;
    ensure!(told.contains(POOL), "{told}");
    // As the namespace controller does it: all at once, and what servers are deleted with before the Machines.
    for (kind, name) in [
        (kinds::ROLE_BINDING, names::OPERATOR_BINDING),
        (kinds::SECRET, NAME),
        (kinds::PROVIDER_CONFIG, NAME),
    ] {
        let objects = world.site.objects(kind, &world.site.users);
        objects.delete(name, &DeleteParams::background()).await?;
    }
    let told = world.wait_said(HETZNER, "InUse", "Deleting").await?;
    let machine = world.machines().await?.remove(0).name_any();
    ensure!(told.contains(&machine), "{told}");
    ensure!(servers_of(&world).len() == 1, "{:?}", servers_of(&world));
    world.goes_down(&operator).await?;
    world.is_clean()?;
    let secrets = Api::<Secret>::namespaced(world.site.admin.clone(), &world.site.users);
    wait_gone(&secrets, NAME, PATIENCE).await?;
    wait_gone(&world.configs, NAME, PATIENCE).await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_wrong_are_told_and_delete_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("hetzner-token", &[HETZNER]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    // Of nobody, and of another project, in which the server is not found.
    for (token, code) in [
        ("no-token-of-anybody", "unauthorized"),
        (OTHER, "other_project"),
    ] {
        let told = (code, "spec.hetzner.tokenSecretName", token);
        wrong_credentials(&world, &operator, HETZNER, token, told).await?;
    }
    world.credentials(HETZNER, TOKEN).await?;
    world.wait_said(HETZNER, "Ready", "ProviderChecked").await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_at_any_write_makes_no_server_twice_and_leaves_none() -> Result<()> {
    // The Machine, what is asked for, user data, the token, and what came of it.
    Box::pin(dies_at_any_write("hetzner-dies", HETZNER, 4)).await
}
