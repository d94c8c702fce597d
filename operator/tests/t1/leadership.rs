//! Of two replicas one writes: the one that holds the Lease; who lost it, stops.
//!
//! Invariant: "writes nothing more" is counted below the operator's client, so also a write that
//! the API server would have refused counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kit::lease::{Election, Leadership, LeaseConfig, Timing};
use kit_objects::kinds;
use kube::api::DynamicObject;
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Answer;
use testkit::fixtures::wait_for;

use crate::support::{Launch, Operator, PATIENCE, Site};

/// The spans of the binary, so that a renewal may take as long here as there, whatever the test does
/// beside it. Only tries follow sooner.
fn timing() -> Timing {
    Timing {
        retry: Duration::from_millis(500),
        ..Timing::default()
    }
}

struct Replica {
    operator: Operator,
    election: Election,
    leadership: Leadership,
    /// Its Lease can be neither read nor written.
    cut_off: Arc<AtomicBool>,
}

fn replica(site: &Site, name: &str) -> Result<Replica> {
    replica_with(site, name, FaultPlan::none())
}

fn replica_with(site: &Site, name: &str, plan: FaultPlan) -> Result<Replica> {
    let cut_off = Arc::new(AtomicBool::new(false));
    let is_cut_off = Arc::clone(&cut_off);
    let plan = plan
        .answering(Answer::status(500).when(move |request| {
            request.resource == "leases" && is_cut_off.load(Ordering::SeqCst)
        }));
    let launch = Launch::new(site)?.plan(&plan);
    let config = LeaseConfig {
        namespace: site.system.clone(),
        name: operator::manager::LEASE.to_owned(),
        identity: name.to_owned(),
        timing: timing(),
    };
    let (leadership, election) = Election::start(launch.client(site)?, config);
    let launch = Launch {
        leadership: leadership.clone(),
        instance: name.to_owned(),
        ..launch
    };
    Ok(Replica {
        operator: launch.start(site)?,
        election,
        leadership,
        cut_off,
    })
}

/// The first replica leads and has made a tenant cluster; the second waits.
async fn pair(prefix: &str) -> Result<Option<(Site, Replica, Replica)>> {
    let Some(site) = Site::new(prefix).await? else {
        return Ok(None);
    };
    let first = replica(&site, "operator-1")?;
    leads(&first).await?;
    let second = replica(&site, "operator-2")?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    ensure!(!second.leadership.is_leader(), "both lead");
    ensure!(
        second.operator.plan.writes() == 0,
        "the one that waits wrote"
    );
    Ok(Some((site, first, second)))
}

async fn leads(replica: &Replica) -> Result<()> {
    let acquired = tokio::time::timeout(PATIENCE, replica.leadership.acquired()).await;
    acquired.context("it does not come to lead")
}

async fn holder(site: &Site, wanted: &str) -> Result<()> {
    let leases = site.objects(kinds::LEASE, &site.system);
    let held = |lease: Option<&DynamicObject>| {
        lease.is_some_and(|l| l.data["spec"]["holderIdentity"].as_str().unwrap_or("") == wanted)
    };
    wait_for(&leases, operator::manager::LEASE, held, PATIENCE)
        .await
        .map(drop)
}

/// What the former leader wrote last, and whatever else happened, the one that waits did not hear of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_leader_decides_by_a_list_that_it_made_after_it_had_won() -> Result<()> {
    let Some(site) = Site::new("stalled").await? else {
        return Ok(());
    };
    let first = replica(&site, "operator-1")?;
    leads(&first).await?;
    // Its first watch on TenantClusters stands still, and nothing says so.
    let is_first = AtomicBool::new(true);
    let plan = FaultPlan::none().silencing(move |request| {
        request.resource == "tenantclusters" && is_first.swap(false, Ordering::SeqCst)
    });
    let second = replica_with(&site, "operator-2", plan)?;
    second.operator.context.stores.wait_until_ready().await?;
    site.create("demo").await?;
    site.wait_ready("demo").await?;
    drop(first);
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": 2 } } }),
    )
    .await?;
    leads(&second).await?;
    site.wait_ready("demo").await?;
    ensure!(second.operator.plan.writes() > 0, "who wrote?");
    Ok(())
}

async fn works(site: &Site, replicas: i32) -> Result<()> {
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": replicas } } }),
    )
    .await?;
    site.wait_ready("demo").await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_replica_takes_over_when_the_leader_dies() -> Result<()> {
    let Some((site, first, second)) = pair("failover").await? else {
        return Ok(());
    };
    drop(first);
    leads(&second).await?;
    holder(&site, "operator-2").await?;
    works(&site, 2).await?;
    ensure!(second.operator.plan.writes() > 0, "who wrote?");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leader_that_cannot_renew_its_lease_ends_and_writes_nothing_more() -> Result<()> {
    let Some((site, mut first, second)) = pair("cut-off").await? else {
        return Ok(());
    };
    // Everything but the Lease would still be written.
    first.cut_off.store(true, Ordering::SeqCst);
    leads(&second).await?;
    ensure!(!first.leadership.is_leader(), "both lead");
    let error = first.operator.ended().await.unwrap_err().to_string();
    ensure!(
        error.contains("the Lease covey-operator is lost"),
        "{error}"
    );
    let before = first.operator.plan.writes();
    works(&site, 3).await?;
    second.operator.settle(&site, "demo").await?;
    // Not even when it is asked to.
    ensure!(
        first.operator.reconcile(&site, "demo").await.is_ok(),
        "nothing is left to write"
    );
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": 4 } } }),
    )
    .await?;
    let _ = first.operator.reconcile(&site, "demo").await;
    site.wait_ready("demo").await?;
    ensure!(
        first.operator.plan.writes() == before,
        "the old leader wrote"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lease_that_another_took_fences_the_old_leader() -> Result<()> {
    let Some((site, mut first, second)) = pair("stolen").await? else {
        return Ok(());
    };
    drop(second);
    // What an operator of another version, or a person, may do.
    let stolen = json!({ "spec": { "holderIdentity": "somebody-else" } });
    let leases = site.objects(kinds::LEASE, &site.system);
    leases
        .patch(
            operator::manager::LEASE,
            &Default::default(),
            &kube::api::Patch::Merge(&stolen),
        )
        .await?;
    ensure!(first.operator.ended().await.is_err(), "it went on");
    let before = first.operator.plan.writes();
    site.change(
        "demo",
        &json!({ "spec": { "controlPlane": { "replicas": 2 } } }),
    )
    .await?;
    let refused = first
        .operator
        .reconcile(&site, "demo")
        .await
        .unwrap_err()
        .to_string();
    ensure!(refused.contains("not the leader any more"), "{refused}");
    ensure!(
        first.operator.plan.writes() == before,
        "the old leader wrote"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_stops_gives_the_lease_back() -> Result<()> {
    let Some((site, first, second)) = pair("graceful").await? else {
        return Ok(());
    };
    // Without a rival first: what is given back stays free.
    drop(second);
    first.operator.stop().await?;
    first.election.release().await;
    ensure!(!first.leadership.is_leader(), "it still leads");
    holder(&site, "").await?;
    let third = replica(&site, "operator-3")?;
    leads(&third).await?;
    works(&site, 2).await
}
