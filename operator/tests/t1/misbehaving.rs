//! A tenant whose kube-apiserver is a program of theirs that misbehaves, in its answers and below HTTP
//! (security findings, hostile-tenant suite: slow, huge, wrong versions, GOAWAY storms).
//!
//! Invariant: one operator goes through all of it; what it takes is judged by bytes and by counts of what was
//! sent to it, never by a time.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::condition::is_true;
use api::{ConditionType, Reason, TenantCluster};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use testkit::fakes::tenant_api::{Mode, Wire};

use crate::support::site::tenant_namespace;
use crate::support::{Operator, Site, settled};

/// What is taken of one answer, and what is under way when its reader stops: windows of HTTP/2 and buffers of
/// sockets.
const ANSWER: u64 = (4 << 20) + (8 << 20);
/// Answers that were played for a reconcile of the test, those of the operator's own, and watches that come
/// back with pauses that grow: eleven of them, a handful of times.
const TRIES: usize = 150;

/// One way to misbehave.
struct Way {
    name: &'static str,
    mode: Mode,
    /// Type and value of the condition that tells it, its reason, and words of its message.
    told: (ConditionType, &'static str, Reason, &'static str),
}

const UNREACHABLE: Reason = Reason::ApiUnreachable;

/// Why the API is not reached.
const fn silent(name: &'static str, mode: Mode, words: &'static str) -> Way {
    let told = (ConditionType::Ready, "False", UNREACHABLE, words);
    Way { name, mode, told }
}

const WAYS: [Way; 9] = [
    // Whether the frame or the end of the connection is seen first is chance.
    silent("goaway", Mode::Wire(Wire::GoAway), "client error"),
    silent("refuses", Mode::Wire(Wire::Refuses), "refused"),
    silent("header", Mode::Wire(Wire::EndlessHeader), "client error"),
    silent(
        "drips",
        Mode::Drip(Duration::from_millis(20)),
        "did not answer",
    ),
    silent(
        "slow",
        Mode::Slow(Duration::from_millis(4900)),
        "did not answer",
    ),
    silent("huge", Mode::EndlessBody, " bytes"),
    silent("page", Mode::Page, "expected value"),
    silent("fails", Mode::Failing, "InternalError"),
    Way {
        name: "version",
        mode: Mode::Claims("v9.99.0"),
        told: (
            ConditionType::Degraded,
            "True",
            Reason::ServesOtherVersion,
            "9.99.0",
        ),
    },
];

fn condition(cluster: &TenantCluster, type_: ConditionType) -> Option<&Condition> {
    let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
    conditions.find(|condition| condition.type_ == type_.as_str())
}

fn is_ready(cluster: &TenantCluster) -> bool {
    let is = |type_| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| is_true(&status.conditions, type_))
    };
    is(ConditionType::Ready) && !is(ConditionType::Degraded)
}

/// One look now: in a cluster it comes once a probe heard that it answers.
async fn look(operator: &Operator, site: &Site, cluster: &TenantCluster) -> Result<()> {
    let uid = cluster.uid().context("it was not read")?;
    operator.context.breaker.close(&uid);
    operator.context.recovery_probes.forget(&uid);
    operator.reconcile(site, "demo").await
}

/// It is told what it did, in a reason of the catalogue, and costs no more than what is taken of anybody.
async fn misbehaves(operator: &Operator, site: &Site, way: &Way) -> Result<()> {
    let cluster = site.clusters().get("demo").await?;
    let ns = tenant_namespace(&cluster);
    let before = site.tenants.played(&ns).len();
    ensure!(site.tenants.set(&ns, way.mode), "it has no server");
    look(operator, site, &cluster).await?;
    let (type_, value, reason, words) = way.told;
    let told = |cluster: &TenantCluster| {
        let condition = condition(cluster, type_);
        condition.is_some_and(|c| c.status == value && reason == c.reason.as_str())
    };
    let told = site.wait("demo", told).await.context("nobody is told")?;
    let message = condition(&told, type_).map(|c| c.message.clone());
    let message = message.unwrap_or_default();
    ensure!(message.contains(words), "it is said: {message}");
    ensure!(message.len() < 1024, "{} bytes of it", message.len());

    // What is asked of a tenant is the same for a new one beside it, from nothing to ready.
    site.create(way.name).await?;
    let ready = site.wait_ready(way.name).await;
    ready.context("another tenant is held up")?;
    let played = site.tenants.played(&ns).split_off(before);
    let largest = played.iter().copied().max().unwrap_or_default();
    ensure!(largest <= ANSWER, "{largest} bytes of one answer were sent");
    ensure!(played.len() <= TRIES, "it is tried {} times", played.len());

    ensure!(site.tenants.set(&ns, Mode::Up), "it has no server");
    look(operator, site, &cluster).await?;
    let again = site.wait("demo", is_ready).await;
    again.map(drop).context("it is not ready again")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_whose_server_misbehaves_in_every_way_harms_itself_only() -> Result<()> {
    let Some((site, operator, _)) = settled("misbehaves").await? else {
        return Ok(());
    };
    site.create("beside").await?;
    site.wait_ready("beside").await?;
    operator.settle(&site, "beside").await?;
    let beside = site.clusters().get("beside").await?;
    let mut failed = Vec::new();
    for way in &WAYS {
        if let Err(error) = Box::pin(misbehaves(&operator, &site, way)).await {
            failed.push(format!("{}: {error:#}", way.name));
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    let now = site.clusters().get("beside").await?;
    let (now, before) = (now.resource_version(), beside.resource_version());
    ensure!(now == before, "the status of another one was written");
    // It is the same operator, and ends in order.
    operator.stop().await
}

/// What a kube-apiserver with `--goaway-chance` does now and then, and a hostile one always: clients have to
/// come back, and may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_whose_server_ends_each_connection_is_asked_on_new_ones() -> Result<()> {
    let Some((site, operator, cluster)) = settled("goaways").await? else {
        return Ok(());
    };
    let ns = tenant_namespace(&cluster);
    drop(operator);
    ensure!(site.tenants.set(&ns, Mode::OneEach), "it has no server");
    let before = site.tenants.calls(&ns).len();
    let operator = Operator::start(&site)?;
    operator.reconcile(&site, "demo").await?;
    site.wait_ready("demo").await?;
    let sans = serde_json::json!({
        "spec": { "controlPlane": { "endpoint": { "certSANs": ["a.example.com"] } } }
    });
    site.change("demo", &sans).await?;
    operator.settle(&site, "demo").await?;
    let (ended, asked) = (
        site.tenants.played(&ns).len(),
        site.tenants.calls(&ns).len() - before,
    );
    ensure!(ended > 0, "no connection was ended");
    // Some are asked for in vain, because the other end was told to go while they were on their way.
    ensure!(
        ended <= 2 * asked,
        "{ended} connections for {asked} requests"
    );
    let demo = site.clusters().get("demo").await?;
    ensure!(is_ready(&demo), "it is not ready: {demo:?}");
    operator.stop().await
}
