//! Needs: operator, node
//!
//! A tenant cluster with nodes goes, whatever its users have put in the way.

use anyhow::{Result, ensure};
use serde_json::json;
use suites::{
    cluster::pool::remains,
    scenario::{
        self, PATIENCE, Scenario,
        workers::{NODES, PODS},
        workload::{Workload, list},
    },
};

#[tokio::test]
async fn neither_budgets_nor_webhooks_nor_finalizers_of_a_tenant_hold_up_its_deletion() {
    scenario::run("deletion-held", held).await;
}

async fn held(s: &Scenario) -> Result<()> {
    let workers = s
        .workers(|_, nodes| nodes.drain_timeout = "30m".into())
        .await?;
    workers.pool.settled(1, NODES).await?;
    let web = Workload {
        name: "web",
        replicas: 1,
        config_map: None,
        stays: 0,
    };
    web.deploy(&workers.kubectl, PODS).await?;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "web" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "finalizers": ["example.com/nobody"] },
    });
    // A webhook that nobody serves and that everything has to pass.
    let webhook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "nobody.example.com" },
        "webhooks": [{
            "name": "nobody.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail", "timeoutSeconds": 30,
            "clientConfig": { "service": { "namespace": "default", "name": "nobody" } },
            "rules": [{ "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
                "operations": ["CREATE", "UPDATE", "DELETE"] }],
        }],
    });
    let manifest = list(&[budget, held, webhook]);
    workers.kubectl.apply(&manifest).await?;
    let refused = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" } });
    let answer = workers.kubectl.judge(&refused.to_string()).await;
    ensure!(answer.is_err(), "the webhook stands in nobody's way");

    workers.tenant.delete().await?;
    workers.tenant.gone(PATIENCE).await?;
    let gone = workers
        .pool
        .machines_are("no Machine is left", PATIENCE, |all| {
            all.is_empty().then_some(())
        });
    gone.await?;
    let left = remains(&workers.tenant).await?;
    ensure!(left.is_empty(), "{left:?} outlived the tenant cluster");
    workers.pool.delete().await?;
    workers.pool.gone(PATIENCE).await
}
