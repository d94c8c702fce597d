//! What the program may do in the tenant cluster: its account, rights and policy (`manifests/access.json`), and
//! tokens as a kubelet hands them to its pods.

use anyhow::{Result, ensure};
use api::names;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
};
use kube::config::{AuthInfo, Config};
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use testkit::ManagementApi;
use testkit::tokens;
use testkit::waiting::{PATIENCE, ask_until};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "covey-overlay";

/// Makes account, rights and policy.
pub(crate) async fn lay(client: &Client) -> Result<()> {
    let all: Vec<Value> = serde_json::from_str(include_str!("../../manifests/access.json"))?;
    for object in all {
        let object: DynamicObject = serde_json::from_value(object)?;
        let types = object.types.clone().unwrap_or_default();
        let kind = GroupVersionKind::try_from(&types)?;
        let kind = ApiResource::from_gvk(&kind);
        let api = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        api.create(&PostParams::default(), &object).await?;
    }
    Ok(())
}

/// The token that the pod on this node gets.
pub(crate) async fn token(client: &Client, node: &str) -> Result<String> {
    tokens::of_pod(client, NAME, node).await
}

/// A kubeconfig with it.
pub(crate) fn kubeconfig(api: &ManagementApi, token: &str) -> String {
    use base64::Engine as _;
    let authority = base64::engine::general_purpose::STANDARD.encode(api.ca());
    let value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "tenant",
        "clusters": [{ "name": "tenant", "cluster": {
            "server": api.url(), "certificate-authority-data": authority } }],
        "users": [{ "name": "pod", "user": { "token": token } }],
        "contexts": [{ "name": "tenant", "context": { "cluster": "tenant", "user": "pod" } }],
    });
    value.to_string()
}

fn client(api: &ManagementApi, token: &str) -> Result<Client> {
    let mut config: Config = api.config_as("nobody", &[])?;
    config.auth_info = AuthInfo {
        token: Some(token.to_owned().into()),
        ..AuthInfo::default()
    };
    Ok(Client::try_from(config)?)
}

async fn patch(client: &Client, node: &str, patch: &Value) -> Result<(), Error> {
    let nodes = Api::<Node>::all(client.clone());
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    nodes.patch(node, &params, &patch).await.map(drop)
}

