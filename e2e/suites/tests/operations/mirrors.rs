//! Needs: operator, ccm, lab-agent
//!
//! What stands for a tenant's Services in the management cluster goes with them, whatever is deleted
//! first and whoever is away meanwhile. No node is needed for that.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, ResourceQuota, Service};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
    runtime::watcher::Config,
};
use serde_json::json;
use suites::{
    cluster::{
        Tenant,
        wait::{wait_for, wait_gone, wait_list},
    },
    scenario::{self, PATIENCE, Scenario},
};

use super::deletion_orders::{NO_PODS, down, nothing_is_left};

/// Component of the cloud controller manager's pods.
const CCM: &str = "ccm";
/// Label of mirrors: UID of the tenant's Service.
const SERVICE_UID: &str = "covey.dev/service-uid";

#[tokio::test]
async fn mirrors_go_with_their_services_in_any_order() {
    scenario::run("mirrors", async |s| {
        let (tenant, client) = with_cloud_controller(s).await?;
        let services = Api::<Service>::namespaced(client.clone(), "default");

        let first = published(&tenant, &services, "service-first").await?;
        delete(&services, "service-first").await?;
        wait_gone(&services, "service-first", None, PATIENCE).await?;
        first.is_gone(&tenant).await?;

        // A mirror is wanted as long as its Service is there.
        let again = published(&tenant, &services, "mirror-first").await?;
        delete(&tenant.parts::<Service>(), &again.mirror).await?;
        again.is_gone(&tenant).await?;
        let again = Published::of(&tenant, &services, "mirror-first").await?;
        delete(&services, "mirror-first").await?;
        again.is_gone(&tenant).await?;
        wait_gone(&services, "mirror-first", None, PATIENCE).await?;

        with_its_namespace(&tenant, client.clone()).await?;
        while_nobody_minds(&tenant, &services).await?;

        // And last the tenant cluster, with a Service that nobody deleted.
        published(&tenant, &services, "left-behind").await?;
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

#[tokio::test]
async fn a_tenant_cluster_whose_api_is_down_takes_its_mirrors_along() {
    scenario::run("mirrors-api-down", async |s| {
        let (tenant, client) = with_cloud_controller(s).await?;
        let services = Api::<Service>::namespaced(client, "default");
        published(&tenant, &services, "left-behind").await?;
        down(&tenant, "control-plane").await?;
        down(&tenant, CCM).await?;
        tenant.delete().await?;
        nothing_is_left(s, &tenant).await
    })
    .await;
}

async fn with_cloud_controller(s: &Scenario) -> Result<(Tenant, Client)> {
    let tenant = s
        .tenant("demo", |spec| spec.addons.cloud_controller.enabled = true)
        .await?;
    let client = tenant.usable(PATIENCE).await?.client;
    tenant.settled(PATIENCE).await?;
    Ok((tenant, client))
}

async fn with_its_namespace(tenant: &Tenant, client: Client) -> Result<()> {
    let namespaces = Api::<Namespace>::all(client.clone());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some("shop".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    namespaces
        .create(&PostParams::default(), &namespace)
        .await?;
    let services = Api::<Service>::namespaced(client, "shop");
    let published = published(tenant, &services, "with-its-namespace").await?;
    delete(&namespaces, "shop").await?;
    published.is_gone(tenant).await?;
    wait_gone(&namespaces, "shop", None, PATIENCE).await
}

/// One Service is deleted and waits, one goes by force: both mirrors go once somebody is back.
async fn while_nobody_minds(tenant: &Tenant, services: &Api<Service>) -> Result<()> {
    let waits = published(tenant, services, "waits").await?;
    let forced = published(tenant, services, "by-force").await?;
    down(tenant, CCM).await?;
    delete(services, "waits").await?;
    delete(services, "by-force").await?;
    let off = json!({ "metadata": { "finalizers": null } });
    services
        .patch("by-force", &PatchParams::default(), &Patch::Merge(off))
        .await?;
    wait_gone(services, "by-force", None, PATIENCE).await?;

    let outside: Api<Service> = tenant.parts();
    outside.get(&waits.mirror).await?;
    outside.get(&forced.mirror).await?;
    delete(&tenant.parts::<ResourceQuota>(), NO_PODS).await?;
    waits.is_gone(tenant).await?;
    forced.is_gone(tenant).await?;
    wait_gone(services, "waits", None, PATIENCE).await
}

/// What stands for a Service.
struct Published {
    mirror: String,
    uid: String,
}

impl Published {
    /// Waits for the only mirror, and for its address in the tenant's Service.
    async fn of(tenant: &Tenant, services: &Api<Service>, name: &str) -> Result<Self> {
        let service = services.get(name).await?;
        let uid = service.uid().context("the API gives a UID")?;
        let outside: Api<Service> = tenant.parts();
        let config = Config::default().labels(&format!("{SERVICE_UID}={uid}"));
        let only = |all: &BTreeMap<String, Service>| match all.values().collect::<Vec<_>>()[..] {
            [one] if one.metadata.deletion_timestamp.is_none() => {
                Some((one.name_any(), one.uid()?, address(one)?))
            }
            _ => None,
        };
        let what = format!("one mirror of {name} with an address");
        let (mirror, uid, expected) = wait_list(&outside, config, &what, PATIENCE, only).await?;
        let told = |service: &Service| (address(service)? == expected).then_some(());
        wait_for(services, name, "is told its address", PATIENCE, told).await?;
        Ok(Self { mirror, uid })
    }

    async fn is_gone(&self, tenant: &Tenant) -> Result<()> {
        let outside: Api<Service> = tenant.parts();
        wait_gone(&outside, &self.mirror, Some(&self.uid), PATIENCE).await
    }
}

async fn published(tenant: &Tenant, services: &Api<Service>, name: &str) -> Result<Published> {
    let service = json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "selector": { "app": "none" }, "ports": [{ "port": 80 }] },
    });
    let service = serde_json::from_value(service)?;
    services.create(&PostParams::default(), &service).await?;
    Published::of(tenant, services, name).await
}

fn address(service: &Service) -> Option<String> {
    let status = service.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.as_ref()?.first()?.ip.clone()
}

async fn delete<K>(api: &Api<K>, name: &str) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let deleted = api.delete(name, &DeleteParams::default()).await;
    deleted.map(drop).with_context(|| format!("delete {name}"))
}
