//! Needs: operator
//!
//! Two control-plane pods: either may go and the API keeps answering.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use suites::{
    cluster::wait::{wait_for, wait_gone},
    scenario::{self, PATIENCE, Scenario},
};

use crate::writer::Writer;

#[tokio::test]
async fn two_replicas_survive_the_loss_of_either() {
    scenario::run("replicas", replicas).await;
}

async fn replicas(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    let status = tenant.settled(PATIENCE).await?.status.unwrap_or_default();
    let pods: Api<Pod> = tenant.parts();
    let first = tenant.pods_of("control-plane").await?.pop();
    let first = first.context("no control-plane pod")?;

    let patch = json!({ "spec": { "controlPlane": { "replicas": 2 } } });
    tenant
        .api()
        .patch("demo", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    ready(&tenant.parts(), 2).await?;
    // Scaling restarts nobody and moves nothing.
    let all = tenant.pods_of("control-plane").await?;
    ensure!(
        all.iter().any(|pod| pod.metadata.uid == first.metadata.uid),
        "the first pod is gone"
    );
    let after = tenant.settled(PATIENCE).await?.status.unwrap_or_default();
    ensure!(
        after.endpoint == status.endpoint,
        "the endpoint changed: {:?}",
        after.endpoint
    );

    let writer = Writer::start(admin);
    writer.more(20, Duration::from_secs(60)).await?;
    for pod in all {
        let (name, uid) = (pod.name_any(), pod.metadata.uid.clone());
        pods.delete(&name, &DeleteParams::default()).await?;
        writer.more(20, Duration::from_secs(60)).await?;
        wait_gone(&pods, &name, uid.as_deref(), PATIENCE).await?;
        ready(&tenant.parts(), 2).await?;
        writer.more(20, Duration::from_secs(60)).await?;
    }
    writer.finish().await
}

async fn ready(deployments: &Api<Deployment>, count: i32) -> Result<()> {
    wait_for(
        deployments,
        "control-plane",
        "all pods are ready",
        PATIENCE,
        |deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let replicas = deployment.spec.as_ref()?.replicas;
            (replicas == Some(count) && status.ready_replicas == Some(count)).then_some(())
        },
    )
    .await
}
