//! Whatever goes wrong between the operator and the API server, a tenant cluster is created,
//! changed and deleted all the same.
//!
//! Invariant: each fault is shown to have happened, by the proxy's own count.

use anyhow::{Context as _, Result, ensure};
use api::ConditionType;
use api::condition::is_true;
use serde_json::json;
use testkit::fixtures::wait_gone;
use testkit::proxy::{Action, Rule};

use crate::baseline::{baseline, change};
use crate::support::proxy::Faults;
use crate::support::site::tenant_namespace;
use crate::support::state::{State, differences};
use crate::support::{Launch, Operator, PATIENCE, Site};

const WRITES: &str = "create|patch|delete";
const REQUESTS: &str = "get|list|create|patch|delete";

/// Creates, changes and deletes a tenant cluster while the rule holds.
async fn survives(prefix: &str, rule: Rule) -> Result<()> {
    let Some(site) = Site::new(prefix).await? else {
        return Ok(());
    };
    let (created, changed) = baseline().await?.context("the programs are gone")?;
    let faults = Faults::of(&site).await?;
    faults.set("rule", rule.clone()).await?;
    let operator = Launch {
        config: faults.config()?,
        ..Launch::new(&site)?
    }
    .start(&site)?;
    let mut fired = 0;
    // The fault lasts until it is ready; comparing is done in peace.
    let mut at_peace = async |wanted: &State| -> Result<()> {
        fired += faults.counted("rule").await?.fired;
        faults.remove("rule").await?;
        operator.settle(&site, "demo").await?;
        let different = differences(wanted, &site.state("demo").await?);
        ensure!(
            different.is_empty(),
            "not the same end:\n{}",
            different.join("\n")
        );
        faults.set("rule", rule.clone()).await
    };
    let cluster = site.create("demo").await?;
    site.wait_ready("demo").await.context("create")?;
    ensure!(
        site.tenant_namespaces().await? == [tenant_namespace(&cluster)],
        "more than one"
    );
    at_peace(created).await?;
    change(&site).await.context("change")?;
    at_peace(changed).await?;
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE)
        .await
        .context("delete")?;
    ensure!(site.tenant_namespaces().await?.is_empty(), "left behind");
    fired += faults.counted("rule").await?.fired;
    faults.remove("rule").await?;
    ensure!(fired > 0, "the fault did not happen");
    Ok(())
}

