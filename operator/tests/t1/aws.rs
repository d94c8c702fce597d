//! Node pools at AWS, and what is special there; what is the same for each cloud is in [`super::clouds`].
//!
//! Invariant: how many instances there ever were is read from the fake's journal.

use anyhow::{Context as _, Result, ensure};
use fake_clouds::aws::thing::Instance;
use fake_clouds::aws::{FakeAws, SECRET};
use kube::ResourceExt as _;

use crate::clouds::which::{ACCOUNTS, Which};
use crate::clouds::{World, dies_at_any_write, shown, wrong_credentials};

const AWS: Which = Which::Aws;

/// All instances of the account, with their IDs.
fn instances(world: &World) -> Vec<(String, Instance)> {
    // What time brought.
    let _ = world.aws.journal();
    let contents = world.aws.contents();
    let all = contents.instances.iter();
    let of_account = all.filter(|(_, instance)| instance.place.0 == ACCOUNTS[0]);
    of_account
        .map(|(id, instance)| (id.clone(), instance.clone()))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pool_of_two_makes_two_instances_and_scaled_to_none_it_leaves_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("aws-pool", &[AWS]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 2).await?;
    let instances = instances(&world);
    ensure!(instances.len() == 2, "{instances:?}");
    let machines = world.machines().await?;
    for (id, instance) in &instances {
        let uid = instance.tags.get(AWS.thing().1);
        let machine = machines.iter().find(|m| m.uid().as_ref() == uid);
        let machine = machine.context("of nobody")?;
        let status = machine.status.clone().context("no status")?;
        let id = format!("aws:///eu-central-1a/{id}");
        ensure!(status.provider_id == Some(id), "{status:?}");
        let request = status.request.context("no request")?;
        ensure!(request.type_.as_deref() == Some("m7i.large"));
        ensure!(request.image == AWS.image(), "{request:?}");
        let account = format!("{}/eu-central-1", ACCOUNTS[0]);
        ensure!(request.account == Some(account), "{request:?}");
        ensure!(Some(&instance.token) == uid && instance.is_public);
        ensure!(instance.spot_request.is_none() && instance.type_ == "m7i.large");
    }
    let config = world.configs.get(AWS.name()).await?;
    let seen = shown(&(&config, &machines))?;
    ensure!(!seen.contains(SECRET), "{seen}");
    world.goes_down(&operator).await?;
    world.is_clean()?;
    for kind in ["instance", "volume", "interface"] {
        let made = world.journal(AWS).made(kind);
        ensure!(made == 2, "{made} of {kind}");
    }
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_that_are_wrong_are_told_and_delete_nothing() -> Result<()> {
    let Some((world, operator)) = World::new("aws-secret", &[AWS]).await? else {
        return Ok(());
    };
    world.comes_up(&operator, 1).await?;
    // Another secret, and a user of another account.
    let mut other = FakeAws::key_file(ACCOUNTS[0]);
    other["AccessKey"]["SecretAccessKey"] = "another~secret".into();
    let stranger = FakeAws::key_file(ACCOUNTS[1]);
    for (file, code, secret) in [
        (other, "SignatureDoesNotMatch", "another~secret"),
        (stranger, "other_account", SECRET),
    ] {
        let told = (code, "spec.aws.credentialsSecretName", secret);
        wrong_credentials(&world, &operator, AWS, &file.to_string(), told).await?;
    }
    world.credentials(AWS, &world.own(AWS)).await?;
    world.wait_said(AWS, "Ready", "ProviderChecked").await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_at_any_write_makes_no_instance_twice_and_leaves_none() -> Result<()> {
    Box::pin(dies_at_any_write("aws-dies", AWS, 4)).await
}
