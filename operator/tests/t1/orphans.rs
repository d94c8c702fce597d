//! Tenant namespaces whose TenantCluster is gone without the operator: told of, and removed in time.
//!
//! Invariant: nothing is concluded from an API that does not answer, and nothing is touched that lacks a
//! label of the operator.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use api::names;
use kit::lease::Candidate;
use kit_objects::kinds;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::{ResourceExt, api::PartialObjectMeta};
use operator::controllers::tenant_namespace;
use operator::orphans::TenantNamespace;
use serde_json::json;
use testkit::FaultPlan;
use testkit::faults::Answer;
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::site::tenant_namespace as namespace_of;
use crate::support::{Launch, Operator, PATIENCE, Site, settled};

/// An installation without an operator, whose only TenantCluster was taken away by force.
async fn orphaned(prefix: &str) -> Result<Option<(Site, String)>> {
    let Some((site, operator, cluster)) = settled(prefix).await? else {
        return Ok(None);
    };
    operator.stop().await?;
    take_away(&site).await?;
    Ok(Some((site, namespace_of(&cluster))))
}

async fn take_away(site: &Site) -> Result<()> {
    site.delete("demo").await?;
    site.change("demo", &json!({ "metadata": { "finalizers": null } }))
        .await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await
}

fn keeping_for(site: &Site, time: Option<&str>) -> Result<Operator> {
    let mut launch = Launch::new(site)?;
    launch.settings.orphans.remove_after = time.map(Into::into);
    launch.start(site)
}

/// An operator that does not lead: what it would write fails.
fn waiting(site: &Site, plan: &FaultPlan) -> Result<(Operator, Candidate)> {
    let (leadership, candidate) = Candidate::new();
    let launch = Launch {
        leadership,
        ..Launch::new(site)?.plan(plan)
    };
    Ok((launch.start(site)?, candidate))
}

async fn reconcile(site: &Site, operator: &Operator, name: &str) -> Result<()> {
    let namespaces = Api::<TenantNamespace>::all(site.admin.clone());
    let seen: PartialObjectMeta<_> = namespaces.get(name).await?;
    let context = Arc::clone(&operator.context);
    tenant_namespace::reconcile(Arc::new(seen), context).await?;
    Ok(())
}

fn is_marked(namespace: &DynamicObject) -> bool {
    let annotations = namespace.annotations();
    annotations.contains_key(names::ANNOTATION_ORPHANED_SINCE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_namespace_that_lost_its_tenant_cluster_is_told_of_and_removed_in_time() -> Result<()>
{
    let Some((site, ns)) = Box::pin(orphaned("orphan")).await? else {
        return Ok(());
    };
    let namespaces = site.objects(kinds::NAMESPACE, "");
    let operator = keeping_for(&site, Some("1h"))?;
    let marked = |found: Option<&DynamicObject>| found.is_some_and(is_marked);
    wait_for(&namespaces, &ns, marked, PATIENCE).await?;
    let event = site
        .wait_event_in("default", &ns, "TenantClusterGone")
        .await?;
    let note = event.note.unwrap_or_default();
    ensure!(note.contains(&format!("{}/demo", site.users)), "{note}");
    // Looked at once more, it is known and kept.
    reconcile(&site, &operator, &ns).await?;
    ensure!(
        operator.context.orphans.since(&ns).is_some(),
        "not in /state"
    );
    let kept = namespaces.get(&ns).await?;
    ensure!(
        kept.metadata.deletion_timestamp.is_none(),
        "removed at once"
    );
    operator.stop().await?;

    // For how long it has been one stands on itself: the next leader goes on from there.
    let _operator = keeping_for(&site, Some("1s"))?;
    let goes = |found: Option<&DynamicObject>| {
        found.is_none_or(|n| n.metadata.deletion_timestamp.is_some())
    };
    wait_for(&namespaces, &ns, goes, PATIENCE).await?;
    Ok(())
}

/// The operator sees that it goes, and cannot see to it in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_cluster_that_goes_while_the_operator_leads_is_missed_at_once() -> Result<()> {
    let Some(site) = Site::new("orphan-seen").await? else {
        return Ok(());
    };
    let away = Arc::new(AtomicBool::new(false));
    let is_away = Arc::clone(&away);
    let plan = FaultPlan::none().answering(Answer::status(500).when(move |request| {
        let asked = request.resource == "tenantclusters" && request.verb == "get";
        asked && is_away.load(Ordering::SeqCst)
    }));
    let operator = Launch::new(&site)?.plan(&plan).start(&site)?;
    site.create("demo").await?;
    let ns = namespace_of(&site.wait_ready("demo").await?);
    operator.settle(&site, "demo").await?;
    away.store(true, Ordering::SeqCst);
    take_away(&site).await?;
    let namespaces = site.objects(kinds::NAMESPACE, "");
    let left = namespaces.get(&ns).await?;
    ensure!(!is_marked(&left) && left.metadata.deletion_timestamp.is_none());
    away.store(false, Ordering::SeqCst);
    let marked = |found: Option<&DynamicObject>| found.is_some_and(is_marked);
    wait_for(&namespaces, &ns, marked, PATIENCE).await?;
    namespaces.delete(&ns, &Default::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_does_not_say_is_not_taken_for_absent() -> Result<()> {
    let Some((site, ns)) = Box::pin(orphaned("orphan-unknown")).await? else {
        return Ok(());
    };
    let namespaces = site.objects(kinds::NAMESPACE, "");
    for (verb, code) in [("get", 500), ("list", 500), ("list", 404)] {
        let refused = Arc::new(Mutex::new("get"));
        let refuses = Arc::clone(&refused);
        let plan = FaultPlan::none().answering(Answer::status(code).when(move |request| {
            request.resource == "tenantclusters" && request.verb == *refuses.lock().unwrap()
        }));
        let (operator, _candidate) = waiting(&site, &plan)?;
        operator.context.stores.wait_until_ready().await?;
        *refused.lock().unwrap() = verb;
        let answer = reconcile(&site, &operator, &ns).await;
        ensure!(answer.is_err(), "{verb} fails with {code}, and it goes on");
        ensure!(!is_marked(&namespaces.get(&ns).await?), "{verb}: {code}");
    }
    namespaces.delete(&ns, &Default::default()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_that_somebody_changed_make_no_orphan() -> Result<()> {
    let Some((site, operator, cluster)) = settled("orphan-labels").await? else {
        return Ok(());
    };
    operator.stop().await?;
    let ns = namespace_of(&cluster);
    let namespaces = site.objects(kinds::NAMESPACE, "");
    for (label, value) in [
        // The TenantCluster is found by its UID.
        (names::LABEL_TENANT_NAMESPACE, json!("elsewhere")),
        // And what is not complete is not ours.
        (names::LABEL_MANAGED_BY, json!(null)),
        (names::LABEL_COMPONENT, json!("another")),
    ] {
        let patch = Patch::Merge(json!({ "metadata": { "labels": { label: value } } }));
        namespaces
            .patch(&ns, &PatchParams::default(), &patch)
            .await?;
        let (operator, _candidate) = waiting(&site, &FaultPlan::none())?;
        operator.context.stores.wait_until_ready().await?;
        reconcile(&site, &operator, &ns).await?;
        ensure!(operator.context.orphans.since(&ns).is_none(), "{label}");
    }
    Ok(())
}