fn answer(status: u16, retry_after: Option<u32>) -> Rule {
    Rule::new(Action::Answer {
        status,
        retry_after,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conflict_at_every_fourth_write_is_overcome() -> Result<()> {
    survives("conflict", answer(409, None).verb(WRITES).every(4)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throttling_with_retry_after_is_waited_out() -> Result<()> {
    survives("throttled", answer(429, Some(1)).verb(REQUESTS).every(12)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn internal_errors_are_overcome() -> Result<()> {
    survives("internal", answer(500, None).verb(REQUESTS).every(30)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_server_is_asked_again() -> Result<()> {
    survives("unavailable", answer(503, None).verb(REQUESTS).every(8)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_are_opened_again() -> Result<()> {
    survives("refused", Rule::new(Action::Refuse).verb(REQUESTS).every(9)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_whose_reply_is_lost_is_not_done_twice() -> Result<()> {
    survives("lost", Rule::new(Action::LoseReply).verb(WRITES).every(4)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_watches_are_opened_again() -> Result<()> {
    survives("no-watch", answer(500, None).verb("watch").every(2)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_break_at_every_fifth_event_are_taken_up() -> Result<()> {
    survives("broken", Rule::new(Action::CloseWatch).every(5)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_expire_are_listed_anew() -> Result<()> {
    survives("expired", Rule::new(Action::ExpireWatch).every(5)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_that_come_twice_cost_nothing() -> Result<()> {
    survives("twice", Rule::new(Action::RepeatEvent)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_missed_while_watches_stood_still_are_made_up_for() -> Result<()> {
    let Some(site) = Site::new("stalled").await? else {
        return Ok(());
    };
    let faults = Faults::of(&site).await?;
    let config = faults.config()?;
    let operator = Launch {
        config,
        ..Launch::new(&site)?
    }
    .start(&site)?;
    site.create("first").await?;
    site.wait_ready("first").await?;
    operator.settle(&site, "first").await?;

    // Nothing arrives; then every watch has missed too much (410), what it held back included.
    faults.set("stall", Rule::new(Action::StallWatch)).await?;
    let window = site.api.audit().window()?;
    site.create("second").await?;
    site.wait("second", |_| true).await?;
    // A whole look at another one, each request of which goes the way on which the event stands still.
    operator.reconcile(&site, "first").await?;
    window.assert_no_writes(&site.user())?;
    site.change(
        "first",
        &json!({ "spec": { "controlPlane": { "replicas": 2 } } }),
    )
    .await?;
    faults
        .set("expire", Rule::new(Action::ExpireWatch).every(1).times(20))
        .await?;
    faults.remove("stall").await?;
    site.wait_ready("second").await?;
    site.wait_ready("first").await?;
    ensure!(
        faults.counted("expire").await?.fired > 0,
        "no watch expired"
    );
    faults.remove("expire").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_events_are_made_up_for_once_the_watch_is_opened_again() -> Result<()> {
    let Some(site) = Site::new("dropped").await? else {
        return Ok(());
    };
    let faults = Faults::of(&site).await?;
    let config = faults.config()?;
    let _operator = Launch {
        config,
        ..Launch::new(&site)?
    }
    .start(&site)?;
    site.create("first").await?;
    site.wait_ready("first").await?;
    let tenant_clusters = Rule::new(Action::DropEvent)
        .path("/tenantclusters")
        .event("ADDED");
    faults.set("drop", tenant_clusters.times(1)).await?;
    site.create("second").await?;
    // The next event of that watch comes with a 410 instead.
    faults
        .set(
            "expire",
            Rule::new(Action::ExpireWatch)
                .path("/tenantclusters")
                .times(1),
        )
        .await?;
    site.change(
        "first",
        &json!({ "metadata": { "labels": { "example.com/a": "b" } } }),
    )
    .await?;
    site.wait_ready("second").await?;
    ensure!(
        faults.counted("drop").await?.fired == 1,
        "nothing was dropped"
    );
    ensure!(
        faults.counted("expire").await?.fired == 1,
        "nothing expired"
    );
    faults.remove("drop").await?;
    faults.remove("expire").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spec_that_cannot_be_built_leaves_what_runs_as_it_is() -> Result<()> {
    let Some(site) = Site::new("invalid").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    let before = site.state("demo").await?;
    // Without the webhook, as when it is down and its policy is Ignore.
    let bad = json!({ "spec": { "controlPlane": { "replicas": 2,
        "apiServer": { "extraArgs": { "etcd-servers": "https://evil" } } } } });
    site.change("demo", &bad).await?;
    let cluster = site
        .wait("demo", |cluster| {
            let status = cluster.status.as_ref();
            status.is_some_and(|s| is_true(&s.conditions, ConditionType::Degraded))
        })
        .await?;
    let conditions = cluster.status.context("no status")?.conditions;
    ensure!(
        is_true(&conditions, ConditionType::Ready),
        "what ran still runs"
    );
    let degraded = conditions
        .iter()
        .find(|c| c.type_ == "Degraded")
        .context("no Degraded")?;
    ensure!(
        degraded.message.contains("etcd-servers"),
        "{}",
        degraded.message
    );
    let mut after = site.state("demo").await?;
    let mut without = before.clone();
    for state in [&mut after, &mut without] {
        state.retain(|key, _| !key.starts_with("TenantCluster "));
    }
    ensure!(
        differences(&without, &after).is_empty(),
        "{:?}",
        differences(&without, &after)
    );
    // Back to what was: no trace of the mistake.
    let good = json!({ "spec": { "controlPlane": { "replicas": 1,
        "apiServer": { "extraArgs": null } } } });
    site.change("demo", &good).await?;
    site.wait_ready("demo").await?;
    operator.settle(&site, "demo").await?;
    ensure!(
        differences(&before, &site.state("demo").await?).is_empty(),
        "not as before"
    );
    Ok(())
}
