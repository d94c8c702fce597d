//! Objects that the tests put before the API server.
//!
//! Invariant: what the operator is meant to write looks as it writes it, labels included.

use serde_json::{Value, json};

/// The label that marks what belongs to a tenant cluster.
pub(crate) const UID: &str = "covey.dev/tenant-cluster-uid";

pub(crate) fn namespace(name: &str, labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<_, _> = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

pub(crate) fn tenant_cluster(namespace: &str) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantCluster",
        "metadata": { "name": "demo", "namespace": namespace },
        "spec": { "version": "1.35.4" },
    })
}

pub(crate) fn secret(name: &str, namespace: &str, ours: bool) -> Value {
    let labels = if ours {
        json!({ UID: "u1" })
    } else {
        json!({})
    };
    let metadata = json!({ "name": name, "namespace": namespace, "labels": labels });
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata })
}

pub(crate) fn binding(name: &str, namespace: &str, role: &str) -> Value {
    let mut labels = json!({
        "app.kubernetes.io/managed-by": "covey", "app.kubernetes.io/component": "operator",
    });
    if [AUTOSCALER, TENANT, CCM, CSI].contains(&role) {
        labels[UID] = json!("u1");
    }
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": { "name": name, "namespace": namespace, "labels": labels },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{
            "kind": "ServiceAccount", "name": "covey-operator", "namespace": "covey-system",
        }],
    })
}

pub(crate) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

pub(crate) const RESTRICTED: (&str, &str) = ("pod-security.kubernetes.io/enforce", "restricted");
pub(crate) const TENANT: &str = "covey-tenant-namespace";
pub(crate) const AUTOSCALER: &str = "covey-autoscaler";
pub(crate) const CCM: &str = "covey-ccm";
pub(crate) const CSI: &str = "covey-csi";
pub(crate) const USER: &str = "covey-user-namespace";
