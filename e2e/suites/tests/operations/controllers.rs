//! Needs: operator
//!
//! kube-controller-manager and kube-scheduler that do not work take nothing of the API away, and are told.

use anyhow::{Result, ensure};
use api::{ConditionType, Reason, TenantCluster};
use serde_json::json;
use suites::{
    cluster::{Tenant, wait::wait_for},
    scenario::{self, PATIENCE, Scenario},
};

use crate::writer::Asker;

/// Finding 26: beside the kube-apiserver a scheduler that crashed left the endpoint without a pod.
#[tokio::test]
async fn scheduler_that_crashes_takes_no_endpoint_away() {
    scenario::run("controllers", crashes).await;
}

/// It is let in, and the kube-scheduler ends as soon as it reads it beside its other times: "leaseDuration
/// must be greater than renewDeadline".
const FLAG: &str = "leader-elect-lease-duration";

async fn crashes(s: &Scenario) -> Result<()> {
    let tenant = s
        .tenant("demo", |spec| {
            let flags = &mut spec.control_plane.scheduler.extra_args;
            flags.insert(FLAG.to_owned(), "1s".to_owned());
        })
        .await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    told(&tenant, "its scheduler crashes", |cluster| {
        says(
            cluster,
            ConditionType::ControllersReady,
            Reason::CrashLooping,
        ) && says(cluster, ConditionType::Ready, Reason::ControllersNotReady)
    })
    .await?;
    let servers = tenant.pod_uids("control-plane").await?;
    let asker = Asker::start(admin.clone());
    // It goes on like that until a person is needed, over a minute later.
    let degraded = told(&tenant, "it is Degraded", |cluster| {
        says(cluster, ConditionType::Degraded, Reason::CrashLooping)
    })
    .await?;
    ensure!(
        says(&degraded, ConditionType::Ready, Reason::ControllersNotReady),
        "between two crashes it is no better: {:?}",
        degraded.status
    );
    asker.finish(200).await?;

    let asker = Asker::start(admin);
    let without = json!({ "controlPlane": { "scheduler": { "extraArgs": { FLAG: null } } } });
    tenant.change(&without).await?;
    tenant.settled(PATIENCE).await?;
    asker.finish(1).await?;
    ensure!(
        tenant.pod_uids("control-plane").await? == servers,
        "a flag of the scheduler restarted a kube-apiserver"
    );
    Ok(())
}

fn says(cluster: &TenantCluster, type_: ConditionType, reason: Reason) -> bool {
    let conditions = cluster.status.iter().flat_map(|s| &s.conditions);
    let mut found = conditions.filter(|c| c.type_ == type_.as_str());
    found.any(|c| c.reason == reason)
}

async fn told(
    tenant: &Tenant,
    what: &str,
    is: impl Fn(&TenantCluster) -> bool,
) -> Result<TenantCluster> {
    wait_for(&tenant.api(), &tenant.name, what, PATIENCE, |cluster| {
        is(cluster).then(|| cluster.clone())
    })
    .await
}
