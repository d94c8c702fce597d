//! Node pools at Google, and what is special there; what is the same for each cloud is in [`super::clouds`].
//!
//! Invariant: how many instances there ever were is read from the fake's journal.

use anyhow::{Context as _, Result, ensure};
use fake_clouds::gcp::project::Instance;
use kube::ResourceExt as _;

use crate::clouds::which::{PROJECTS, Which};
use crate::clouds::{World, dies_at_any_write, shown, wrong_credentials};

const GCP: Which = Which::Gcp;

/// All of the project, with their zones and names.
fn instances(world: &World) -> Vec<((String, String), Instance)> {
    // What time brought.
    let _ = world.gcp.journal();
    let contents = world.gcp.contents();
    let project = contents.projects.get(PROJECTS[0]);
    let all = project.iter().flat_map(|project| &project.instances);
    all.map(|(place, instance)| (place.clone(), instance.clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_two_makes_two_instances_and_scaled_to_none_it_leaves_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("gcp-pool", &[GCP]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 2).await?;
    let instances = instances(&world);
    ensure!(instances.len() == 2, "{instances:?}");
    let machines = world.machines().await?;
    for ((zone, name), instance) in &instances {
        let uid = instance.labels.get(GCP.thing().1);
        let machine = machines.iter().find(|m| m.uid().as_ref() == uid);
        let status = machine
            .and_then(|m| m.status.clone())
            .context("of nobody")?;
        let id = format!("gce://{}/{zone}/{name}", PROJECTS[0]);
        ensure!(status.provider_id == Some(id), "{status:?}");
        let request = status.request.context("no request")?;
        ensure!(request.type_.as_deref() == Some("e2-medium"), "{request:?}");
        ensure!(request.image == GCP.image() && request.account.is_some());
        let body = &instance.body;
        let disk = &body["disks"][0]["initializeParams"];
        ensure!(disk["diskSizeGb"] == "30", "{disk}");
        ensure!(body["scheduling"]["provisioningModel"] == "STANDARD");
        ensure!(body["tags"]["items"][0] == "workers", "{}", body["tags"]);
        let user_data = body["metadata"]["items"][0]["value"].as_str();
        let user_data = user_data.context("no user data")?;
        ensure!(user_data.starts_with("#cloud-config"));
        ensure!(!user_data.contains("PRIVATE KEY"));
    }
    let config = world.configs.get(GCP.name()).await?;
    let seen = shown(&(&config, &machines))?;
    ensure!(!seen.contains("PRIVATE KEY"), "{seen}");
    world.goes_down(&operator).await?;
    world.is_clean()?;
    ensure!(world.journal(GCP).made("instance") == 2);
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_wrong_are_told_and_delete_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("gcp-key", &[GCP]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    // Of no account, and of one of another project, which may do nothing in this one.
    for (account, code) in [
        ("nobody@demo", "invalid_grant"),
        ("covey@other", "forbidden"),
    ] {
        let key = world.gcp.key_file(account).to_string();
        let told = (code, "spec.gcp.keySecretName", "PRIVATE KEY");
        wrong_credentials(&world, &operator, GCP, &key, told).await?;
    }
    world.credentials(GCP, &world.own(GCP)).await?;
    world.wait_said(GCP, "Ready", "ProviderChecked").await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_at_any_write_makes_no_instance_twice_and_leaves_none() -> Result<()> {
    Box::pin(dies_at_any_write("gcp-dies", GCP, 4)).await
}
