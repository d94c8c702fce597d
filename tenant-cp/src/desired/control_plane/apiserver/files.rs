//! Configuration files of the kube-apiserver that lie next to its certificates.
//!
//! Invariant: constants, the same for every tenant cluster, but for the issuers of tokens, the defaults of
//! Pod Security and [`choices`]; each is valid in every supported minor.

pub(crate) mod choices;

use std::collections::BTreeSet;

use api::tenant_cluster::{Issuer, PodSecurity};
use serde_json::{Value, json};

/// Audit policy: who did what at `Metadata` level, never bodies (they hold secrets), without the
/// noise of the components among themselves (audit.k8s.io/v1).
pub(crate) const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ['system:apiserver']
- level: None
  nonResourceURLs: ['/livez*', '/readyz*', '/healthz*', '/version', '/openapi/*']
- level: None
  resources:
  - group: ''
    resources: [events]
  - group: events.k8s.io
    resources: [events]
- level: None
  userGroups: ['system:nodes']
  verbs: [get, list, watch]
  resources:
  - group: ''
    resources: [nodes, nodes/status, pods, pods/status, services, endpoints, configmaps]
  - group: discovery.k8s.io
  - group: node.k8s.io
  - group: storage.k8s.io
- level: None
  users: ['system:kube-controller-manager', 'system:kube-scheduler']
  verbs: [get, list, watch]
- level: None
  userGroups: ['system:nodes', 'system:serviceaccounts:kube-system']
  verbs: [get, list, watch, update, patch]
  resources:
  - group: coordination.k8s.io
    resources: [leases]
- level: None
  users: ['system:kube-controller-manager', 'system:kube-scheduler']
  verbs: [update, patch]
  resources:
  - group: coordination.k8s.io
    resources: [leases]
- level: Metadata
";

/// Anonymous requests for health and for what `kubeadm join` reads first, and for nothing else
/// (apiserver.config.k8s.io/v1, KEP-4633).
pub(crate) const AUTHENTICATION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
  - path: /api/v1/namespaces/kube-public/configmaps/cluster-info
";

/// The same, with those who may say who somebody is. The kube-apiserver reads it again by itself.
pub(crate) fn authentication(issuers: &[Issuer]) -> String {
    match issuers {
        [] => AUTHENTICATION.to_owned(),
        // JSON is YAML.
        issuers => {
            let issuers: Vec<Value> = issuers.iter().map(jwt).collect();
            format!("{AUTHENTICATION}jwt: {}\n", json!(issuers))
        }
    }
}

/// `egressSelectorType`: the URL is the tenant's word, and what it leads to is dialled from the tenant's
/// nodes, as webhooks are; the control plane's pods themselves reach nothing.
fn jwt(issuer: &Issuer) -> Value {
    let or_url = |prefix: &Option<String>| {
        let default = || format!("{}#", issuer.url);
        prefix.clone().unwrap_or_else(default)
    };
    let mut from = json!({
        "url": issuer.url,
        "audiences": issuer.audiences,
        "audienceMatchPolicy": "MatchAny",
        "egressSelectorType": "cluster",
    });
    for (field, value) in [
        ("discoveryURL", &issuer.discovery_url),
        ("certificateAuthority", &issuer.certificate_authority),
    ] {
        if let Some(value) = value {
            from[field] = json!(value);
        }
    }
    let mut claims = json!({ "username": {
        "claim": issuer.username_claim,
        "prefix": or_url(&issuer.username_prefix),
    }});
    if let Some(claim) = &issuer.groups_claim {
        claims["groups"] = json!({ "claim": claim, "prefix": or_url(&issuer.groups_prefix) });
    }
    let required = issuer.required_claims.iter();
    let required: Vec<Value> = required
        .map(|(claim, value)| json!({ "claim": claim, "requiredValue": value }))
        .collect();
    let mut jwt = json!({ "issuer": from, "claimMappings": claims });
    if !required.is_empty() {
        jwt["claimValidationRules"] = json!(required);
    }
    jwt
}

/// What leaves the kube-apiserver for nodes, pods and webhooks goes through konnectivity; what is
/// not named here (etcd) goes straight. `controlplane` is what the server calls webhooks that are
/// named by URL: such a URL is the tenant's word, so it is dialled from the tenant's network, never
/// from the management cluster's (apiserver `pkg/server/egressselector`, KEP-1281).
pub(crate) const EGRESS: &str = "\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: GRPC
    transport:
      uds:
        udsName: /run/konnectivity/konnectivity.sock
- name: controlplane
  connection:
    proxyProtocol: GRPC
    transport:
      uds:
        udsName: /run/konnectivity/konnectivity.sock
";

/// Admission plugins' settings: a flood of Events in one namespace cannot fill etcd.
pub(crate) const ADMISSION: &str = "\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - type: Namespace
      qps: 50
      burst: 200
      cacheSize: 1000
";

/// Namespaces of addons, whose pods have to get at their nodes.
const ADDONS: [&str; 2] = ["kube-flannel", "kube-system"];

/// The same, with what pods may be in namespaces that say nothing of it
/// (pod-security.admission.config.k8s.io/v1). The kube-apiserver reads it when it starts.
pub(crate) fn admission(pod_security: &PodSecurity) -> String {
    if pod_security.is_default() {
        return ADMISSION.to_owned();
    }
    let mut defaults = json!({});
    for (mode, level) in [
        ("enforce", pod_security.enforce),
        ("audit", pod_security.audit),
        ("warn", pod_security.warn),
    ] {
        if let Some(level) = level {
            defaults[mode] = json!(level);
            defaults[format!("{mode}-version")] = json!("latest");
        }
    }
    let own = ADDONS.iter().map(|name| (*name).to_owned());
    let namespaces: BTreeSet<String> = own.chain(pod_security.exempt_namespaces.clone()).collect();
    let plugin = json!({
        "name": "PodSecurity",
        "configuration": {
            "apiVersion": "pod-security.admission.config.k8s.io/v1",
            "kind": "PodSecurityConfiguration",
            "defaults": defaults,
            "exemptions": { "namespaces": namespaces },
        },
    });
    format!("{ADMISSION}- {plugin}\n")
}

#[cfg(test)]
mod tests;
