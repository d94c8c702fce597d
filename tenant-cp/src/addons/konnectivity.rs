//! Konnectivity's agents: one on every node, which dials every server of the control plane.
//!
//! Nodes elsewhere have a DaemonSet of their own, whose agents dial the endpoint.
//!
//! A DaemonSet on the node's own network, because the tunnel has to be there before the pod network
//! is, has to outlive any one node, and what is for a node goes through the agent on that node.
//! Flags are those of apiserver-network-proxy v0.34.0, `cmd/agent/app/options`.
//! Invariant: an agent shows a token that is good for konnectivity's servers only, and believes only
//! servers of konnectivity's own authority.

use std::net::IpAddr;

use api::names::LABEL_ELSEWHERE;
use api::tenant_cluster::Addons;
use api::{ConditionType, TenantCluster};
use kit_objects::kinds;
use kit_objects::object::Key;
use pki::{Signer, Store, Want};
use serde_json::{Value, json};

use crate::addons::adapter;
use crate::addons::addon::{Addon, Leftover};
use crate::addons::manifest::{
    Inputs, NodePods, RBAC, account, cluster_role_binding, config_map, daemon_set,
    files_annotation, harmless, service_account,
};
use crate::amounts::{self, Amounts};
use crate::desired::control_plane::konnectivity::{AGENT, LEASE_LABEL, LEASES};
use crate::desired::services;
use crate::kubeconfig;
use crate::names;
use crate::network::addresses::Addresses;
use crate::secret_files::Files;
use crate::settings::Settings;
use crate::validate::validated::Validated;

const NAMESPACE: &str = "kube-system";
/// DaemonSet of the agents on nodes that are not in the management cluster's network.
const AGENT_ELSEWHERE: &str = "konnectivity-agent-elsewhere";
/// ConfigMap with the authority of the servers.
const AUTHORITY: &str = "konnectivity-ca";
/// Client certificate of the servers.
const CLIENT: &str = "konnectivity-client";

/// The way from the API server to nodes and pods.
#[derive(Debug)]
pub struct Konnectivity;

impl Addon for Konnectivity {
    fn name(&self) -> &'static str {
        "konnectivity"
    }

    fn condition(&self) -> ConditionType {
        ConditionType::KonnectivityReady
    }

    fn is_enabled(&self, spec: &Addons) -> bool {
        spec.konnectivity.enabled
    }

    fn takes(&self, tc: &TenantCluster, settings: &Settings) -> Amounts {
        let servers = i128::from(tc.spec.control_plane.replicas.max(0));
        amounts::program(&settings.resources.konnectivity).times(servers)
    }

    fn certificates(
        &self,
        v: &Validated,
        settings: &Settings,
        addresses: Option<&Addresses>,
    ) -> Vec<Want> {
        let agents = addresses.and_then(|addresses| addresses.konnectivity_ip);
        let Some(address) = agents else {
            return Vec::new();
        };
        vec![
            adapter::authority(settings, names::KONNECTIVITY_AUTHORITY),
            server(v, settings, address, published(v, addresses)),
            adapter::certificate(settings, CLIENT, names::KONNECTIVITY_USER),
        ]
    }

    fn authorities(&self) -> &'static [&'static str] {
        &[names::KONNECTIVITY_AUTHORITY]
    }

    fn secrets(&self) -> &'static [&'static str] {
        &[names::KONNECTIVITY_SERVER]
    }

    fn secret(&self, v: &Validated, store: &Store, _: &str) -> Option<Files> {
        let mut files = Files::default();
        for pair in [names::KONNECTIVITY_SERVER, CLIENT] {
            files.pair(pair, store.get(pair)?);
        }
        files.trusted(names::CA, store)?;
        // Through the Service: it can be told of agents, and take its Lease down, also while
        // the kube-apiserver beside it starts or has ended already.
        let server = format!("https://{}:{}", names::CONTROL_PLANE, services::port(v));
        files.put("kubeconfig", &kubeconfig::of_client(CLIENT, &server));
        Some(files)
    }

    fn companions(&self, certificate: &str) -> &'static [&'static str] {
        match certificate {
            names::KONNECTIVITY_SERVER => &[names::CA, names::CLIENT_CA],
            _ => &[],
        }
    }

    fn leftovers(&self) -> &'static [Leftover] {
        const LEFT: &[Leftover] = &[
            Leftover::applied(kinds::SERVICE, names::KONNECTIVITY),
            Leftover::applied(kinds::SECRET, names::KONNECTIVITY_SERVER),
            Leftover::applied(kinds::SECRET, names::KONNECTIVITY_AUTHORITY),
        ];
        LEFT
    }

    fn is_in_control_plane(&self) -> bool {
        true
    }

    fn manifests(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        manifests(inputs, inputs.v.endpoint.konnectivity_port)
    }

    fn every_manifest(&self, inputs: &Inputs<'_>) -> Vec<Value> {
        manifests(inputs, Some(names::KONNECTIVITY_PORT))
    }

    fn workload(&self) -> Option<Key> {
        Some(Key::new("DaemonSet", NAMESPACE, AGENT))
    }

    /// Where all nodes are elsewhere, the first one has no pods.
    fn workloads(&self, v: &Validated) -> Vec<Key> {
        let key = |name: &str| Key::new("DaemonSet", NAMESPACE, name);
        let published = v.endpoint.konnectivity_port;
        let elsewhere = published.map(|_| key(AGENT_ELSEWHERE));
        [key(AGENT)].into_iter().chain(elsewhere).collect()
    }
}

