//! Adapters: what a program of ours that stands between both clusters consists of, whichever it is. It
//! runs in the tenant namespace, with rights there and inside the tenant cluster.
//!
//! Invariant: its rights are a list, bound by name; none is outside the tenant namespace, but for the
//! autoscaler's, which are in the user's.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::{
        core::v1::{ContainerPort, ServiceAccount},
        networking::v1::{
            IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule,
            NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
        },
        rbac::v1::{
            ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
        },
    },
    apimachinery::pkg::{
        apis::meta::v1::{LabelSelector, ObjectMeta},
        util::intstr::IntOrString,
    },
};
use kit_objects::object::Object;
use pki::Want;

use crate::meta::{meta, selector, tenant_meta};
use crate::names;
use crate::network::metadata::{METADATA_V4, METADATA_V6};
use crate::settings::Settings;
use crate::validate::validated::Validated;

const RBAC: &str = "rbac.authorization.k8s.io";
/// Port of every adapter for probes and metrics.
pub(crate) const ADMIN_PORT: i32 = 8080;

/// A right: API group, resource, verbs.
pub(crate) type Right = (&'static str, &'static str, &'static [&'static str]);

/// A list of rights, as RBAC writes it.
pub(crate) fn rules(rights: &[Right]) -> Vec<PolicyRule> {
    let rule = |(group, resource, verbs): &Right| PolicyRule {
        api_groups: Some(vec![(*group).to_owned()]),
        resources: Some(vec![(*resource).to_owned()]),
        verbs: verbs.iter().map(|&verb| verb.to_owned()).collect(),
        ..PolicyRule::default()
    };
    rights.iter().map(rule).collect()
}

/// A client certificate by the tenant cluster's authority of machinery, `client-ca`.
pub(crate) fn certificate(settings: &Settings, name: &str, user: &str) -> Want {
    let hours = settings.certificates.leaf_hours;
    Want::client(name, names::CLIENT_CA, user, hours)
}

/// A small authority, which only the two ends of one connection know.
pub(crate) fn authority(settings: &Settings, name: &str) -> Want {
    Want::authority(name, name, settings.certificates.authority_hours)
}

/// ClusterRole and ClusterRoleBinding of a user, inside the tenant cluster.
pub(crate) fn tenant_rights(role: &str, user: &str, rights: Vec<PolicyRule>) -> [Object; 2] {
    let metadata = tenant_meta(role);
    [
        Object::new(&ClusterRole {
            metadata: metadata.clone(),
            rules: Some(rights),
            ..ClusterRole::default()
        }),
        Object::new(&ClusterRoleBinding {
            metadata,
            role_ref: role_ref("ClusterRole", role),
            subjects: Some(vec![subject(user)]),
        }),
    ]
}

/// Role and RoleBinding of a user in `kube-system`, inside the tenant cluster.
pub(crate) fn kube_system_rights(role: &str, user: &str, rights: Vec<PolicyRule>) -> [Object; 2] {
    let metadata = ObjectMeta {
        namespace: Some("kube-system".to_owned()),
        ..tenant_meta(role)
    };
    [
        Object::new(&Role {
            metadata: metadata.clone(),
            rules: Some(rights),
        }),
        Object::new(&RoleBinding {
            metadata,
            role_ref: role_ref("Role", role),
            subjects: Some(vec![subject(user)]),
        }),
    ]
}

fn subject(user: &str) -> Subject {
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: "User".to_owned(),
        name: user.to_owned(),
        ..Subject::default()
    }
}

/// ServiceAccount, and the RoleBinding to a ClusterRole of the chart, in the tenant namespace.
pub(crate) fn account(v: &Validated, name: &str, cluster_role: &str) -> [Object; 2] {
    [
        bare_account(v, name),
        binding(v, meta(v, name, name), name, cluster_role),
    ]
}

/// ServiceAccount without any right.
pub(crate) fn bare_account(v: &Validated, name: &str) -> Object {
    Object::new(&ServiceAccount {
        metadata: meta(v, name, name),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    })
}

