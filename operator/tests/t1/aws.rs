//! Node pools at AWS, and what is special there; what is the same for each cloud is in [`super::clouds`].
//!
//! Invariant: how many instances there ever were is read from the fake's journal.

use anyhow::{Context as _, Result, ensure};
use api::ProviderConfig;
use fake_clouds::aws::thing::Instance;
use fake_clouds::aws::{FakeAws, SECRET};
use fake_clouds::journal::Entry;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use testkit::fixtures::wait_for;

use crate::clouds::which::{ACCOUNTS, Which};
use crate::clouds::{World, dies_at_any_write, role, shown, wrong_credentials};
use crate::support::PATIENCE;

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

/// Waits until the ProviderConfig says so of what it is now; gives the message of its condition Ready.
async fn wait_ready(world: &World, status: &str) -> Result<String> {
    let ready = |config: &ProviderConfig| {
        let of = config.status.as_ref()?;
        let is_news = of.observed_generation == config.metadata.generation;
        let mut all = of.conditions.iter().filter(|_| is_news);
        all.find(|c| c.type_ == "Ready" && c.status == status)
            .map(|c| c.message.clone())
    };
    let is = |config: Option<&ProviderConfig>| config.and_then(ready).is_some();
    let config = wait_for(&world.configs, AWS.name(), is, PATIENCE).await?;
    config.as_ref().and_then(ready).context("it was just said")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn role_is_taken_on_without_a_key_in_its_own_namespace_and_no_other_is() -> Result<()> {
    let Some((world, operator)) = World::new("aws-web", &[AWS]).await? else {
        return Ok(());
    };
    // Both trust the operator's account; the platform lets this namespace have one of them.
    for account in ACCOUNTS {
        let mut contents = world.aws.contents();
        let found = contents.roles.get_mut(&role(account));
        found.context("no such role")?.web_token = Some("eyJtoken".to_owned());
    }
    std::fs::write(world.aws_token(), "eyJtoken\n")?;
    let change = async |aws: Value| {
        let patch = Patch::Merge(json!({ "spec": { "aws": aws } }));
        let changed = world
            .configs
            .patch(AWS.name(), &PatchParams::default(), &patch)
            .await;
        changed.map(drop)
    };
    change(json!({ "roleARN": role(ACCOUNTS[0]), "credentialsSecretName": null })).await?;
    wait_ready(&world, "True").await?;
    let secrets = Api::<Secret>::namespaced(world.site.admin.clone(), &world.site.users);
    secrets.delete(AWS.name(), &DeleteParams::default()).await?;
    world.comes_up(&operator, 1).await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;

    change(json!({ "roleARN": role(ACCOUNTS[1]) })).await?;
    let told = wait_ready(&world, "False").await?;
    ensure!(
        told.contains("not_allowed") && told.contains("webIdentity"),
        "{told}"
    );
    ensure!(!told.contains("eyJ"), "{told}");
    let journal = world.journal(AWS);
    let is_other = |entry: &&Entry| {
        entry.path == "/AssumeRoleWithWebIdentity" && entry.query.contains(ACCOUNTS[1])
    };
    ensure!(
        journal.entries.iter().find(is_other).is_none(),
        "it was asked for"
    );
    std::fs::remove_file(world.aws_token())?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_that_is_missing_is_said_before_a_machine_is_made_and_makes_none() -> Result<()> {
    let Some((world, operator)) = World::new("aws-rights", &[AWS]).await? else {
        return Ok(());
    };
    let all = [
        "DescribeImages",
        "DescribeInstanceTypeOfferings",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeNetworkInterfaces",
        "DescribeSpotPriceHistory",
        "DescribeSubnets",
        "DescribeVolumes",
        "CreateTags",
        "TerminateInstances",
    ];
    let may = |rights: &[&str]| {
        for principal in world.aws.contents().principals.values_mut() {
            principal.actions = Some(rights.iter().map(|right| format!("ec2:{right}")).collect());
        }
    };
    may(&all);
    // Whoever changes the rights changes no Secret; here one is written anew so that nobody waits for the next check.
    let mut file = FakeAws::key_file(ACCOUNTS[0]);
    file["AccessKey"]["CreateDate"] = "2026-07-02T12:00:00Z".into();
    world.credentials(AWS, &file.to_string()).await?;
    let told = world.wait_said(AWS, "Ready", "CredentialsRefused").await?;
    ensure!(
        told.contains("UnauthorizedOperation") && told.contains("ec2:RunInstances"),
        "{told}"
    );
    world.scale(1).await?;
    for _ in 0..4 {
        world.round(&operator).await?;
    }
    let is_it = |entry: &&Entry| entry.path == "/RunInstances" && !entry.query.contains("DryRun");
    ensure!(
        world.journal(AWS).entries.iter().find(is_it).is_none(),
        "one was asked for"
    );
    may(&[&all[..], &["RunInstances"]].concat());
    world.credentials(AWS, &world.own(AWS)).await?;
    world.wait_said(AWS, "Ready", "ProviderChecked").await?;
    world.comes_up(&operator, 1).await?;
    world.goes_down(&operator).await?;
    world.is_clean()?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operator_that_dies_at_any_write_makes_no_instance_twice_and_leaves_none() -> Result<()> {
    Box::pin(dies_at_any_write("aws-dies", AWS, 4)).await
}
