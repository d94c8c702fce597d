//! What counts as a change of a node, and which certificates of nodes wait to be approved.
//!
//! Invariant: a heartbeat is no change; bodies are read for that alone and are not kept.

use std::hash::{DefaultHasher, Hash, Hasher};

use api::names;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::ResourceExt;
use kube::core::Object;
use serde::{Deserialize, Serialize};
use tenant_cp::node::{client_certificate, serving_certificate as csr};

/// The part of a node that decides anything; the rest (images, capacity) is not even decoded.
pub(super) type Node = Object<Spec, Status>;

/// Part of a node's spec.
#[derive(Clone, Debug, Default, Deserialize, Hash, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    unschedulable: Option<bool>,
    taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, Deserialize, Hash, Serialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: Option<String>,
    effect: String,
}

/// Part of a node's status.
#[derive(Clone, Debug, Default, Deserialize, Hash, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    conditions: Vec<Condition>,
    addresses: Vec<Address>,
    node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize, Hash, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
    #[serde(rename = "bootID")]
    boot_id: String,
}

#[derive(Clone, Debug, Default, Deserialize, Hash, Serialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Hash, Serialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    type_: String,
    address: String,
}

/// Changes exactly when something changes that a machine's reconcile may look at.
pub(super) fn fingerprint(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        &node.metadata.uid,
        node.metadata.deletion_timestamp.is_some(),
    )
        .hash(&mut hasher);
    let key = node.annotations().get(names::ANNOTATION_OVERLAY_KEY);
    (key, node.labels(), &node.spec, &node.status).hash(&mut hasher);
    hasher.finish()
}

/// The node that waits for this request to be approved; none where there is nothing to decide.
pub(super) fn waiting_for(request: &CertificateSigningRequest) -> Option<String> {
    let decided = request.status.as_ref().is_some_and(|status| {
        status
            .conditions
            .as_ref()
            .is_some_and(|list| !list.is_empty())
    });
    let serving = || csr::node(&request.spec).map(str::to_owned);
    (!decided).then(|| serving().or_else(|| client_certificate::node(&request.spec)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(ready: &str, heartbeat: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": "a", "uid": "u", "labels": { "x": "y" }, "resourceVersion": heartbeat },
            "spec": { "podCIDR": "10.0.0.0/24", "taints": [{ "key": "k", "effect": "NoSchedule" }] },
            "status": {
                "conditions": [{ "type": "Ready", "status": ready, "lastHeartbeatTime": heartbeat }],
                "images": [{ "names": ["a"], "sizeBytes": 1 }],
            },
        })
    }

    fn print(node: Value) -> u64 {
        fingerprint(&serde_json::from_value(node).unwrap())
    }

    #[test]
    fn heartbeat_is_no_change_and_everything_else_is() {
        let plain = print(node("True", "1"));
        assert_eq!(plain, print(node("True", "2")));
        assert_ne!(plain, print(node("Unknown", "1")));
        for (pointer, value) in [
            ("/metadata/labels/x", json!("z")),
            ("/metadata/uid", json!("v")),
            ("/spec/unschedulable", json!(true)),
            ("/spec/providerID", json!("kubevirt://a")),
            ("/spec/taints", json!([])),
            (
                "/status/addresses",
                json!([{ "type": "InternalIP", "address": "10.0.0.1" }]),
            ),
            (
                "/metadata/annotations",
                json!({ names::ANNOTATION_OVERLAY_KEY: "x" }),
            ),
            ("/metadata/deletionTimestamp", json!("2026-11-21T12:00:00Z")),
        ] {
            let mut other = node("True", "1");
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            other.pointer_mut(parent).unwrap()[field] = value;
            assert_ne!(plain, print(other), "{pointer}");
        }
    }

    #[test]
    fn only_undecided_requests_of_nodes_for_serving_wait() {
        let request = |signer: &str, user: &str, conditions: Value| {
            let request = json!({
                "metadata": { "name": "csr-1" },
                "spec": { "signerName": signer, "username": user, "request": "" },
                "status": { "conditions": conditions },
            });
            waiting_for(&serde_json::from_value(request).unwrap())
        };
        let node = Some("a".to_owned());
        assert_eq!(request(csr::SIGNER, "system:node:a", json!([])), node);
        let approved = json!([{ "type": "Approved", "status": "True" }]);
        assert_eq!(request(csr::SIGNER, "system:node:a", approved), None);
        assert_eq!(request(csr::SIGNER, "jane", json!([])), None);
        assert_eq!(
            request(
                "kubernetes.io/kube-apiserver-client",
                "system:node:a",
                json!([])
            ),
            None
        );
    }
}
