//! Manifests of addons: pieces that several of them share, and what all are rendered from.
//!
//! Invariant: nothing here names an addon; a piece gives the same manifest for the same input.

use std::net::IpAddr;

use api::tenant_cluster::EndpointStatus;
use kit_objects::object::hash;
use serde_json::{Value, json};

use crate::desired::pod;
use crate::settings::Settings;
use crate::validate::validated::Validated;

/// What addons need to know.
pub struct Inputs<'a> {
    pub(crate) v: &'a Validated,
    pub(crate) settings: &'a Settings,
    /// Where nodes reach the API.
    pub(crate) endpoint: &'a EndpointStatus,
    /// Where nodes reach konnectivity's servers, and whom they believe there.
    pub(crate) konnectivity: Option<(IpAddr, &'a str)>,
}

impl Inputs<'_> {
    /// Variables by which a client inside a pod finds the API: the endpoint, instead of the Service
    /// `kubernetes`, which works only once kube-proxy does.
    pub(crate) fn api_variables(&self) -> Value {
        json!([
            { "name": "KUBERNETES_SERVICE_HOST", "value": self.endpoint.host },
            { "name": "KUBERNETES_SERVICE_PORT", "value": self.endpoint.port.to_string() },
        ])
    }

    pub(crate) fn image(&self, path: &str) -> String {
        format!("{}/{path}", self.v.registry)
    }

    /// An image of Covey's.
    pub(crate) fn own_image(&self, registry: &str, path: &str) -> String {
        pod::own_image(self.settings, registry, path)
    }
}

pub(crate) fn service_account(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": namespace },
    })
}

pub(crate) fn config_map(namespace: &str, name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace },
        "data": data,
    })
}

pub(crate) const RBAC: &str = "rbac.authorization.k8s.io";

pub(crate) fn cluster_role(name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": rules,
    })
}

pub(crate) fn cluster_role_binding(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
        "metadata": { "name": name },
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": role },
        "subjects": [subject],
    })
}

pub(crate) fn account(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ServiceAccount", "namespace": namespace, "name": name })
}

/// Annotation of a pod template: changes when a file changes that its program reads only at the
/// start, so that the pods are replaced.
pub(crate) fn files_annotation(files: &Value) -> Value {
    json!({ "covey.dev/files-hash": hash(files) })
}

/// One pod per node, whatever the node's state: the node is not ready before some of these run.
pub(crate) struct NodePods<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Label by which the pods are selected. It can never change.
    pub(crate) label: (&'a str, &'a str),
    pub(crate) annotations: Value,
    /// Merged into the pod's spec.
    pub(crate) spec: Value,
}

pub(crate) fn daemon_set(pods: &NodePods<'_>) -> Value {
    let labels = json!({ pods.label.0: pods.label.1 });
    let mut spec = json!({
        "dnsPolicy": "Default",
        "enableServiceLinks": false,
        "hostNetwork": true,
        "nodeSelector": { "kubernetes.io/os": "linux" },
        "priorityClassName": "system-node-critical",
        "tolerations": [{ "operator": "Exists" }],
    });
    for (key, value) in pods.spec.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": pods.name, "namespace": pods.namespace, "labels": labels },
        "spec": {
            "revisionHistoryLimit": 2,
            "selector": { "matchLabels": labels },
            "updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "10%" },
            },
            "template": {
                "metadata": { "labels": labels, "annotations": pods.annotations },
                "spec": spec,
            },
        },
    })
}

/// What a container that needs nothing of the machine may do.
pub(crate) fn harmless() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
        "readOnlyRootFilesystem": true,
    })
}