/// Where agents elsewhere dial; none where konnectivity is not published.
fn published<'a>(v: &Validated, addresses: Option<&'a Addresses>) -> Option<&'a str> {
    v.endpoint.konnectivity_port?;
    Some(addresses?.endpoint.as_ref()?.host.as_str())
}

/// The certificate that agents see: every name under which they may reach the servers' Service.
fn server(v: &Validated, settings: &Settings, address: IpAddr, published: Option<&str>) -> Want {
    let (service, ns) = (names::KONNECTIVITY, &v.tenant_namespace);
    let outside = published.map(|host| host.parse::<IpAddr>().map_err(|_| host.to_owned()));
    let mut addresses = vec![address];
    addresses.extend(
        outside
            .clone()
            .and_then(Result::ok)
            .filter(|outside| *outside != address),
    );
    Want {
        signer: Signer::By(names::KONNECTIVITY_AUTHORITY.to_owned()),
        server: true,
        client: false,
        dns_names: vec![
            service.to_owned(),
            format!("{service}.{ns}"),
            format!("{service}.{ns}.svc"),
            format!("{service}.{ns}.svc.cluster.local"),
        ]
        .into_iter()
        .chain(outside.and_then(Result::err))
        .collect(),
        addresses,
        ..adapter::certificate(
            settings,
            names::KONNECTIVITY_SERVER,
            names::KONNECTIVITY_SERVER,
        )
    }
}

fn manifests(inputs: &Inputs<'_>, published: Option<i32>) -> Vec<Value> {
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
    manifests.push(config_map(NAMESPACE, AUTHORITY, &files));
    let inside = container(inputs, &address.to_string(), names::KONNECTIVITY_PORT);
    let mut agents = agents(AGENT, &inside, &files);
    if let Some(port) = published {
        // Inside they do not depend on what publishes the endpoint.
        agents["spec"]["template"]["spec"]["affinity"] = json!({ "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{
                "matchExpressions": [{ "key": LABEL_ELSEWHERE, "operator": "DoesNotExist" }],
            }]},
        }});
        let outside = container(inputs, &inputs.endpoint.host, port);
        let mut outside = self::agents(AGENT_ELSEWHERE, &outside, &files);
        outside["spec"]["template"]["spec"]["nodeSelector"][LABEL_ELSEWHERE] = json!("true");
        manifests.push(outside);
    }
    manifests.push(agents);
    manifests
}

/// One on each node.
fn agents(name: &str, container: &Value, files: &Value) -> Value {
    daemon_set(&NodePods {
        namespace: NAMESPACE,
        name,
        label: ("k8s-app", name),
        annotations: files_annotation(files),
        spec: json!({
            "containers": [container],
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
    })
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

fn container(inputs: &Inputs<'_>, host: &str, port: i32) -> Value {
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
        ("proxy-server-host", host.to_owned()),
        ("proxy-server-port", port.to_string()),
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
