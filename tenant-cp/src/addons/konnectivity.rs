//! Konnectivity's agents: one on every node, which dials every server of the control plane.
//!
//! A DaemonSet on the node's own network, because the tunnel has to be there before the pod network
//! is, has to outlive any one node, and what is for a node goes through the agent on that node.
//! Flags are those of apiserver-network-proxy v0.34.0, `cmd/agent/app/options`.
//! Invariant: an agent shows a token that is good for konnectivity's servers only, and believes only
//! servers of konnectivity's own authority.

use serde_json::{Value, json};

use crate::addons::manifest::{
    Inputs, NodePods, RBAC, account, cluster_role_binding, config_map, daemon_set,
    files_annotation, harmless, service_account,
};
use crate::desired::control_plane::konnectivity::{AGENT, LEASE_LABEL, LEASES};
use crate::names;

const NAMESPACE: &str = "kube-system";
/// ConfigMap with the authority of the servers.
const AUTHORITY: &str = "konnectivity-ca";

pub(crate) fn manifests(inputs: &Inputs<'_>) -> Vec<Value> {
    let server = json!({ "apiGroup": RBAC, "kind": "User", "name": names::KONNECTIVITY_USER });
    let mut manifests = vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": LEASES } }),
        service_account(NAMESPACE, AGENT),
        // Reviews of tokens and nothing else.
        cluster_role_binding(names::KONNECTIVITY_USER, "system:auth-delegator", &server),
    ];
    manifests.extend(leases(
        "konnectivity-server",
        &["create", "delete", "get", "list", "update"],
        &server,
    ));
    manifests.extend(leases(
        AGENT,
        &["list", "watch"],
        &account(NAMESPACE, AGENT),
    ));
    let Some((address, authority)) = inputs.konnectivity else {
        return manifests;
    };
    let files = json!({ "ca.crt": authority });
    let pods = NodePods {
        namespace: NAMESPACE,
        name: AGENT,
        label: ("k8s-app", AGENT),
        annotations: files_annotation(&files),
        spec: json!({
            "containers": [container(inputs, &address.to_string())],
            "securityContext": {
                "fsGroup": 65532, "runAsGroup": 65532, "runAsNonRoot": true, "runAsUser": 65532,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "serviceAccountName": AGENT,
            // It goes on working until it is killed; what is under way has this long.
            "terminationGracePeriodSeconds": 10,
            "volumes": [
                { "name": "authority", "configMap": { "name": AUTHORITY } },
                { "name": "token", "projected": { "sources": [{ "serviceAccountToken": {
                    "audience": names::KONNECTIVITY_USER, "expirationSeconds": 3600, "path": "token",
                }}]}},
            ],
        }),
    };
    manifests.push(config_map(NAMESPACE, AUTHORITY, &files));
    manifests.push(daemon_set(&pods));
    manifests
}

/// Role and binding for the Leases by which servers are counted.
fn leases(name: &str, verbs: &[&str], subject: &Value) -> [Value; 2] {
    let metadata = json!({ "name": name, "namespace": LEASES });
    [
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{
                "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs,
            }],
        }),
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": RBAC, "kind": "Role", "name": name },
            "subjects": [subject],
        }),
    ]
}

fn container(inputs: &Inputs<'_>, address: &str) -> Value {
    let mut variables = vec![json!({
        "name": "NODE_ADDRESS", "valueFrom": { "fieldRef": { "fieldPath": "status.hostIP" } },
    })];
    variables.extend(
        inputs
            .api_variables()
            .as_array()
            .cloned()
            .unwrap_or_default(),
    );
    let (admin, health) = (
        names::KONNECTIVITY_ADMIN_PORT,
        names::KONNECTIVITY_HEALTH_PORT,
    );
    let arguments = [
        ("admin-bind-address", "127.0.0.1".to_owned()),
        ("admin-server-port", admin.to_string()),
        // What is for this node comes to this agent.
        ("agent-identifiers", "host=$(NODE_ADDRESS)".to_owned()),
        ("ca-cert", "/etc/konnectivity/ca.crt".to_owned()),
        ("count-server-leases", "true".to_owned()),
        ("health-server-host", "127.0.0.1".to_owned()),
        ("health-server-port", health.to_string()),
        // The servers allow no less than 30 s.
        ("keepalive-time", "40s".to_owned()),
        ("lease-label", LEASE_LABEL.to_owned()),
        ("lease-namespace", LEASES.to_owned()),
        ("proxy-server-host", address.to_owned()),
        ("proxy-server-port", names::KONNECTIVITY_PORT.to_string()),
        (
            "service-account-token-path",
            "/var/run/secrets/konnectivity/token".to_owned(),
        ),
        // Looks that often for servers that the Leases tell of; without news it does not dial.
        ("sync-interval", "500ms".to_owned()),
        ("sync-interval-cap", "5s".to_owned()),
    ]
    .map(|(name, value)| format!("--{name}={value}"));
    let probe = |path: &str, period: i32, failures: i32| {
        json!({
            "httpGet": { "host": "127.0.0.1", "path": path, "port": health, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 5,
        })
    };
    json!({
        "name": AGENT,
        "image": inputs.image(&inputs.settings.images.konnectivity_agent),
        "command": ["/proxy-agent"],
        "args": arguments,
        "env": variables,
        "readinessProbe": probe("/readyz", 2, 3),
        "livenessProbe": probe("/healthz", 20, 6),
        "resources": { "requests": { "cpu": "10m", "memory": "24Mi" } },
        "securityContext": harmless(),
        "volumeMounts": [
            { "name": "authority", "mountPath": "/etc/konnectivity", "readOnly": true },
            { "name": "token", "mountPath": "/var/run/secrets/konnectivity", "readOnly": true },
        ],
    })
}
