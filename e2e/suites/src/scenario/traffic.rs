//! The kinds of traffic in a tenant cluster with two nodes, each one try of what a user or a component does.
//!
//! Invariant: every check fails when what it asked for was answered by somebody else.

use std::{future::Future, pin::Pin, time::Duration};

use super::{
    kubectl::Kubectl,
    workload::{HTTP, Workload, list},
};
use crate::cluster::operator::get;
use anyhow::{Context as _, Result, ensure};
use serde_json::json;

/// The aggregated API's group and version.
const GROUP: &str = "testing.covey.dev";
/// Objects with this label pass the webhook; with [`FORBIDDEN`] besides, they are refused.
const CHECKED: &str = "testing.covey.dev/checked";
const FORBIDDEN: &str = "testing.covey.dev/forbidden";
/// How long one try may take.
const ANSWER: Duration = Duration::from_secs(30);

const WEB: Workload<'_> = Workload {
    name: "web",
    replicas: 2,
    config_map: None,
    stays: 0,
};
/// One pod alone, because its certificate is its own.
const EXTENSION: Workload<'_> = Workload {
    name: "extension",
    replicas: 1,
    config_map: Some("front-proxy"),
    stays: 0,
};

/// Two pods of `web` on two nodes, and one that is webhook and aggregated API.
pub struct Traffic<'a> {
    kubectl: &'a Kubectl,
    pods: Vec<String>,
    addresses: Vec<String>,
}

/// One try.
pub type Check<'a> = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<()>> + 'a>> + 'a>;

impl<'a> Traffic<'a> {
    /// Deploys the pods and registers webhook and API.
    ///
    /// # Errors
    /// When that takes longer, or both pods are on one node.
    pub async fn deploy(kubectl: &'a Kubectl, patience: Duration) -> Result<Self> {
        let pods = WEB.deploy(kubectl, patience).await?;
        let mut addresses = Vec::new();
        let mut nodes = Vec::new();
        for pod in &pods {
            let path = "jsonpath={.status.podIP} {.spec.nodeName}";
            let both = kubectl.run(&["get", "pod", pod, "-o", path]).await?;
            let (address, node) = both.split_once(' ').context("no address")?;
            addresses.push(address.to_owned());
            nodes.push(node.to_owned());
        }
        ensure!(nodes[0] != nodes[1], "both pods are on {}", nodes[0]);
        extend(kubectl, patience).await?;
        // CoreDNS came with the first node.
        kubectl.dns_is_there(patience).await?;
        Ok(Self {
            kubectl,
            pods,
            addresses,
        })
    }

    /// Every kind once, one after another; the first failure ends it.
    ///
    /// # Errors
    /// The first failure.
    pub async fn all(&self) -> Result<()> {
        for (name, check) in self.checks() {
            check().await.with_context(|| name.to_owned())?;
        }
        Ok(())
    }

    /// Every kind by its name.
    #[must_use]
    pub fn checks(&self) -> Vec<(&'static str, Check<'_>)> {
        vec![
            ("pod to pod", Box::new(|| Box::pin(self.pod_to_pod()))),
            ("pod to Service", Box::new(|| Box::pin(self.service()))),
            ("DNS", Box::new(|| Box::pin(self.dns()))),
            ("exec", Box::new(|| Box::pin(self.exec()))),
            ("logs", Box::new(|| Box::pin(self.logs()))),
            ("port-forward", Box::new(|| Box::pin(self.port_forward()))),
            ("webhook", Box::new(|| Box::pin(self.webhook()))),
            ("aggregated API", Box::new(|| Box::pin(self.aggregated()))),
        ]
    }

    async fn inside(&self, pod: &str, command: &[&str]) -> Result<String> {
        let exec = ["exec", pod, "--"];
        let exec = [&exec[..], command].concat();
        self.kubectl.run_within(ANSWER, &exec).await
    }

    /// Each from its node to the other.
    async fn pod_to_pod(&self) -> Result<()> {
        for (from, to) in [(0, 1), (1, 0)] {
            let url = format!("http://{}:{HTTP}/pod-to-pod", self.addresses[to]);
            let wget = ["wget", "-q", "-O", "-", &url];
            let said = self.inside(&self.pods[from], &wget).await?;
            let expected = format!("hello from {}", self.pods[to]);
            ensure!(said.trim() == expected, "{said:?} instead of {expected:?}");
        }
        Ok(())
    }

    async fn service(&self) -> Result<()> {
        let path = "jsonpath={.spec.clusterIP}";
        let get = ["get", "service", "web", "-o", path];
        let address = self.kubectl.run_within(ANSWER, &get).await?;
        let url = format!("http://{address}/service");
        for pod in &self.pods {
            let said = self.inside(pod, &["wget", "-q", "-O", "-", &url]).await?;
            ensure!(said.starts_with("hello from web-"), "{said:?}");
        }
        Ok(())
    }