fn annotation(name: &str, value: &str) -> Value {
    json!({ "metadata": { "annotations": { name: value } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nodes_token_writes_the_overlays_annotations_of_its_own_node_and_nothing_else()
-> Result<()> {
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let admin = api.admin()?;
    lay(&admin).await?;
    for name in ["a", "b"] {
        let node = json!({ "metadata": { "name": name, "annotations": { "else": "1" } } });
        let node = serde_json::from_value(node)?;
        let nodes = Api::<Node>::all(admin.clone());
        nodes.create(&PostParams::default(), &node).await?;
    }
    let own = client(&api, &token(&admin, "a").await?)?;
    let key = annotation(names::ANNOTATION_OVERLAY_KEY, "key");
    // A policy is in force a moment after it was made.
    ask_until("another node's is refused", PATIENCE, || async {
        Ok(match patch(&own, "b", &key).await {
            Err(Error::Api(status)) if status.message.contains("alone that it runs on") => Ok(()),
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    for (refused, why) in [
        (annotation("else", "2"), "-endpoint and -mtu alone"),
        (
            json!({ "metadata": { "annotations": { "else": null } } }),
            "-endpoint and -mtu alone",
        ),
        (
            annotation("covey.dev/overlay-other", "2"),
            "-endpoint and -mtu alone",
        ),
        (
            json!({ "metadata": { "labels": { "zone": "x" } } }),
            "annotations alone",
        ),
        (
            json!({ "metadata": { "finalizers": ["x.example.com/y"] } }),
            "annotations alone",
        ),
        (
            json!({ "spec": { "unschedulable": true } }),
            "annotations alone",
        ),
        (
            json!({ "spec": { "podCIDR": "10.0.0.0/8" } }),
            "annotations alone",
        ),
        (
            annotation(names::ANNOTATION_OVERLAY_KEY, &"x".repeat(129)),
            "128 characters at most",
        ),
    ] {
        match patch(&own, "a", &refused).await {
            Err(Error::Api(status)) => {
                ensure!(
                    status.message.contains(why),
                    "{refused}: {}",
                    status.message
                );
            }
            other => panic!("{refused}: {other:?}"),
        }
    }
    for name in [
        names::ANNOTATION_OVERLAY_KEY,
        names::ANNOTATION_OVERLAY_ENDPOINT,
        names::ANNOTATION_OVERLAY_MTU,
    ] {
        patch(&own, "a", &annotation(name, "new")).await?;
        patch(
            &own,
            "a",
            &json!({ "metadata": { "annotations": { name: null } } }),
        )
        .await?;
    }
    // A token that is bound to no pod is of no node.
    let accounts = Api::<ServiceAccount>::namespaced(admin.clone(), NAMESPACE);
    let request = TokenRequest::default();
    let loose = accounts
        .create_token_request(NAME, &PostParams::default(), &request)
        .await?;
    let loose = loose.status.map(|status| status.token);
    let loose = client(&api, &loose.unwrap_or_default())?;
    let refused = patch(&loose, "a", &key).await;
    ensure!(refused.is_err(), "a token without a node wrote");
    // Others are nobody's business of this policy.
    patch(&admin, "b", &annotation("else", "2")).await?;
    Ok(())
}

/// The tunnels of all others follow a node's range of pods, so it may not choose one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_chooses_no_range_of_pods_for_its_node() -> Result<()> {
    let Some(api) = ManagementApi::alone().await? else {
        return Ok(());
    };
    let admin = api.admin()?;
    lay(&admin).await?;
    // The kube-apiserver of the tests has no authorizer for nodes.
    let binding = json!({
        "metadata": { "name": "kubelets" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node" },
        "subjects": [{ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes" }],
    });
    let bindings = Api::<ClusterRoleBinding>::all(admin.clone());
    let binding = serde_json::from_value(binding)?;
    bindings.create(&PostParams::default(), &binding).await?;
    let kubelet = api.client_as("system:node:a", &["system:nodes"])?;
    let make = |client: &Client, spec: Value| {
        let nodes = Api::<Node>::all(client.clone());
        async move {
            let node = json!({ "metadata": { "name": "a" }, "spec": spec });
            let node = serde_json::from_value(node).map_err(Error::SerdeError)?;
            nodes.create(&PostParams::default(), &node).await.map(drop)
        }
    };
    let chosen = json!({ "podCIDR": "10.128.9.0/24", "podCIDRs": ["10.128.9.0/24"] });
    ask_until("a range of its own is refused", PATIENCE, || async {
        Ok(match make(&kubelet, chosen.clone()).await {
            Err(Error::Api(status)) if status.message.contains("a kubelet sets none") => Ok(()),
            Err(other) => Err(format!("{other}")),
            // The policy was not in force yet.
            Ok(()) => {
                let nodes = Api::<Node>::all(admin.clone());
                nodes.delete("a", &DeleteParams::default()).await?;
                Err("it was taken".to_owned())
            }
        })
    })
    .await?;
    make(&kubelet, json!({})).await?;
    match patch(&kubelet, "a", &json!({ "spec": chosen })).await {
        Err(Error::Api(status)) => {
            ensure!(status.message.contains("a kubelet sets none"), "{status:?}");
        }
        other => panic!("{other:?}"),
    }
    // What else a kubelet writes it still may, before and after the control plane gave a range.
    patch(&kubelet, "a", &annotation("else", "1")).await?;
    let given = json!({ "spec": { "podCIDR": "10.128.1.0/24", "podCIDRs": ["10.128.1.0/24"] } });
    patch(&admin, "a", &given).await?;
    patch(&kubelet, "a", &annotation("else", "2")).await?;
    Ok(())
}
