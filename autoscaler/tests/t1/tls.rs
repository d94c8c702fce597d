//! Who may connect: whoever shows a certificate of the small authority that is in force.

use anyhow::Result;
use autoscaler_client::Generation;

use crate::support::{Adapter, Environment};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_certificate_of_the_small_authority_that_is_in_force_lets_in() -> Result<()> {
    let Some(environment) = Environment::new("tls").await? else {
        return Ok(());
    };
    let adapter = Adapter::start(&environment).await?;
    let authority = &environment.authority;
    let refused = [
        ("without", authority.nobody()),
        ("expired", authority.expired()?),
        ("foreign", authority.foreign()?),
    ];
    for (what, shown) in refused {
        let mut client = adapter.shown(&shown, Generation::New)?;
        let answer = client.refresh().await;
        assert!(answer.is_err(), "a client {what} was let in");
        let answer = client.node_groups().await;
        assert!(answer.is_err(), "a client {what} was answered");
    }
    adapter
        .client(&environment, Generation::New)?
        .refresh()
        .await?;
    Ok(())
}
