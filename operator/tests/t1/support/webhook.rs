//! The operator's webhook behind the management API of the tests.
//!
//! Invariant: it asks for objects of one site only, so other tests are not touched.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use operator::admission::{Judge, NODE_POOLS, TENANT_CLUSTERS, certificate::NAME};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

use super::site::apply;
use super::{Operator, Site};

/// Name of the ValidatingWebhookConfiguration.
pub(crate) use operator::admission::serve::CONFIGURATION;

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).context("no free port")?;
    Ok(listener.local_addr().context("no free port")?.port())
}

/// What the running operator judges with.
pub(crate) fn judge(operator: &Operator) -> Judge {
    let clusters = operator.context.clusters.clone();
    let pools = operator.context.pools.clone();
    Judge {
        settings: Arc::new(operator.context.settings.clone()),
        clusters: Arc::new(move || clusters.state()),
        pools: Arc::new(move || pools.state()),
    }
}

/// What the chart installs (`templates/webhook.yaml`). The Service is an ExternalName, because there
/// is no pod network here: the kube-apiserver then dials localhost, and still checks the
/// certificate for the Service's name.
///
/// There is one configuration of that name, so one test at a time has it: as long as it holds what
/// is returned.
pub(crate) async fn install(site: &Site, port: u16, failure_policy: &str) -> Result<Installed> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    let turn = ONE_AT_A_TIME.lock().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": NAME, "namespace": site.system },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    apply(&site.admin, &service).await?;
    let not_the_operator = format!("request.userInfo.username != '{}'", site.user());
    let webhook = |plural: &str, path: &str| {
        json!({
            "name": format!("{plural}.covey.dev"),
            "admissionReviewVersions": ["v1"],
            "clientConfig": { "service": {
                "name": NAME, "namespace": site.system, "path": path, "port": port,
            }},
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": site.users } },
            "rules": [{
                "apiGroups": ["covey.dev"], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"], "resources": [plural],
                "scope": "Namespaced",
            }],
            "matchConditions": [
                { "name": "not-by-the-operator", "expression": not_the_operator },
                { "name": "not-while-deleting",
                  "expression": "!has(object.metadata.deletionTimestamp)" },
            ],
            "failurePolicy": failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": 5,
        })
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": CONFIGURATION },
        "webhooks": [
            webhook("tenantclusters", TENANT_CLUSTERS),
            webhook("nodepools", NODE_POOLS),
        ],
    });
    apply(&site.admin, &configuration).await?;
    Ok(Installed { _turn: turn })
}

/// The webhook's configuration is this test's.
pub(crate) struct Installed {
    _turn: MutexGuard<'static, ()>,
}

/// Removes what would be in the way of others.
pub(crate) async fn uninstall(site: &Site, _installed: Installed) -> Result<()> {
    let configurations = site.objects(kit::apply::kinds::VALIDATING_WEBHOOK_CONFIGURATION, "");
    configurations
        .delete(CONFIGURATION, &Default::default())
        .await?;
    Ok(())
}
