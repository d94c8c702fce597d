//! Node pools at Azure, and what is special there; what is the same for each cloud is in [`super::clouds`].
//!
//! Invariant: how many virtual machines there ever were is read from the fake's journal.

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fake_clouds::azure::thing::{Kind, Thing};
use fake_clouds::azure::{FakeAzure, SECRET};
use kube::ResourceExt as _;

use crate::clouds::which::{SUBSCRIPTIONS, TENANT, Which};
use crate::clouds::{World, dies_at_any_write, shown, wrong_credentials};

const AZURE: Which = Which::Azure;

/// All virtual machines of the resource group, with their names.
fn vms(world: &World) -> Vec<(String, Thing)> {
    // What time brought.
    let _ = world.azure.journal();
    let contents = world.azure.contents();
    let key = (SUBSCRIPTIONS[0].to_owned(), "workers".to_owned());
    let all = contents
        .groups
        .get(&key)
        .into_iter()
        .flat_map(|group| &group.things);
    let vms = all.filter(|((kind, _), _)| *kind == Kind::Vm);
    vms.map(|((_, name), thing)| (name.clone(), thing.clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_two_makes_two_virtual_machines_and_scaled_to_none_it_leaves_nothing() -> Result<()>
{
    let Some((world, operator)) = World::new("azure-pool", &[AZURE]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 2).await?;
    let vms = vms(&world);
    ensure!(vms.len() == 2, "{vms:?}");
    let machines = world.machines().await?;
    let account = format!("/subscriptions/{}/resourcegroups/workers", SUBSCRIPTIONS[0]);
    for (name, vm) in &vms {
        let uid = vm.tags.get(AZURE.thing().1);
        let machine = machines.iter().find(|m| m.uid().as_ref() == uid);
        let status = machine
            .and_then(|m| m.status.clone())
            .context("of nobody")?;
        let id = format!(
            "azure:///subscriptions/{}/resourceGroups/workers/providers/Microsoft.Compute/virtualMachines/{name}",
            SUBSCRIPTIONS[0]
        );
        ensure!(status.provider_id == Some(id), "{status:?}");
        let request = status.request.context("no request")?;
        ensure!(request.type_.as_deref() == Some("Standard_D2s_v5"));
        ensure!(request.image == AZURE.image(), "{request:?}");
        ensure!(request.account.as_deref() == Some(account.as_str()));
        let of_it = &vm.body["properties"];
        let disk = &of_it["storageProfile"]["osDisk"];
        ensure!(disk["diskSizeGB"] == 30, "{disk}");
        ensure!(of_it["priority"].is_null() && vm.body["identity"].is_null());
        ensure!(vm.body["zones"][0] == "1", "{}", vm.body["zones"]);
        let user_data = of_it["userData"].as_str().context("no user data")?;
        let user_data = STANDARD.decode(user_data)?;
        ensure!(user_data.starts_with(b"#cloud-config"));
    }
    let config = world.configs.get(AZURE.name()).await?;
    let seen = shown(&(&config, &machines))?;
    ensure!(!seen.contains(SECRET), "{seen}");
    world.goes_down(&operator).await?;
    world.is_clean()?;
    for kind in ["vm", "disk", "nic", "address"] {
        let made = world.journal(AZURE).made(kind);
        ensure!(made == 2, "{made} of {kind}");
    }
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_wrong_are_told_and_delete_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("azure-secret", &[AZURE]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    // Another secret, and a principal that may do nothing in this subscription.
    let mut other = FakeAzure::principal_file(SUBSCRIPTIONS[0], TENANT);
    other["password"] = "another~secret".into();
    let stranger = FakeAzure::principal_file(SUBSCRIPTIONS[1], TENANT);
    for (file, code, secret) in [
        (other, "invalid_client", "another~secret"),
        (stranger, "AuthorizationFailed", SECRET),
    ] {
        let told = (code, "spec.azure.credentialsSecretName", secret);
        wrong_credentials(&world, &operator, AZURE, &file.to_string(), told).await?;
    }
    world.credentials(AZURE, &world.own(AZURE)).await?;
    world.wait_said(AZURE, "Ready", "ProviderChecked").await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_at_any_write_makes_no_virtual_machine_twice_and_leaves_none()
-> Result<()> {
    Box::pin(dies_at_any_write("azure-dies", AZURE, 4)).await
}
