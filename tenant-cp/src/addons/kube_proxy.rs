//! kube-proxy on every node, in its nftables mode unless another is asked for.
//!
//! Its version is the control plane's: it must not be newer than that and may be newer than the
//! kubelet beside it (Kubernetes' version skew policy).
//! Invariant: it reaches the API at the endpoint, because the Service `kubernetes` works only
//! through kube-proxy itself.

use api::ConditionType;
use api::tenant_cluster::Addons;
use kit_objects::object::Key;
use serde_json::{Value, json};

use crate::addons::addon::Addon;
use crate::addons::manifest::{
    Inputs, NodePods, account, cluster_role_binding, config_map, daemon_set, files_annotation,
    service_account,
};
use crate::network::addresses::host_and_port;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-proxy";
/// Port of its health server, the default of `healthzBindAddress`.
const HEALTH: u16 = 10256;

/// Services for pods.
#[derive(Debug)]
pub struct KubeProxy;

impl Addon for KubeProxy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn condition(&self) -> ConditionType {
        ConditionType::KubeProxyReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.kube_proxy.enabled
    }

    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        manifests(inputs)
    }

    fn workload(&self) -> Option<Key> {
        Some(Key::new("DaemonSet", NAMESPACE, NAME))
    }
}

fn manifests(inputs: &Inputs<'_>) -> Vec<Value> {
    let files = json!({
        "config.conf": configuration(inputs),
        "kubeconfig.conf": kubeconfig(inputs),
    });
    let pods = NodePods {
        namespace: NAMESPACE,
        name: NAME,
        label: ("k8s-app", NAME),
        annotations: files_annotation(&files),
        spec: json!({
            "containers": [container(inputs)],
            "serviceAccountName": NAME,
            "volumes": [
                { "name": "config", "configMap": { "name": NAME } },
                { "name": "modules", "hostPath": { "path": "/lib/modules", "type": "" } },
            ],
        }),
    };
    vec![
        service_account(NAMESPACE, NAME),
        cluster_role_binding(
            "kubeadm:node-proxier",
            "system:node-proxier",
            &account(NAMESPACE, NAME),
        ),
        config_map(NAMESPACE, NAME, &files),
        daemon_set(&pods),
        service(),
    ]
}

/// Which nodes have a kube-proxy that is ready: its EndpointSlices tell the cloud controller manager
/// where a node port leads somewhere (`ccm/src/names.rs`). Nobody needs its name.
fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": { "k8s-app": NAME } },
        "spec": {
            "clusterIP": "None",
            "selector": { "k8s-app": NAME },
            "ports": [{ "name": "healthz", "port": HEALTH }],
        },
    })
}

/// Only what differs from the defaults. With zeros the kernel's own limits for connections stay: in
/// a virtual machine they fit its memory, and setting them may be forbidden.
fn configuration(inputs: &Inputs<'_>) -> String {
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
mode: {mode}
",
        mode = inputs.v.kube_proxy_mode.as_str(),
        pods = json!(inputs.v.network.pod_cidr),
    )
}

fn kubeconfig(inputs: &Inputs<'_>) -> String {
    let server = host_and_port(&inputs.endpoint.host, inputs.endpoint.port);
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

fn container(inputs: &Inputs<'_>) -> Value {
    let probe = |path: &str, period: i32, failures: i32, successes: i32| {
        json!({
            "httpGet": { "host": "127.0.0.1", "path": path, "port": HEALTH, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 5,
            "successThreshold": successes,
        })
    };
    json!({
        "name": NAME,
        "image": inputs.image(&format!("kube-proxy:v{}", inputs.v.version)),
        "command": [
            "/usr/local/bin/kube-proxy",
            "--config=/etc/kube-proxy/config.conf",
            "--hostname-override=$(NODE_NAME)",
        ],
        "env": [{
            "name": "NODE_NAME",
            "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } },
        }],
        // It calls itself healthy before it has written a rule (kubernetes `pkg/proxy/healthcheck`),
        // which it does a moment after it knows its node: so twice. `/healthz` says no, too, once
        // the Cluster Autoscaler wants the node to go (KEP-3836).
        "readinessProbe": probe("/healthz", 5, 3, 2),
        "livenessProbe": probe("/livez", 20, 6, 1),
        "resources": { "requests": { "cpu": "10m", "memory": "40Mi" } },
        // It writes the kernel's tables and settings (`route_localnet`, conntrack).
        "securityContext": { "privileged": true },
        "volumeMounts": [
            { "name": "config", "mountPath": "/etc/kube-proxy", "readOnly": true },
            { "name": "modules", "mountPath": "/lib/modules", "readOnly": true },
        ],
    })
}
