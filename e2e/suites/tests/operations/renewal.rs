//! Needs: operator
//!
//! The serving certificate is made anew and taken up without a restart and without a failed
//! request; so are the components' own.
//!
//! The pair is taken out of the Secret, which is what an expired one is to the operator: something
//! to be issued.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use suites::{
    cluster::{Tenant, parts::restarts, served::served, wait::wait_for},
    scenario::{self, PATIENCE, Scenario},
};

use crate::writer::Asker;

#[tokio::test]
async fn a_new_serving_certificate_is_taken_up_without_a_restart_or_a_failed_request() {
    scenario::run("renewal", renewal).await;
}

async fn renewal(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    let pods = pods(&tenant).await?;
    let endpoint = tenant
        .get()
        .await?
        .status
        .and_then(|status| status.endpoint);
    let endpoint = endpoint.context("no endpoint")?;
    let authority = tenant.secret("ca", "ca.crt").await?;
    let before = served(&endpoint, &authority).await?;
    let asker = Asker::start(admin);

    let secrets: Api<Secret> = tenant.parts();
    let old = tenant.secret("apiserver", "apiserver.crt").await?;
    let patch = json!({ "data": { "apiserver.crt": null, "apiserver.key": null } });
    secrets
        .patch("apiserver", &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    wait_for(
        &secrets,
        "apiserver",
        "has a new pair",
        PATIENCE,
        |secret| {
            let pem = secret.data.as_ref()?.get("apiserver.crt")?;
            (pem.0 != old && !pem.0.is_empty()).then_some(())
        },
    )
    .await?;
    // The kubelet brings a changed Secret into the pod within about a minute and a half.
    let changed = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        loop {
            ticks.tick().await;
            if served(&endpoint, &authority).await? != before {
                return anyhow::Ok(());
            }
        }
    };
    let result = tokio::time::timeout(PATIENCE, changed).await;
    result.context("the old certificate is still served")??;
    asker.finish(20).await?;
    ensure!(self::pods(&tenant).await? == pods, "pods were restarted");
    tenant.settled(PATIENCE).await.map(drop)
}

/// UIDs and restarts of all pods.
async fn pods(tenant: &Tenant) -> Result<Vec<(Option<String>, i32)>> {
    let list = tenant.parts::<Pod>().list(&ListParams::default()).await?;
    let mut pods: Vec<_> = list
        .iter()
        .map(|pod| (pod.metadata.uid.clone(), restarts(pod, None)))
        .collect();
    pods.sort();
    Ok(pods)
}
