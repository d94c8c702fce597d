//! What a program of ours that stands between both clusters consists of, whichever it is: it runs in
//! the tenant namespace, with rights there and inside the tenant cluster.
//!
//! Invariant: its rights are a list, bound by name; none is outside the tenant namespace.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        networking::v1::{
            IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
            NetworkPolicySpec,
        },
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use pki::{Signer, Want};

use super::{meta, names, network_policy::METADATA, selector};
use crate::{Object, Settings, Validated};

const RBAC: &str = "rbac.authorization.k8s.io";

/// A right: API group, resource, verbs.
pub(super) type Right = (&'static str, &'static str, &'static [&'static str]);

/// A list of rights, as RBAC writes it.
pub(super) fn rules(rights: &[Right]) -> Vec<PolicyRule> {
    let rule = |(group, resource, verbs): &Right| PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(vec![(*resource).to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    rights.iter().map(rule).collect()
}

/// A client certificate by the tenant cluster's authority `ca`.
pub(super) fn certificate(settings: &Settings, name: &str, user: &str) -> Want {
    Want {
        name: name.to_owned(),
        signer: Signer::By("ca".to_owned()),
        common_name: user.to_owned(),
        organizations: Vec::new(),
        server: false,
        client: true,
        dns_names: Vec::new(),
        addresses: Vec::new(),
        lifetime_hours: settings.certificates.leaf_hours,
    }
}

/// ClusterRole and ClusterRoleBinding of a user, inside the tenant cluster.
pub(super) fn inside(role: &str, user: &str, rights: Vec<PolicyRule>) -> [Object; 2] {
    let metadata = ObjectMeta {
        name: Some(role.to_owned()),
        labels: Some(BTreeMap::from([(
            api::names::LABEL_MANAGED_BY.to_owned(),
            api::names::MANAGED_BY.to_owned(),
        )])),
        ..ObjectMeta::default()
    };
    [
        Object::new(&ClusterRole {
            metadata: metadata.clone(),
            rules: Some(rights),
            ..ClusterRole::default()
        }),
        Object::new(&ClusterRoleBinding {
            metadata,
            role_ref: role_ref(role),
            subjects: Some(vec![Subject {
                api_group: Some(RBAC.to_owned()),
                kind: "User".to_owned(),
                name: user.to_owned(),
                ..Subject::default()
            }]),
        }),
    ]
}

/// ServiceAccount, and the RoleBinding to a ClusterRole of the chart, in the tenant namespace.
pub(super) fn account(v: &Validated, name: &str, cluster_role: &str) -> [Object; 2] {
    [
        Object::new(&ServiceAccount {
            metadata: meta(v, name, name),
            automount_service_account_token: Some(false),
            ..ServiceAccount::default()
        }),
        Object::new(&RoleBinding {
            metadata: meta(v, name, name),
            role_ref: role_ref(cluster_role),
            subjects: Some(vec![Subject {
                kind: "ServiceAccount".to_owned(),
                name: name.to_owned(),
                namespace: Some(v.tenant_namespace.clone()),
                ..Subject::default()
            }]),
        }),
    ]
}

fn role_ref(name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: "ClusterRole".to_owned(),
        name: name.to_owned(),
    }
}

/// It reaches the tenant's API, and, wherever that is, the management API.
pub(super) fn both_apis(v: &Validated, name: &str) -> Object {
    let range = |cidr: &str, metadata: &str| NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr: cidr.to_owned(),
            except: Some(vec![metadata.to_owned()]),
        }),
        ..NetworkPolicyPeer::default()
    };
    let tenant = NetworkPolicyPeer {
        pod_selector: Some(LabelSelector {
            match_labels: Some(selector(names::CONTROL_PLANE)),
            ..LabelSelector::default()
        }),
        ..NetworkPolicyPeer::default()
    };
    let [v4, v6] = METADATA;
    let everywhere = vec![range("0.0.0.0/0", v4), range("::/0", v6)];
    policy(
        v,
        name,
        NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(selector(name)),
                ..LabelSelector::default()
            }),
            policy_types: Some(vec!["Egress".to_owned()]),
            egress: Some(vec![
                NetworkPolicyEgressRule {
                    to: Some(vec![tenant]),
                    ports: Some(vec![port("TCP", names::API_PORT, None)]),
                },
                NetworkPolicyEgressRule {
                    to: Some(everywhere),
                    ports: Some(vec![
                        port("TCP", 443, None),
                        port("TCP", names::API_PORT, None),
                    ]),
                },
            ]),
            ..NetworkPolicySpec::default()
        },
    )
}

/// A NetworkPolicy of the tenant namespace.
pub(super) fn policy(v: &Validated, name: &str, spec: NetworkPolicySpec) -> Object {
    Object::new(&NetworkPolicy {
        metadata: meta(v, name, "network"),
        spec: Some(spec),
    })
}

/// A port, or all from one to another.
pub(super) fn port(protocol: &str, number: i32, last: Option<i32>) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        end_port: last,
    }
}
