//! CoreDNS, under the names that kubeadm gives it, so that tools find it.
//!
//! Invariant: its Service has the tenth address of the Service range, which `kubelet-config` names;
//! a tenant cluster without nodes has two pods that wait, and that is fine.

use api::ConditionType;
use api::tenant_cluster::{Addons, ForwardedZone};
use kit_objects::object::Key;
use serde_json::{Value, json};

use crate::addons::addon::Addon;
use crate::addons::manifest::{
    Inputs, account, cluster_role, cluster_role_binding, config_map, files_annotation,
    service_account,
};
use crate::network::addresses::{host_and_port, network_address};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "coredns";

/// DNS for pods.
#[derive(Debug)]
pub struct CoreDns;

impl Addon for CoreDns {
    fn name(&self) -> &'static str {
        NAME
    }

    fn condition(&self) -> ConditionType {
        ConditionType::CoreDNSReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.core_dns.enabled
    }

    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        manifests(inputs)
    }

    fn workload(&self) -> Option<Key> {
        Some(Key::new("Deployment", NAMESPACE, NAME))
    }
}

fn manifests(inputs: &Inputs<'_>) -> Vec<Value> {
    let v = inputs.v;
    let corefile = corefile(&v.network.dns_domain) + &forwarded(&v.dns.forward);
    let corefile = json!({ "Corefile": corefile });
    vec![
        service_account(NAMESPACE, NAME),
        cluster_role(
            "system:coredns",
            &json!([
                { "apiGroups": [""], "resources": ["namespaces", "services"],
                  "verbs": ["list", "watch"] },
                { "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
                  "verbs": ["list", "watch"] },
            ]),
        ),
        cluster_role_binding(
            "system:coredns",
            "system:coredns",
            &account(NAMESPACE, NAME),
        ),
        config_map(NAMESPACE, NAME, &corefile),
        service(inputs),
        deployment(inputs, &corefile),
    ]
}

fn corefile(domain: &str) -> String {
    format!(
        ".:53 {{
    errors
    health {{
        lameduck 5s
    }}
    ready
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }}
    prometheus :9153
    forward . /etc/resolv.conf {{
        max_concurrent 1000
    }}
    cache 30
    loop
    reload
    loadbalance
}}
"
    )
}

/// A server block for each zone that other servers are asked for (coredns.io, plugin `forward`).
fn forwarded(zones: &[ForwardedZone]) -> String {
    let block = |zone: &ForwardedZone| {
        let servers: Vec<String> = zone.servers.iter().map(|s| server(s)).collect();
        format!(
            "{}:53 {{
    errors
    forward . {}
    cache 30
}}
",
            zone.zone,
            servers.join(" ")
        )
    };
    zones.iter().map(block).collect()
}

/// In brackets where there are colons in it.
fn server(address: &str) -> String {
    host_and_port(address, 53)
}

fn service(inputs: &Inputs<'_>) -> Value {
    let address = network_address(&inputs.v.network.service_cidr, 10).to_string();
    let port = |name: &str, protocol: &str, port: i32| json!({ "name": name, "protocol": protocol, "port": port, "targetPort": port });
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kube-dns", "namespace": NAMESPACE,
            "labels": {
                "k8s-app": "kube-dns",
                "kubernetes.io/cluster-service": "true",
                "kubernetes.io/name": "CoreDNS",
            },
            "annotations": { "prometheus.io/port": "9153", "prometheus.io/scrape": "true" },
        },
        "spec": {
            "clusterIP": address,
            "selector": { "k8s-app": "kube-dns" },
            "ports": [
                port("dns", "UDP", 53), port("dns-tcp", "TCP", 53), port("metrics", "TCP", 9153),
            ],
        },
    })
}

fn deployment(inputs: &Inputs<'_>, corefile: &Value) -> Value {
    let labels = json!({ "k8s-app": "kube-dns" });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            "replicas": inputs.v.dns.replicas,
            "revisionHistoryLimit": 2,
            "selector": { "matchLabels": labels },
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 1 } },
            "template": {
                "metadata": { "labels": labels, "annotations": files_annotation(corefile) },
                "spec": {
                    "containers": [container(inputs)],
                    // Where the machine itself asks; its own Service would be a loop.
                    "dnsPolicy": "Default",
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "priorityClassName": "system-cluster-critical",
                    "serviceAccountName": NAME,
                    "tolerations": [{ "key": "CriticalAddonsOnly", "operator": "Exists" }],
                    "topologySpreadConstraints": [{
                        "labelSelector": { "matchLabels": labels },
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                    }],
                    "volumes": [{ "name": "config", "configMap": { "name": NAME } }],
                },
            },
        },
    })
}

fn container(inputs: &Inputs<'_>) -> Value {
    let port = |name: &str, protocol: &str, port: i32| json!({ "name": name, "protocol": protocol, "containerPort": port });
    let probe = |path: &str, port: i32, period: i32, failures: i32| {
        json!({
            "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
            "periodSeconds": period, "failureThreshold": failures, "timeoutSeconds": 5,
        })
    };
    json!({
        "name": NAME,
        "image": inputs.image(&inputs.settings.images.core_dns),
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [port("dns", "UDP", 53), port("dns-tcp", "TCP", 53), port("metrics", "TCP", 9153)],
        "livenessProbe": probe("/health", 8080, 10, 6),
        "readinessProbe": probe("/ready", 8181, 2, 3),
        "resources": {
            "limits": { "memory": "170Mi" },
            "requests": { "cpu": "100m", "memory": "70Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "add": ["NET_BIND_SERVICE"], "drop": ["ALL"] },
            "readOnlyRootFilesystem": true,
        },
        "volumeMounts": [{ "name": "config", "mountPath": "/etc/coredns", "readOnly": true }],
    })
}
