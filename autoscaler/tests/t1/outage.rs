//! The management API goes for five minutes, or is silent for as long, and comes back: `Refresh` says so
//! once the patience is over, and all else is answered as before. The API really is away; the minutes are
//! those of a clock that the test sets forward.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use autoscaler::cache::staleness::Staleness;
use autoscaler_client::observe::{Aborted, external};
use autoscaler_client::{Generation, Group, Protocol};
use proto::autoscaler::Instance;
use proto::autoscaler::instance_status::InstanceState;
use serde_json::json;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::support::script::Turn;
use crate::support::{Adapter, Environment, FakeOperator, PATIENCE, Script};

/// How long the API is away, in seconds.
const AWAY: u64 = 300;
/// Time between two loops of the stock client, in seconds.
const SCAN: usize = 10;

/// Asks as the client does, again and again, until it is as wanted.
async fn until(what: &str, mut wanted: impl AsyncFnMut() -> bool) -> Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    let asked = tokio::time::timeout(PATIENCE, async {
        loop {
            ticks.tick().await;
            if wanted().await {
                return;
            }
        }
    });
    asked.await.with_context(|| format!("not seen: {what}"))
}

fn runs(instance: &Instance) -> bool {
    let status = instance.status.as_ref();
    status.is_some_and(|status| status.instance_state() == InstanceState::Running)
}

/// Everything but Refresh is answered as it was in `before`.
async fn answers_as_before(client: &mut Protocol, before: &Turn, pool: &str) -> Result<()> {
    let group = before.group(pool).context("it was just seen")?;
    let groups = client.node_groups().await?;
    assert_eq!(groups.len(), before.provider.groups.len());
    let told = groups.iter().find(|told| told.id == group.id);
    let told = told.map(|told| (told.min_size, told.max_size));
    assert_eq!(told, Some((group.min, group.max)));
    assert_eq!(client.target_size(&group.id).await?, group.target);
    assert_eq!(client.nodes(&group.id).await?, group.instances);
    ensure!(client.template(&group.id).await?.is_some());
    for node in &before.nodes {
        let found = client.node_group_for_node(&external(node)).await?;
        assert_eq!(found.map(|found| found.id), Some(group.id.clone()));
    }
    client.options(&group.id, &Default::default()).await?;
    Ok(())
}

/// How the management API is away.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Away {
    /// It ended: who asks is refused at once.
    Ended,
    /// It stopped in its tracks: connections stay open, and nothing comes over them.
    Silent,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_refresh_fails_and_only_after_the_patience_while_the_management_api_is_away()
-> Result<()> {
    only_refresh_fails("outage", Away::Ended).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_refresh_fails_and_only_after_the_patience_while_the_management_api_is_silent()
-> Result<()> {
    only_refresh_fails("silence", Away::Silent).await
}

async fn only_refresh_fails(prefix: &str, how: Away) -> Result<()> {
    let Some(environment) = Environment::alone(prefix).await? else {
        return Ok(());
    };
    let (start, passed) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let clock = Arc::clone(&passed);
    let staleness = Staleness::new(Arc::new(move || {
        start + Duration::from_secs(clock.load(Ordering::Relaxed))
    }));
    let adapter = Adapter::timed(&environment, staleness).await?;
    let patience = environment.settings().patience.as_secs();
    assert_eq!(patience, 120, "what the program does without flags");
    let operator = FakeOperator::start(&environment);
    let name = environment
        .pool("away", 2, &json!({ "min": 1, "max": 3 }))
        .await?;
    let mut script = Script::new(&environment, &adapter, Generation::New, &[&name])?;
    script.wait_for_room(2, 1500);
    // A node is there before its machine says that it runs.
    let before = script.until("two nodes run", |turn| {
        let run = |group: &Group| {
            let instances = &group.instances;
            group.target == 2 && instances.len() == 2 && instances.iter().all(runs)
        };
        turn.nodes.len() == 2 && turn.group(&name).is_some_and(run)
    });
    let before = before.await?;
    let id = before.group(&name).context("it was just seen")?.id.clone();
    let mut client = adapter.client(&environment, Generation::New)?;
    // That a machine runs may be known before which node is its own.
    until("which group both nodes are of", async || {
        for node in &before.nodes {
            let found = client.node_group_for_node(&external(node)).await;
            if !found.is_ok_and(|found| found.is_some()) {
                return false;
            }
        }
        true
    })
    .await?;

    let management = &environment.management;
    match how {
        Away::Ended => management.stop_apiserver().await?,
        Away::Silent => management.pause().await?,
    }
    let staleness = &adapter.manager.context.staleness;
    until("that the API is away", async || {
        staleness.broken_for().is_some()
    })
    .await?;
    for away in (0..=AWAY).step_by(SCAN) {
        passed.store(away, Ordering::Relaxed);
        let refreshed = client.refresh().await.map_err(|status| status.code());
        let expected = match away > patience {
            true => Err(Code::Unavailable),
            false => Ok(()),
        };
        assert_eq!(refreshed, expected, "after {away} s");
        answers_as_before(&mut client, &before, &name).await?;
    }
    ensure!(matches!(script.turn().await?, Err(Aborted::Refresh(_))));
    let grown: Result<(), Status> = client.increase(&id, 1).await;
    let code = grown.map_or_else(|status| status.code(), |()| Code::Ok);
    ensure!(
        matches!(code, Code::Unavailable | Code::DeadlineExceeded),
        "{code}"
    );

    match how {
        Away::Ended => management.start_apiserver().await?,
        Away::Silent => management.resume().await?,
    }
    until("that it is back", async || client.refresh().await.is_ok()).await?;
    script.wait_for_room(3, 1500);
    let three = script.until("three nodes run", |turn| turn.nodes.len() == 3);
    three.await?;
    drop(operator);
    Ok(())
}
