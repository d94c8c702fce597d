//! Needs: operator, lab-agent
//!
//! A tenant's administrator makes the tenant cluster's kube-apiserver ask addresses of the administrator's
//! choice: webhooks and conversions by URL, aggregated APIs, proxies to nodes, pods and Services with
//! forged addresses. Nothing of it leaves the control plane but by workers, and there are none (findings'
//! hostile suite `ssrf`; CVE-2020-8555, CVE-2022-3172).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, LogParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use suites::cluster::Tenant;
use suites::cluster::wait::wait_for;
use suites::scenario::pods::{self, Command};
use suites::scenario::{self, PATIENCE, Scenario};

/// Where somebody listens whom nobody may ask.
const PORT: u16 = 8443;
/// A proxy or a webhook that does not get there says so after its own patience.
const MOST: Duration = Duration::from_secs(40);
/// How often the listener is looked at while it is to be reached.
const PAUSE: Duration = Duration::from_millis(200);

#[tokio::test]
async fn kube_apiserver_asks_nobody_of_the_management_cluster_with_konnectivity_and_without() {
    scenario::run("hostile-requests", requests).await;
}

async fn requests(s: &Scenario) -> Result<()> {
    let (with, without) = (
        s.tenant("with", |_| {}).await?,
        s.tenant("without", |spec| spec.addons.konnectivity.enabled = false)
            .await?,
    );
    let listener = Listener::start(s).await?;
    for tenant in [&with, &without] {
        let admin = tenant.usable(PATIENCE).await?.client;
        tenant.settled(PATIENCE).await?;
        tries(tenant, &admin, &listener.address).await?;
    }
    ensure!(
        listener.touched().await? == 0,
        "somebody was asked:\n{}",
        listener.log().await?
    );
    // It listens, to those who may ask.
    let command = Command {
        script: pods::probe(&[(listener.address.clone(), PORT)]),
        ..Command::default()
    };
    pods::run(s.client(), &s.namespace, command).await?;
    let mut pause = tokio::time::interval(PAUSE);
    let heard = tokio::time::timeout(PATIENCE, async {
        loop {
            pause.tick().await;
            if listener.touched().await? > 0 {
                return anyhow::Ok(());
            }
        }
    });
    heard.await.context("nobody listens")??;
    // What came before was said before.
    let touched = listener.touched().await?;
    ensure!(touched == 1, "{}", listener.log().await?);
    Ok(())
}

/// Each way of asking, and that none has an answer.
async fn tries(tenant: &Tenant, admin: &Client, address: &str) -> Result<()> {
    prepare(admin, address).await?;
    let asks = [
        // Nodes, pods and Services with addresses that somebody wrote into them.
        format!("/api/v1/nodes/https:forged:{PORT}/proxy/"),
        "/api/v1/nodes/forged/proxy/pods".to_owned(),
        format!("/api/v1/namespaces/default/pods/https:forged:{PORT}/proxy/"),
        format!("/api/v1/namespaces/default/pods/http:forged:{PORT}/proxy/"),
        format!("/api/v1/namespaces/default/services/https:forged:{PORT}/proxy/"),
        format!("/api/v1/namespaces/default/services/https:named:{PORT}/proxy/"),
        "/api/v1/namespaces/default/pods/forged/log".to_owned(),
        "/apis/forged.example.com/v1".to_owned(),
        "/apis/named.example.com/v1".to_owned(),
        "/apis/example.com/v2/namespaces/default/things".to_owned(),
    ];
    let answers = join_all(asks.iter().map(|path| ask(admin, path))).await;
    for (path, answer) in asks.iter().zip(answers) {
        ensure!(
            answer.is_err(),
            "{}: {path} has an answer: {answer:?}",
            tenant.name
        );
    }
    // A webhook that must be asked, so nothing is written.
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    let watched: Namespace = serde_json::from_value(json!({
        "metadata": { "name": "watched", "labels": { "example.com/watched": "" } } }))?;
    let params = PostParams::default();
    let made = tokio::time::timeout(MOST, namespaces.create(&params, &watched)).await;
    ensure!(
        !matches!(made, Ok(Ok(_))),
        "{}: it was made without its webhook",
        tenant.name
    );
    Ok(())
}

async fn ask(client: &Client, path: &str) -> Result<String> {
    let request = http::Request::get(path).body(Vec::new())?;
    let answer = tokio::time::timeout(MOST, client.request_text(request)).await;
    Ok(answer.context("no answer in time")??)
}