/// RoleBinding of an account of the tenant namespace to a ClusterRole of the chart.
pub(crate) fn binding(
    v: &Validated,
    metadata: ObjectMeta,
    account: &str,
    cluster_role: &str,
) -> Object {
    Object::new(&RoleBinding {
        metadata,
        role_ref: role_ref("ClusterRole", cluster_role),
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(v.tenant_namespace.clone()),
            ..Subject::default()
        }]),
    })
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// The admin port by the name that scrapers find it by.
pub(crate) fn admin_port() -> ContainerPort {
    ContainerPort {
        name: Some("admin".to_owned()),
        container_port: ADMIN_PORT,
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// Whoever the configuration lets read metrics reaches the admin port; none where that is nobody.
pub(crate) fn from_scrapers(settings: &Settings) -> Option<NetworkPolicyIngressRule> {
    let of = |labels: BTreeMap<String, String>| LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    };
    let scrapers = settings.metrics.from.iter().map(|scraper| {
        let name = scraper.namespace.clone();
        let namespace = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name)]);
        NetworkPolicyPeer {
            namespace_selector: Some(of(namespace)),
            pod_selector: (!scraper.labels.is_empty()).then(|| of(scraper.labels.clone())),
            ..NetworkPolicyPeer::default()
        }
    });
    let scrapers: Vec<_> = scrapers.collect();
    // A rule without peers would let everybody in.
    (!scrapers.is_empty()).then(|| NetworkPolicyIngressRule {
        from: Some(scrapers),
        ports: Some(vec![port("TCP", ADMIN_PORT, None)]),
    })
}

/// It reaches the tenant's API and the management API, and whoever reads metrics reaches it.
pub(crate) fn both_apis(v: &Validated, settings: &Settings, name: &str) -> Object {
    policy(
        v,
        name,
        NetworkPolicySpec {
            pod_selector: Some(pods(name)),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            // Said, not left out: a rule that somebody adds is then found and taken away.
            ingress: Some(from_scrapers(settings).into_iter().collect()),
            egress: Some(to_both_apis(settings)),
        },
    )
}

/// The way to the tenant's API.
pub(crate) fn to_tenant_api() -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![peer(names::CONTROL_PLANE)]),
        ports: Some(vec![port("TCP", names::API_PORT, None)]),
    }
}

/// The ways to the tenant's API and to the management API.
pub(crate) fn to_both_apis(settings: &Settings) -> Vec<NetworkPolicyEgressRule> {
    let range = |cidr: String, metadata: &[&str]| NetworkPolicyPeer {
        ip_block: Some(IPBlock {
            cidr,
            except: (!metadata.is_empty())
                .then(|| metadata.iter().map(|&range| range.to_owned()).collect()),
        }),
        ..NetworkPolicyPeer::default()
    };
    let api = &settings.management_api;
    let to = match api.cidrs.is_empty() {
        true => vec![
            range("0.0.0.0/0".to_owned(), &METADATA_V4),
            range("::/0".to_owned(), &METADATA_V6),
        ],
        false => {
            let cidrs = api.cidrs.iter();
            cidrs.map(|cidr| range(cidr.to_string(), &[])).collect()
        }
    };
    let ports = api.ports.iter();
    let ports = ports.map(|number| port("TCP", i32::from(*number), None));
    vec![
        to_tenant_api(),
        NetworkPolicyEgressRule {
            to: Some(to),
            ports: Some(ports.collect()),
        },
    ]
}

/// Pods of a component, in the tenant namespace.
pub(crate) fn peer(component: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(pods(component)),
        ..NetworkPolicyPeer::default()
    }
}

/// Selects pods of a component.
pub(crate) fn pods(component: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some(selector(component)),
        ..LabelSelector::default()
    }
}

/// A NetworkPolicy of the tenant namespace.
pub(crate) fn policy(v: &Validated, name: &str, spec: NetworkPolicySpec) -> Object {
    Object::new(&NetworkPolicy {
        metadata: meta(v, name, "network"),
        spec: Some(spec),
    })
}

/// A port, or all from one to another.
pub(crate) fn port(protocol: &str, number: i32, last: Option<i32>) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number)),
        end_port: last,
    }
}
