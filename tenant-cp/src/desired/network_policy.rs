//! NetworkPolicies of the tenant namespace: nothing goes in or out but what is listed here.
//!
//! | from | to | port |
//! |---|---|---|
//! | anywhere | control-plane | 6443 |
//! | control-plane | etcd | 2379 |
//! | etcd | etcd | 2379, 2380 |
//! | all pods | DNS of the management cluster | 53 |
//!
//! Invariant: no way to the management cluster's API or nodes: a tenant's administrator can make its
//! API server call any address (webhooks, aggregated APIs, node proxies).

use std::collections::BTreeMap;

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
        NetworkPolicyPort, NetworkPolicySpec,
    },
    apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString},
};

use super::{meta, names, selector};
use crate::{Object, Settings, Validated};

pub(super) fn network_policies(v: &Validated, settings: &Settings) -> Vec<Object> {
    let policy = |name: &str, spec: NetworkPolicySpec| {
        Object::new(&NetworkPolicy {
            metadata: meta(v, name, "network"),
            spec: Some(spec),
        })
    };
    let types = |types: &[&str]| Some(types.iter().map(|&text| text.to_owned()).collect());
    vec![
        policy(
            "default-deny",
            NetworkPolicySpec {
                pod_selector: Some(LabelSelector::default()),
                policy_types: types(&["Ingress", "Egress"]),
                // Said, not left out: a rule that somebody adds is then found and taken away.
                ingress: Some(vec![]),
                egress: Some(vec![]),
            },
        ),
        policy(
            "dns",
            NetworkPolicySpec {
                pod_selector: Some(LabelSelector::default()),
                policy_types: types(&["Egress"]),
                egress: Some(vec![NetworkPolicyEgressRule {
                    ports: Some(vec![port("UDP", 53), port("TCP", 53)]),
                    to: Some(vec![dns(settings)]),
                }]),
                ..NetworkPolicySpec::default()
            },
        ),
        policy(
            names::CONTROL_PLANE,
            NetworkPolicySpec {
                pod_selector: Some(pods(selector(names::CONTROL_PLANE))),
                policy_types: types(&["Ingress", "Egress"]),
                ingress: Some(vec![NetworkPolicyIngressRule {
                    ports: Some(vec![port("TCP", names::API_PORT)]),
                    from: None,
                }]),
                egress: Some(vec![to_pods(names::ETCD, &[names::ETCD_CLIENT_PORT])]),
            },
        ),
        policy(
            names::ETCD,
            NetworkPolicySpec {
                pod_selector: Some(pods(selector(names::ETCD))),
                policy_types: types(&["Ingress", "Egress"]),
                ingress: Some(vec![
                    from_pods(names::CONTROL_PLANE, &[names::ETCD_CLIENT_PORT]),
                    from_pods(
                        names::ETCD,
                        &[names::ETCD_CLIENT_PORT, names::ETCD_PEER_PORT],
                    ),
                ]),
                egress: Some(vec![to_pods(
                    names::ETCD,
                    &[names::ETCD_CLIENT_PORT, names::ETCD_PEER_PORT],
                )]),
            },
        ),
    ]
}

fn from_pods(component: &str, ports: &[i32]) -> NetworkPolicyIngressRule {
    NetworkPolicyIngressRule {
        from: Some(vec![peer(component)]),
        ports: Some(ports.iter().map(|&number| port("TCP", number)).collect()),
    }
}

fn to_pods(component: &str, ports: &[i32]) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![peer(component)]),
        ports: Some(ports.iter().map(|&number| port("TCP", number)).collect()),
    }
}

fn peer(component: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(pods(selector(component))),
        ..NetworkPolicyPeer::default()
    }
}

fn dns(settings: &Settings) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(pods(BTreeMap::from([(
            "kubernetes.io/metadata.name".to_owned(),
            settings.dns.namespace.clone(),
        )]))),
        pod_selector: Some(pods(settings.dns.labels.clone())),
        ..NetworkPolicyPeer::default()
    }
}

fn pods(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    }
}

fn port(protocol: &str, number: i32) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        ..NetworkPolicyPort::default()
    }
}
