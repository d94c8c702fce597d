//! The operator's webhook behind the management API of the tests.
//!
//! Invariant: it asks for objects of one site only, so other tests are not touched.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authorization::v1::ResourceAttributes;
use operator::admission::certificate::NAME;
use operator::admission::router::{NODE_POOLS, TENANT_CLUSTERS};
use operator::admission::validator::Validator;
use serde_json::json;
use testkit::fixtures::wait_allowed_to;
use tokio::net::TcpListener;

use super::site::apply;
use super::{Operator, Site};

/// Name of the ValidatingWebhookConfiguration in the chart: for one test alone.
pub(crate) use operator::admission::server::CONFIGURATION;

/// Name of a ValidatingWebhookConfiguration that no other site has.
pub(crate) fn name(site: &Site) -> String {
    format!("covey-{}", site.system)
}

/// A port for a webhook.
pub(crate) async fn listener() -> Result<TcpListener> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    listener.context("no free port")
}

/// What the running operator judges with.
pub(crate) fn validator(operator: &Operator) -> Validator {
    let clusters = operator.context.stores.clusters.clone();
    let pools = operator.context.stores.pools.clone();
    let quotas = operator.context.stores.quotas.clone();
    let ranges = Arc::clone(&operator.context.reserved_ranges);
    Validator {
        settings: Arc::new(move || ranges.settings()),
        clusters: Arc::new(move || clusters.state()),
        pools: Arc::new(move || pools.state()),
        quotas: Arc::new(move || quotas.state()),
    }
}

/// What the chart installs (`templates/webhook.yaml`). The Service is an ExternalName, because there
/// is no pod network here: the kube-apiserver then dials localhost, and still checks the
/// certificate for the Service's name.
///
/// The operator's role is for [`CONFIGURATION`]; for another name the site gets the same rights.
pub(crate) async fn install(
    site: &Site,
    configuration: &str,
    listener: &TcpListener,
    failure_policy: &str,
) -> Result<()> {
    let port = listener.local_addr().context("no port")?.port();
    if configuration != CONFIGURATION {
        grant(site, configuration).await?;
    }
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
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": configuration },
        "webhooks": [
            webhook("tenantclusters", TENANT_CLUSTERS),
            webhook("nodepools", NODE_POOLS),
        ],
    });
    apply(&site.admin, &object).await.map(drop)
}

/// What the operator's role lets it do with [`CONFIGURATION`], for another one.
async fn grant(site: &Site, configuration: &str) -> Result<()> {
    const RESOURCE: &str = "validatingwebhookconfigurations";
    let group = "rbac.authorization.k8s.io";
    let mut rules = ::operator::rbac::cluster();
    rules.retain(|rule| rule.resources.contains(&RESOURCE));
    let mut rules = kit::rbac::render(&rules);
    for rule in rules.as_array_mut().into_iter().flatten() {
        ensure!(
            rule["resourceNames"] == json!([CONFIGURATION]),
            "not of one configuration: {rule}"
        );
        rule["resourceNames"] = json!([configuration]);
    }
    let name = format!("{configuration}-webhook");
    let user = site.user();
    let role = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
        "metadata": { "name": name }, "rules": rules,
    });
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{ "apiGroup": group, "kind": "User", "name": user }],
    });
    apply(&site.admin, &role).await?;
    apply(&site.admin, &binding).await?;
    let patch = ResourceAttributes {
        group: Some("admissionregistration.k8s.io".to_owned()),
        resource: Some(RESOURCE.to_owned()),
        name: Some(configuration.to_owned()),
        verb: Some("patch".to_owned()),
        ..ResourceAttributes::default()
    };
    wait_allowed_to(&site.admin, &user, &patch).await
}

/// Removes what each request would be compared with from now on.
pub(crate) async fn uninstall(site: &Site, configuration: &str) -> Result<()> {
    let configurations = site.objects(kit::apply::kinds::VALIDATING_WEBHOOK_CONFIGURATION, "");
    configurations
        .delete(configuration, &Default::default())
        .await?;
    Ok(())
}