    async fn dns(&self) -> Result<()> {
        for pod in &self.pods {
            let url = "http://extension.default.svc.cluster.local/by-name";
            let said = self.inside(pod, &["wget", "-q", "-O", "-", url]).await?;
            ensure!(said.starts_with("hello from extension-"), "{said:?}");
        }
        Ok(())
    }

    async fn exec(&self) -> Result<()> {
        for pod in &self.pods {
            let said = self.inside(pod, &["hostname"]).await?;
            ensure!(said.trim() == pod, "{said:?} instead of {pod}");
        }
        Ok(())
    }

    async fn logs(&self) -> Result<()> {
        for pod in &self.pods {
            let log = self.kubectl.run_within(ANSWER, &["logs", pod]).await?;
            // The kubelet's probes are in it from the begin.
            ensure!(log.contains("GET /ready"), "{pod} logged {log:?}");
        }
        Ok(())
    }

    async fn port_forward(&self) -> Result<()> {
        for pod in &self.pods {
            let target = format!("pod/{pod}");
            let forward = self.kubectl.port_forward(&target, HTTP).await?;
            let said = get("127.0.0.1", forward.port, "/forwarded").await?;
            ensure!(said.trim() == format!("hello from {pod}"), "{said:?}");
        }
        Ok(())
    }

    async fn webhook(&self) -> Result<()> {
        let label = |more: &[&str]| {
            let labels: serde_json::Map<_, _> = std::iter::once(&CHECKED)
                .chain(more)
                .map(|label| ((*label).to_owned(), json!("yes")))
                .collect();
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": "asks", "labels": labels },
            })
            .to_string()
        };
        self.kubectl
            .judge(&label(&[]))
            .await
            .context("what the webhook allows")?;
        let refused = self.kubectl.judge(&label(&[FORBIDDEN])).await;
        let refusal = format!("{:#}", refused.err().context("the webhook was not asked")?);
        let wanted = format!("the label {FORBIDDEN} is not allowed");
        ensure!(refusal.contains(&wanted), "{refusal}");
        Ok(())
    }

    async fn aggregated(&self) -> Result<()> {
        let path = format!("/apis/{GROUP}/v1/greetings");
        let get = ["get", "--raw", &path];
        let said = self.kubectl.run_within(ANSWER, &get).await?;
        let expected = [
            r#""to":"kubernetes-admin""#,
            r#""proxy":"front-proxy-client""#,
        ];
        ensure!(expected.iter().all(|text| said.contains(text)), "{said}");
        Ok(())
    }
}

/// The pod that is webhook and aggregated API, and its two registrations.
async fn extend(kubectl: &Kubectl, patience: Duration) -> Result<()> {
    // Who may name users to an aggregated API, as every cluster says it.
    let path = r"jsonpath={.data.requestheader-client-ca-file}";
    let config = "extension-apiserver-authentication";
    let get = ["get", "configmap", config, "-n", "kube-system", "-o", path];
    let authority = kubectl.run(&get).await?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "front-proxy" },
        "data": { "ca.crt": authority },
    });
    kubectl.apply(&map.to_string()).await?;
    let pods = EXTENSION.deploy(kubectl, patience).await?;
    // It prints its own certificate as the first thing.
    let log = kubectl.run(&["logs", &pods[0]]).await?;
    let end = "-----END CERTIFICATE-----\n";
    let certificate = log.find(end).map(|at| &log[..at + end.len()]);
    let certificate = certificate.context("the pod printed no certificate")?;
    let bundle = k8s_openapi::ByteString(certificate.as_bytes().to_vec());
    let service = json!({ "namespace": "default", "name": EXTENSION.name, "port": 443 });
    let mut called = service.clone();
    called["path"] = "/validate".into();
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": GROUP },
        "webhooks": [{
            "name": GROUP, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail", "timeoutSeconds": 15,
            "clientConfig": { "service": called, "caBundle": bundle },
            "objectSelector": { "matchLabels": { (CHECKED): "yes" } },
            "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
                "operations": ["CREATE", "UPDATE"] }],
        }],
    });
    let registered = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": { "name": format!("v1.{GROUP}") },
        "spec": {
            "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
            "service": service, "caBundle": bundle,
        },
    });
    kubectl.apply(&list(&[webhook, registered])).await?;
    let service = format!("apiservice/v1.{GROUP}");
    let timeout = format!("--timeout={}s", patience.as_secs());
    let wait = ["wait", "--for=condition=Available", &service, &timeout];
    kubectl.run_within(patience, &wait).await?;
    // The webhook is asked as soon as the API server has read of it.
    let path = format!("/apis/{GROUP}/v1/greetings");
    let get = ["get", "--raw", &path];
    kubectl.until(patience, &get, |_| true).await.map(drop)
}
