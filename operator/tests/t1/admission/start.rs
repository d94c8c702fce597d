//! The webhook and the keeper of its certificate behind a real kube-apiserver: from nothing to the first
//! refusal, and through the loss of the Secret.
//!
//! Invariant: the server is this test's alone, so everything has the names of the chart.

use std::sync::Arc;

use anyhow::Result;
use api::TenantCluster;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kit::lease::Leadership;
use kit::shutdown::Shutdown;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use operator::admission::certificate::NAME;
use operator::admission::keeper::{CONFIGURATION, Keeper};
use operator::admission::server::Webhook;
use operator::admission::{router::TENANT_CLUSTERS, validator::Validator};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::fixtures::ask_until;

use crate::support::{PATIENCE, webhook};

const NAMESPACE: &str = "covey-system";

fn from<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// What the chart installs. The Service is an ExternalName, because there is no pod network here:
/// kube-apiserver then dials localhost and still checks the certificate for the Service's name.
async fn install(client: &Client, port: u16) {
    let params = PostParams::default();
    let namespace = from::<Namespace>(json!({"metadata": {"name": NAMESPACE}}));
    Api::all(client.clone())
        .create(&params, &namespace)
        .await
        .unwrap();
    let service = from::<Service>(json!({
        "metadata": {"name": NAME},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }));
    Api::namespaced(client.clone(), NAMESPACE)
        .create(&params, &service)
        .await
        .unwrap();
    let configuration = from::<ValidatingWebhookConfiguration>(json!({
        "metadata": {"name": CONFIGURATION},
        "webhooks": [{
            "name": "tenantclusters.covey.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {
                "name": NAME, "namespace": NAMESPACE, "path": TENANT_CLUSTERS, "port": port,
            }},
            "rules": [{
                "apiGroups": ["covey.dev"], "apiVersions": ["v1alpha1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["tenantclusters"],
            }],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 5,
        }],
    }));
    Api::all(client.clone())
        .create(&params, &configuration)
        .await
        .unwrap();
}

/// The answer to a dry run once the webhook answers at all: until kube-apiserver has read the new
/// bundle, it cannot call it (500).
async fn try_to_create(
    client: &Client,
    spec: Value,
) -> Result<std::result::Result<TenantCluster, Box<kube::core::Status>>> {
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), "default");
    let cluster = from::<TenantCluster>(json!({"metadata": {"name": "demo"}, "spec": spec}));
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    ask_until("the webhook is called", PATIENCE, || async {
        match clusters.create(&params, &cluster).await {
            Ok(created) => Ok(Ok(Ok(created))),
            Err(kube::Error::Api(status)) if status.code == 500 => Ok(Err(status.message)),
            Err(kube::Error::Api(status)) => Ok(Ok(Err(status))),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

async fn bundle_of(client: &Client, secret: &Secret) {
    let wanted = secret.data.as_ref().unwrap()["ca.crt"].clone();
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    await_condition(
        configurations,
        CONFIGURATION,
        |seen: Option<&ValidatingWebhookConfiguration>| {
            let webhooks = seen
                .and_then(|seen| seen.webhooks.as_ref())
                .into_iter()
                .flatten();
            webhooks
                .map(|w| w.client_config.ca_bundle.as_ref())
                .all(|b| b == Some(&wanted))
        },
    )
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_comes_up_from_nothing_refuses_and_survives_the_loss_of_its_secret() -> Result<()>
{
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    kit_client::crypto::install_crypto();
    api.install_crds().await?;
    let client = api.admin()?;
    let listener = webhook::listener().await?;
    let port = listener.local_addr()?.port();
    install(&client, port).await;

    let validator = Validator {
        settings: Arc::new(Arc::default),
        clusters: Arc::new(Vec::new),
        pools: Arc::new(Vec::new),
        quotas: Arc::new(Vec::new),
    };
    let server = Webhook::new(validator);
    let ready = server.readiness();
    assert!(ready().is_err());
    let shutdown = Shutdown::new();
    let (of_webhook, until) = (client.clone(), shutdown.clone());
    let running = tokio::spawn(async move {
        let serve = server.run_on(of_webhook, NAMESPACE, listener, &until);
        serve.await
    });
    let keeper = Keeper::new(client.clone(), NAMESPACE, Leadership::always());
    let kept = tokio::spawn(keeper.run());

    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    let exists = |secret: Option<&Secret>| secret.is_some();
    let first = await_condition(secrets.clone(), NAME, exists)
        .await
        .unwrap()
        .unwrap();
    bundle_of(&client, &first).await;

    let refused = try_to_create(&client, json!({"version": "1.30.1"}))
        .await?
        .unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (422, "Invalid"));
    assert_eq!(
        refused.message,
        "admission webhook \"tenantclusters.covey.dev\" denied the request: spec.version: \
         Kubernetes 1.30.1 is not supported: choose a patch release of 1.34, 1.35 or 1.36"
    );
    assert_eq!(refused.details.unwrap().causes[0].field, "spec.version");
    try_to_create(&client, json!({"version": "1.35.4"}))
        .await?
        .unwrap();
    assert!(ready().is_ok());

    // Somebody deletes the Secret: a new certificate, and the webhook still answers.
    secrets
        .delete(NAME, &DeleteParams::default())
        .await
        .unwrap();
    let uid = first.uid();
    let anew = |secret: Option<&Secret>| secret.is_some_and(|s| s.uid() != uid);
    let second = await_condition(secrets, NAME, anew).await.unwrap().unwrap();
    assert_ne!(second.data, first.data);
    bundle_of(&client, &second).await;
    try_to_create(&client, json!({"version": "1.30.1"}))
        .await?
        .unwrap_err();

    shutdown.trigger();
    running.await??;
    kept.abort();
    Ok(())
}
