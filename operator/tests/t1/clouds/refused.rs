//! A cloud that lets nobody in any more, while another one does: where machines are made meanwhile, and that nothing goes.
//!
//! Invariant: nobody checks a ProviderConfig by hand; the operator is told by a call that is not let in, and by its Secret.

use anyhow::{Context as _, Result, ensure};
use api::{Machine, NodePool};
use fake_clouds::aws::FakeAws;
use fake_clouds::journal::Entry;
use testkit::fixtures::wait_for;

use super::which::{ACCOUNTS, Which};
use super::{POOL, World, runs};
use crate::support::PATIENCE;

const AWS: Which = Which::Aws;
const GCP: Which = Which::Gcp;
/// The key that takes the place of the one that was revoked.
const NEW: &str = "AKIANEW111111111";

/// Machines of a cloud that nobody asked to go, and whether all run.
fn at(machines: &[Machine], cloud: Which) -> (usize, bool) {
    let stays = |m: &&Machine| {
        let named = m.spec.provider.config_name() == Some(cloud.name());
        named && m.metadata.deletion_timestamp.is_none()
    };
    let of: Vec<_> = machines.iter().filter(stays).collect();
    (of.len(), of.into_iter().all(runs))
}

impl World {
    /// Waits until the pool says so of a location.
    async fn wait_stands(&self, cloud: Which, state: &str) -> Result<Option<String>> {
        let of = |pool: &NodePool| {
            let all = pool.status.iter().flat_map(|status| &status.locations);
            all.into_iter().find(|at| at.name == cloud.name()).cloned()
        };
        let is = |pool: Option<&NodePool>| {
            let found = pool.and_then(of).and_then(|at| at.state);
            found.as_deref() == Some(state)
        };
        let pool = wait_for(&self.site.pools(), POOL, is, PATIENCE).await?;
        let found = pool.as_ref().and_then(of);
        Ok(found.context("it was just said")?.reason)
    }

    fn asked_to_run(&self) -> usize {
        let journal = self.aws.journal();
        let is_it = |entry: &&Entry| entry.path == "/RunInstances";
        journal.entries.iter().filter(is_it).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloud_that_refuses_the_credentials_gets_nothing_new_until_its_secret_lets_in_again()
-> Result<()> {
    let Some((world, operator)) = World::new("clouds-refused", &[AWS, GCP]).await? else {
        return Ok(());
    };
    world.spread(2, &[(AWS, 1), (GCP, 1)]).await?;
    let both =
        |machines: &[Machine]| at(machines, AWS) == (1, true) && at(machines, GCP) == (1, true);
    world.until(&operator, "one at each runs", both).await?;
    let asked = world.asked_to_run();

    // Revoked; nobody changes the Secret. The next look at the machine is not let in.
    let key = format!("AKIA{}", ACCOUNTS[0]);
    let principal = world.aws.contents().principals.remove(&key);
    let principal = principal.context("no such user")?;
    for _ in 0..2 {
        world.round(&operator).await?;
    }
    let told = world.wait_said(AWS, "Ready", "CredentialsRefused").await?;
    ensure!(
        told.contains("InvalidClientTokenId") || told.contains("AuthFailure"),
        "{told}"
    );
    let reason = world.wait_stands(AWS, "Excluded").await?;
    ensure!(
        reason.as_deref() == Some("CredentialsRefused"),
        "{reason:?}"
    );
    world.spread(5, &[(AWS, 1), (GCP, 1)]).await?;
    let elsewhere = |machines: &[Machine]| at(machines, GCP) == (4, true);
    world
        .until(&operator, "the other has four", elsewhere)
        .await?;
    for _ in 0..8 {
        world.round(&operator).await?;
    }
    let machines = world.machines().await?;
    ensure!(
        at(&machines, AWS).0 == 1 && machines.len() == 5,
        "{machines:?}"
    );
    ensure!(world.asked_to_run() == asked, "one was asked for");
    ensure!(world.aws.contents().instances.len() == 1, "it was deleted");

    // Another key of the same account, as whoever turns keys makes it.
    world
        .aws
        .contents()
        .principals
        .insert(NEW.to_owned(), principal);
    let mut file = FakeAws::key_file(ACCOUNTS[0]);
    file["AccessKey"]["AccessKeyId"] = NEW.into();
    world.credentials(AWS, &file.to_string()).await?;
    world.wait_said(AWS, "Ready", "ProviderChecked").await?;
    world.wait_stands(AWS, "Healthy").await?;
    world.spread(8, &[(AWS, 1), (GCP, 1)]).await?;
    let again =
        |machines: &[Machine]| at(machines, AWS) == (4, true) && at(machines, GCP) == (4, true);
    world.until(&operator, "it counts again", again).await?;

    world.spread(0, &[(AWS, 1), (GCP, 1)]).await?;
    world
        .until(&operator, "machines are gone", <[Machine]>::is_empty)
        .await?;
    world.is_clean()?;
    operator.stop().await
}
