//! Tokens of pods, as kubelets ask for them.

use anyhow::{Context as _, Result};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

/// Makes a pod of a `ServiceAccount` of `kube-system` on a node, and returns the token that the kubelet there would
/// hand it: it names the node (KEP-4193).
///
/// # Errors
/// When the API server refuses either of them.
pub async fn of_pod(client: &Client, account: &str, node: &str) -> Result<String> {
    let namespace = "kube-system";
    let pod = json!({
        "metadata": { "name": format!("{account}-{node}") },
        "spec": {
            "serviceAccountName": account,
            "nodeName": node,
            "containers": [{ "name": "program", "image": "none" }],
        },
    });
    let params = PostParams::default();
    let pods = Api::<Pod>::namespaced(client.clone(), namespace);
    let pod = pods.create(&params, &serde_json::from_value(pod)?).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            bound_object_ref: Some(BoundObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                name: pod.metadata.name,
                uid: pod.metadata.uid,
            }),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
    let answer = accounts.create_token_request(account, &params, &request);
    Ok(answer.await?.status.context("no token was given")?.token)
}