/// What the administrator writes so that the kube-apiserver asks `address`.
async fn prepare(admin: &Client, address: &str) -> Result<()> {
    // Pods are taken once their account is there.
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    wait_for(&accounts, "default", "is there", PATIENCE, |_| Some(())).await?;
    let url = format!("https://{address}:{PORT}/");
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
        "resources": ["namespaces"] }]);
    let selector = json!({ "matchLabels": { "example.com/watched": "" } });
    let things = json!({ "plural": "things", "singular": "thing", "kind": "Thing" });
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    for object in [
        json!({ "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "by-url" },
            "webhooks": [{ "name": "by-url.example.com", "clientConfig": { "url": url },
                "rules": rules, "objectSelector": selector, "sideEffects": "None",
                "admissionReviewVersions": ["v1"], "timeoutSeconds": 5 }] }),
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "forged" } }),
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "forged", "namespace": "default" },
            "spec": { "nodeName": "forged", "containers": [
                { "name": "main", "image": "example.com/none:1" }] } }),
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "forged", "namespace": "default" },
            "spec": { "ports": [{ "port": PORT }] } }),
        json!({ "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": "forged", "namespace": "default",
                "labels": { "kubernetes.io/service-name": "forged" } },
            "addressType": "IPv4", "endpoints": [{ "addresses": [address] }],
            "ports": [{ "port": PORT }] }),
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "named", "namespace": "default" },
            "spec": { "type": "ExternalName", "externalName": address,
                "ports": [{ "port": PORT }] } }),
        aggregated("forged"),
        aggregated("named"),
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "things.example.com" },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": things,
                "versions": [
                    { "name": "v1", "served": true, "storage": true, "schema": schema },
                    { "name": "v2", "served": true, "storage": false, "schema": schema }],
                "conversion": { "strategy": "Webhook", "webhook": {
                    "conversionReviewVersions": ["v1"], "clientConfig": { "url": url } } } } }),
    ] {
        create(admin, &object).await?;
    }
    let params = PatchParams::default();
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = Patch::Merge(json!({ "status": {
        "addresses": [{ "type": "InternalIP", "address": address }],
        "daemonEndpoints": { "kubeletEndpoint": { "Port": PORT } } } }));
    nodes.patch_status("forged", &params, &node).await?;
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    let pod = Patch::Merge(json!({ "status": { "phase": "Running", "podIP": address,
        "podIPs": [{ "ip": address }] } }));
    pods.patch_status("forged", &params, &pod).await?;
    // One object of the version that is stored, so that there is something to convert.
    let thing = json!({ "apiVersion": "example.com/v1", "kind": "Thing",
        "metadata": { "name": "one", "namespace": "default" } });
    let established = tokio::time::timeout(PATIENCE, async {
        let mut pause = tokio::time::interval(PAUSE);
        loop {
            pause.tick().await;
            if create(admin, &thing).await.is_ok() {
                return;
            }
        }
    });
    established
        .await
        .context("things.example.com is not served")
}

fn aggregated(service: &str) -> Value {
    json!({ "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": format!("v1.{service}.example.com") },
        "spec": { "group": format!("{service}.example.com"), "version": "v1",
            "insecureSkipTLSVerify": true, "groupPriorityMinimum": 1000, "versionPriority": 15,
            "service": { "name": service, "namespace": "default", "port": PORT } } })
}

async fn create(client: &Client, object: &Value) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let types = object.types.clone().context("it has a kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(&types)?);
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let created = api.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("create {}", types.kind))?;
    Ok(())
}

/// A pod of the management cluster that says when somebody connects to it.
struct Listener {
    pods: Api<Pod>,
    name: String,
    address: String,
}

impl Listener {
    async fn start(s: &Scenario) -> Result<Self> {
        let pods: Api<Pod> = Api::namespaced(s.client().clone(), &s.namespace);
        let script =
            format!("while :; do nc -l -p {PORT} -e true </dev/null && echo touched; done");
        let command = Command {
            script,
            ..Command::default()
        };
        let name = pods::start(s.client(), &s.namespace, &command).await?;
        let address = wait_for(&pods, &name, "runs with an address", PATIENCE, |pod| {
            let status = pod.status.as_ref()?;
            let runs = status.phase.as_deref() == Some("Running");
            status.pod_ip.clone().filter(|_| runs)
        });
        let address = address.await?;
        Ok(Self {
            pods,
            name,
            address,
        })
    }

    async fn log(&self) -> Result<String> {
        Ok(self.pods.logs(&self.name, &LogParams::default()).await?)
    }

    async fn touched(&self) -> Result<usize> {
        Ok(self
            .log()
            .await?
            .lines()
            .filter(|line| *line == "touched")
            .count())
    }
}
