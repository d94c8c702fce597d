//! Webhooks of a tenant cluster that would keep it from waking, on a real kube-apiserver of its own.
//!
//! Invariant: they are strict until before it is drained, and again as soon as somebody answers for them.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use api::TenantCluster;
use api::tenant_cluster::WebhooksStatus;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::PostParams;
use kube::{Api, Client};
use operator::tenant_session::preflight::webhooks::relaxed;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::fixtures::{is_settled, minimal};

use crate::support::etcd_members::EtcdMembers;
use crate::support::site::tenant_namespace;
use crate::support::tenant_api::TenantApi;
use crate::support::{Launch, Site};

const NAME: &str = "policy";

fn says(cluster: &TenantCluster, words: &str) -> bool {
    let mut conditions = cluster.status.iter().flat_map(|s| &s.conditions);
    conditions.any(|condition| condition.message.contains(words))
}

fn webhooks(cluster: &TenantCluster) -> Option<WebhooksStatus> {
    cluster.status.as_ref()?.hibernation.as_ref()?.webhooks
}

/// Policies of its webhooks, and what is noted of them.
async fn policies(client: &Client) -> Result<(Vec<String>, Option<String>)> {
    let all: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let found = all.get(NAME).await?;
    let policies = found.webhooks.into_iter().flatten();
    let policies = policies.filter_map(|webhook| webhook.failure_policy);
    let annotations = found.metadata.annotations.unwrap_or_default();
    Ok((
        policies.collect(),
        annotations.get(relaxed::RELAXED).cloned(),
    ))
}

async fn create<K>(api: Api<K>, object: Value) -> Result<()>
where
    K: Clone + DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object)?;
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

/// A node of nobody, which keeps it from being drained, and a webhook that nobody answers beside one that is elsewhere.
async fn furnish(client: &Client) -> Result<()> {
    create(
        Api::<Node>::all(client.clone()),
        json!({ "metadata": { "name": "somebodys" } }),
    )
    .await?;
    create(
        Api::<Namespace>::all(client.clone()),
        json!({ "metadata": { "name": NAME } }),
    )
    .await?;
    let webhook = |name: &str, config: Value| {
        json!({
            "name": name, "clientConfig": config, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nodes"] }],
        })
    };
    let inside = json!({ "service": { "namespace": NAME, "name": "webhook" } });
    let webhooks = [
        webhook("nodes.policy.example.com", inside),
        webhook(
            "elsewhere.policy.example.com",
            json!({ "url": "https://192.0.2.1/" }),
        ),
    ];
    create(
        Api::<ValidatingWebhookConfiguration>::all(client.clone()),
        json!({ "metadata": { "name": NAME }, "webhooks": webhooks }),
    )
    .await
}

async fn sleeps(site: &Site, enabled: bool, webhooks: &str) -> Result<()> {
    let hibernation = json!({ "enabled": enabled, "webhooks": webhooks });
    let change = json!({ "spec": { "hibernation": hibernation } });
    site.change("demo", &change).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_that_nobody_would_answer_keep_it_awake_or_let_requests_pass_meanwhile()
-> Result<()> {
    let Some(site) = Site::without_etcd("webhooks").await? else {
        return Ok(());
    };
    let mut cluster = minimal(&site.users, "demo");
    // Nobody serves its sockets here.
    cluster.spec.addons.konnectivity.enabled = false;
    let cluster = site.create_as(&cluster).await?;
    let ns = tenant_namespace(&cluster);
    let Some(etcd) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(site.dial()));
    let operator = launch.start(&site)?;
    site.wait("demo", is_settled).await?;
    operator.stop().await?;

    // From here on its API is a real one, with what was laid for it.
    let Some(api) = TenantApi::start(&site.admin, &ns, &etcd.client_url(0)).await? else {
        return Ok(());
    };
    let inside = api.administrator()?;
    furnish(&inside).await?;
    let real = api.address();
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(Arc::new(move |_: &str, _: SocketAddr| real)));
    let operator = launch.start(&site)?;

    sleeps(&site, true, "Keep").await?;
    let words = "nobody answers for webhook policy/nodes.policy.example.com, which";
    let kept = site.wait("demo", |cluster| says(cluster, words)).await?;
    ensure!(webhooks(&kept).is_none(), "it is put to sleep");
    let strict = (vec!["Fail".to_owned(); 2], None);
    assert_eq!(policies(&inside).await?, strict);

    sleeps(&site, true, "Relax").await?;
    let is_relaxed = |cluster: &TenantCluster| {
        webhooks(cluster) == Some(WebhooksStatus::Relaxed) && says(cluster, "node somebodys")
    };
    site.wait("demo", is_relaxed).await?;
    let (found, noted) = policies(&inside).await?;
    assert_eq!(found, ["Ignore", "Fail"]);
    assert_eq!(noted.as_deref(), Some("nodes.policy.example.com"));

    // Awake again, nobody answers at first.
    sleeps(&site, false, "Keep").await?;
    let words = "nobody is there yet to answer for webhook policy/nodes.policy.example.com";
    site.wait("demo", |cluster| says(cluster, words)).await?;
    assert_eq!(policies(&inside).await?.0, ["Ignore", "Fail"]);
    let slice = |name: &str, node: Option<&str>| {
        json!({
            "metadata": { "name": name, "namespace": NAME, "labels": { "kubernetes.io/service-name": "webhook" } },
            "addressType": "IPv4", "ports": [],
            "endpoints": [{ "addresses": ["10.244.0.9"], "conditions": { "ready": true }, "nodeName": node }],
        })
    };
    let slices: Api<EndpointSlice> = Api::namespaced(inside.clone(), NAME);
    // One of before, which nobody has removed yet.
    create(slices.clone(), slice("before", Some("gone"))).await?;
    let left = relaxed::restore(&inside)
        .await
        .map_err(anyhow::Error::msg)?;
    assert_eq!(left, ["policy/nodes.policy.example.com"]);
    create(slices, slice("now", Some("somebodys"))).await?;
    operator.reconcile(&site, "demo").await?;
    let is_over = |cluster: &TenantCluster| {
        let status = cluster.status.as_ref();
        status.is_some_and(|status| status.hibernation.is_none())
    };
    site.wait("demo", is_over).await?;
    assert_eq!(policies(&inside).await?, strict);
    operator.stop().await
}
