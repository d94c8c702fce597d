//! kube-proxy in its nftables mode, on every node.
//!
//! Its version is the control plane's: it must not be newer than that and may be newer than the
//! kubelet beside it (Kubernetes' version skew policy).
//! Invariant: it reaches the API at the endpoint, because the Service `kubernetes` works only
//! through kube-proxy itself.

use serde_json::{Value, json};

use super::{
    Inside, NodePods, account, cluster_role_binding, config_map, daemon_set, files_annotation,
};
use crate::desired::authority;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-proxy";

pub(super) fn manifests(inside: &Inside<'_>) -> Vec<Value> {
    let files = json!({
        "config.conf": configuration(inside),
        "kubeconfig.conf": kubeconfig(inside),
    });
    let pods = NodePods {
        namespace: NAMESPACE,
        name: NAME,
        label: ("k8s-app", NAME),
        annotations: files_annotation(&files),
        spec: json!({
            "containers": [container(inside)],
            "serviceAccountName": NAME,
            "volumes": [
                { "name": "config", "configMap": { "name": NAME } },
                { "name": "modules", "hostPath": { "path": "/lib/modules", "type": "" } },
            ],
        }),
    };
    vec![
        super::service_account(NAMESPACE, NAME),
        cluster_role_binding(
            "kubeadm:node-proxier",
            "system:node-proxier",
            &account(NAMESPACE, NAME),
        ),
        config_map(NAMESPACE, NAME, &files),
        daemon_set(&pods),
    ]
}

/// Only what differs from the defaults. With zeros the kernel's own limits for connections stay: in
/// a virtual machine they fit its memory, and setting them may be forbidden.
fn configuration(inside: &Inside<'_>) -> String {
    format!(
        "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection:
  kubeconfig: /etc/kube-proxy/kubeconfig.conf
clusterCIDR: {pods}
conntrack:
  maxPerCore: 0
  min: 0
  tcpCloseWaitTimeout: 0s
  tcpEstablishedTimeout: 0s
mode: nftables
",
        pods = json!(inside.v.network.pod_cidr),
    )
}

fn kubeconfig(inside: &Inside<'_>) -> String {
    let server = authority(&inside.endpoint.host, inside.endpoint.port);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: default
  cluster:
    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
    server: {server}
contexts:
- name: default
  context:
    cluster: default
    user: default
current-context: default
users:
- name: default
  user:
    tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token
",
        server = json!(format!("https://{server}")),
    )
}

fn container(inside: &Inside<'_>) -> Value {
    let probe = |period: i32, failures: i32| {
        json!({
            "httpGet": { "host": "127.0.0.1", "path": "/livez", "port": 10256, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 5,
        })
    };
    json!({
        "name": NAME,
        "image": inside.image(&format!("kube-proxy:v{}", inside.v.version)),
        "command": [
            "/usr/local/bin/kube-proxy",
            "--config=/etc/kube-proxy/config.conf",
            "--hostname-override=$(NODE_NAME)",
        ],
        "env": [{
            "name": "NODE_NAME",
            "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } },
        }],
        "readinessProbe": probe(5, 3),
        "livenessProbe": probe(20, 6),
        "resources": { "requests": { "cpu": "10m", "memory": "40Mi" } },
        // It writes the kernel's tables and settings (`route_localnet`, conntrack).
        "securityContext": { "privileged": true },
        "volumeMounts": [
            { "name": "config", "mountPath": "/etc/kube-proxy", "readOnly": true },
            { "name": "modules", "mountPath": "/lib/modules", "readOnly": true },
        ],
    })
}
