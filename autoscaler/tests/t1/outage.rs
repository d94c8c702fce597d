//! The management API goes and comes back: `Refresh` says so, after a while, and all else is answered
//! as before.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use autoscaler::settings::Settings;
use autoscaler_client::observe::Aborted;
use autoscaler_client::{Generation, Protocol};
use serde_json::json;
use testkit::FaultPlan;
use tonic::{Code, Status};

use crate::support::{Adapter, PATIENCE, Player, Script, Site};

/// Asks as the client does, again and again, until the answer is as wanted.
async fn refresh_until(
    client: &mut Protocol,
    wanted: impl Fn(&Result<(), Status>) -> bool,
) -> Result<Result<(), Status>> {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let asked = tokio::time::timeout(PATIENCE, async {
        loop {
            ticks.tick().await;
            let answer = client.refresh().await;
            if wanted(&answer) {
                return answer;
            }
        }
    });
    asked.await.context("Refresh does not answer as wanted")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_refresh_fails_while_the_management_api_is_away_and_all_goes_on_afterwards()
-> Result<()> {
    let Some(site) = Site::alone("outage").await? else {
        return Ok(());
    };
    let settings = Settings {
        patience: Duration::from_secs(3),
        ..site.settings()
    };
    let adapter = Adapter::with(&site, settings, &FaultPlan::none()).await?;
    let player = Player::start(&site);
    let name = site.pool("away", 2, &json!({ "min": 1, "max": 3 })).await?;
    let mut script = Script::new(&site, &adapter, Generation::New, &[&name])?;
    script.wait_for_room(2, 1500);
    let two = script.until("two nodes run", |turn| {
        turn.nodes.len() == 2 && turn.target(&name) == Some(2)
    });
    let before = two.await?;
    let id = before.group(&name).context("it was just seen")?.id.clone();

    site.management.stop_apiserver().await;
    let mut client = adapter.client(&site, Generation::New)?;
    let failed = refresh_until(&mut client, Result::is_err).await?;
    let failed = failed.expect_err("it was just seen");
    assert_eq!(failed.code(), Code::Unavailable, "{failed}");
    ensure!(matches!(script.turn().await?, Err(Aborted::Refresh(_))));
    // Everything else is answered as if nothing had happened.
    let groups = client.node_groups().await?;
    assert_eq!(groups.len(), before.provider.groups.len());
    assert_eq!(client.target_size(&id).await?, 2);
    assert_eq!(client.nodes(&id).await?.len(), 2);
    ensure!(client.template(&id).await?.is_some());
    let node = autoscaler_client::observe::external(&before.nodes[0]);
    let group = client.node_group_for_node(&node).await?;
    assert_eq!(group.map(|group| group.id), Some(id.clone()));
    client.options(&id, &Default::default()).await?;
    let grown = client.increase(&id, 1).await;
    let code = grown.map_or_else(|status| status.code(), |()| Code::Ok);
    ensure!(
        matches!(code, Code::Unavailable | Code::DeadlineExceeded),
        "{code}"
    );

    site.management.start_apiserver().await?;
    refresh_until(&mut client, Result::is_ok).await??;
    script.wait_for_room(3, 1500);
    let three = script.until("three nodes run", |turn| turn.nodes.len() == 3);
    three.await?;
    drop(player);
    Ok(())
}
