//! Needs: operator
//!
//! A changed spec is rolled out once, while the API keeps answering; a bad one changes nothing.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet};
use kube::{Api, api::ListParams};
use serde_json::json;
use suites::{
    cluster::{Tenant, credentials, wait::wait_for},
    scenario::{self, PATIENCE, Scenario},
};
use x509_parser::{extensions::GeneralName, parse_x509_certificate, pem::parse_x509_pem};

use crate::writer::Writer;

#[tokio::test]
async fn a_change_rolls_once_and_the_api_keeps_answering() {
    scenario::run("change", change).await;
}

async fn change(s: &Scenario) -> Result<()> {
    let tenant = s
        .tenant("demo", |spec| spec.control_plane.replicas = 2)
        .await?;
    let admin = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    rolled_out(&tenant, 2).await?;
    ensure!(
        counts(&tenant).await? == (2, 1),
        "after creation {:?}",
        counts(&tenant).await?
    );
    let writer = Writer::start(admin);
    writer.more(10, Duration::from_secs(60)).await?;

    tenant
        .change(&json!({ "controlPlane": { "apiServer": {
        "extraArgs": { "event-ttl": "2h" },
        "resources": { "requests": { "memory": "320Mi" } },
    } } }))
        .await?;
    let deployments: Api<Deployment> = tenant.parts();
    wait_for(
        &deployments,
        "control-plane",
        "has the new flag",
        PATIENCE,
        |deployment| {
            serde_json::to_string(deployment)
                .ok()?
                .contains("--event-ttl=2h")
                .then_some(())
        },
    )
    .await?;
    rolled_out(&tenant, 2).await?;
    let status = tenant.settled(PATIENCE).await?.status.unwrap_or_default();
    ensure!(
        status.version.as_deref() == Some(scenario::VERSION),
        "{:?}",
        status.version
    );
    ensure!(
        counts(&tenant).await? == (3, 1),
        "one change, {:?} templates",
        counts(&tenant).await?
    );
    writer.more(10, Duration::from_secs(60)).await?;
    writer.finish().await?;

    // etcd was not touched, and both requests are in the pods.
    let text = serde_json::to_string(&tenant.pods_of("control-plane").await?)?;
    ensure!(
        text.contains("320Mi") && text.contains("--event-ttl=2h"),
        "{text}"
    );
    Ok(())
}

/// A name more in the serving certificate needs no restart at all: the API reads its files again.
#[tokio::test]
async fn a_new_name_is_served_without_a_restart() {
    scenario::run("cert-sans", names).await;
}

async fn names(s: &Scenario) -> Result<()> {
    let tenant = s.tenant("demo", |_| {}).await?;
    tenant.settled(PATIENCE).await?;
    tenant
        .change(&json!({ "controlPlane": { "endpoint": { "certSANs": ["api.example.com"] } } }))
        .await?;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = tenant.parts();
    wait_for(
        &secrets,
        "apiserver",
        "holds the new name",
        PATIENCE,
        |secret| {
            let pem = secret.data.as_ref()?.get("apiserver.crt")?;
            has_name(&pem.0, "api.example.com").ok()?.then_some(())
        },
    )
    .await?;
    let endpoint = tenant
        .settled(PATIENCE)
        .await?
        .status
        .unwrap_or_default()
        .endpoint;
    let endpoint = endpoint.context("no endpoint")?;
    let credentials::Access {
        authority,
        certificate,
        key,
        ..
    } = credentials::parts(&tenant.kubeconfig(PATIENCE).await?)?;
    let server = format!("https://{}:{}", endpoint.host, endpoint.port);
    let identity = credentials::Identity::Certificate { certificate, key };
    let client = credentials::named(&server, &authority, &identity, "api.example.com").await?;
    // The kubelet brings a changed Secret into the pod within about a minute and a half.
    let served = async {
        let mut ticks = tokio::time::interval(Duration::from_millis(500));
        loop {
            ticks.tick().await;
            if client.apiserver_version().await.is_ok() {
                return;
            }
        }
    };
    let result = tokio::time::timeout(PATIENCE, served).await;
    result.context("the API does not serve the new name")?;
    ensure!(
        counts(&tenant).await? == (2, 1),
        "it was rolled out: {:?}",
        counts(&tenant).await?
    );
    Ok(())
}

fn has_name(pem: &[u8], name: &str) -> Result<bool> {
    let (_, pem) = parse_x509_pem(pem)?;
    let (_, certificate) = parse_x509_certificate(&pem.contents)?;
    let names = certificate
        .subject_alternative_name()?
        .context("no names")?;
    Ok(names
        .value
        .general_names
        .iter()
        .any(|n| matches!(n, GeneralName::DNSName(d) if *d == name)))
}

/// Pod templates that the control plane, with its controllers, and etcd have had.
async fn counts(tenant: &Tenant) -> Result<(usize, usize)> {
    let all = ListParams::default();
    let sets = tenant
        .parts::<ReplicaSet>()
        .list_metadata(&all)
        .await?
        .items
        .len();
    let revisions = tenant
        .parts::<ControllerRevision>()
        .list_metadata(&all)
        .await?
        .items
        .len();
    Ok((sets, revisions))
}

async fn rolled_out(tenant: &Tenant, replicas: i32) -> Result<()> {
    let deployments: Api<Deployment> = tenant.parts();
    wait_for(
        &deployments,
        "control-plane",
        "is rolled out",
        PATIENCE,
        |deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let current = status.observed_generation == deployment.metadata.generation;
            let all = [
                status.replicas,
                status.updated_replicas,
                status.ready_replicas,
            ];
            (current && all == [Some(replicas); 3]).then_some(())
        },
    )
    .await
}
