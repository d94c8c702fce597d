//! Roles and bindings inside the tenant cluster, under the names that kubeadm gives them.
//!
//! Invariant: what the operator may write is named object by object, and the roles it may bind are
//! named too; it may bind neither `cluster-admin` nor change its own role.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::rbac::v1::{
        ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::kubeadm::{CLUSTER_INFO, KUBEADM_CONFIG, KUBELET_CONFIG};
use crate::{Object, desired::names};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMINS: &str = "kubeadm:cluster-admins";
const OPERATOR: &str = "covey:operator";
/// Group of every bootstrap token that Covey makes.
pub(crate) const BOOTSTRAPPERS: &str = "system:bootstrappers:kubeadm:default-node-token";
const NODES: &str = "system:nodes";

const SIGNER_CLUSTER_INFO: &str = "kubeadm:bootstrap-signer-clusterinfo";
const NODES_KUBEADM_CONFIG: &str = "kubeadm:nodes-kubeadm-config";
const NODES_KUBELET_CONFIG: &str = "kubeadm:kubelet-config";
const GET_NODES: &str = "kubeadm:get-nodes";

/// ClusterRoleBindings for nodes: name, role (of Kubernetes itself but for the last), subject.
const BINDINGS: [(&str, &str, (&str, &str)); 5] = [
    (
        "kubeadm:kubelet-bootstrap",
        "system:node-bootstrapper",
        ("Group", BOOTSTRAPPERS),
    ),
    (
        "kubeadm:node-autoapprove-bootstrap",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        ("Group", BOOTSTRAPPERS),
    ),
    (
        "kubeadm:node-autoapprove-certificate-rotation",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        ("Group", NODES),
    ),
    (
        "kubeadm:apiserver-kubelet-client",
        "system:kubelet-api-admin",
        ("User", "kube-apiserver-kubelet-client"),
    ),
    (GET_NODES, GET_NODES, ("Group", BOOTSTRAPPERS)),
];

pub(super) fn is_privileged(kind: &str, name: &str) -> bool {
    matches!(
        (kind, name),
        ("ClusterRoleBinding", ADMINS | OPERATOR) | ("ClusterRole", OPERATOR)
    )
}

/// Labels of everything that Covey puts into a tenant cluster.
pub(super) fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([(
        api::names::LABEL_MANAGED_BY.to_owned(),
        api::names::MANAGED_BY.to_owned(),
    )])
}

pub(super) fn privileged() -> Vec<Object> {
    vec![
        cluster_binding(ADMINS, "cluster-admin", ("Group", ADMINS)),
        cluster_role(OPERATOR, operator_rules()),
        cluster_binding(OPERATOR, OPERATOR, ("Group", names::OPERATOR_GROUP)),
    ]
}

pub(super) fn for_nodes() -> Vec<Object> {
    let mut objects = vec![cluster_role(
        GET_NODES,
        vec![rule("", "nodes", &[], &["get"])],
    )];
    for (name, role, subject) in BINDINGS {
        objects.push(cluster_binding(name, role, subject));
    }
    let both = [("Group", BOOTSTRAPPERS), ("Group", NODES)];
    let anonymous = [("User", "system:anonymous")];
    for (namespace, name, config_map, subjects) in [
        (
            "kube-public",
            SIGNER_CLUSTER_INFO,
            CLUSTER_INFO,
            &anonymous[..],
        ),
        (
            "kube-system",
            NODES_KUBEADM_CONFIG,
            KUBEADM_CONFIG,
            &both[..],
        ),
        (
            "kube-system",
            NODES_KUBELET_CONFIG,
            KUBELET_CONFIG,
            &both[..],
        ),
    ] {
        objects.extend(readers(namespace, name, config_map, subjects));
    }
    objects
}

/// Exactly what the operator needs to keep the objects that are not privileged. Server-side apply
/// asks for `patch`, and for `create` under the object's name where there is none yet
/// (apiserver `endpoints/handlers/patch.go`), so names can be named for both.
fn operator_rules() -> Vec<PolicyRule> {
    let keep = &["create", "get", "patch"];
    let bindings: Vec<&str> = BINDINGS.iter().map(|(name, ..)| *name).collect();
    let bound: Vec<&str> = BINDINGS.iter().map(|(_, role, _)| *role).collect();
    let roles = [
        SIGNER_CLUSTER_INFO,
        NODES_KUBEADM_CONFIG,
        NODES_KUBELET_CONFIG,
    ];
    vec![
        rule(
            "",
            "configmaps",
            &[CLUSTER_INFO, KUBEADM_CONFIG, KUBELET_CONFIG],
            keep,
        ),
        rule("", "endpoints", &["kubernetes"], keep),
        rule("discovery.k8s.io", "endpointslices", &["kubernetes"], keep),
        rule(RBAC, "clusterroles", &[GET_NODES], keep),
        rule(RBAC, "clusterrolebindings", &bindings, keep),
        rule(RBAC, "roles", &roles, keep),
        rule(RBAC, "rolebindings", &roles, keep),
        rule(RBAC, "clusterroles", &bound, &["bind"]),
        // Nobody can hand out what he does not have: the role kubeadm:get-nodes.
        rule("", "nodes", &[], &["get"]),
        // The probe: one authenticated read of something that is always there.
        rule("", "namespaces", &["kube-system"], &["get"]),
    ]
}

fn readers(
    namespace: &str,
    name: &str,
    config_map: &str,
    subjects: &[(&str, &str)],
) -> [Object; 2] {
    let metadata = ObjectMeta {
        namespace: Some(namespace.to_owned()),
        ..meta(name)
    };
    [
        Object::new(&Role {
            metadata: metadata.clone(),
            rules: Some(vec![rule("", "configmaps", &[config_map], &["get"])]),
        }),
        Object::new(&RoleBinding {
            metadata,
            role_ref: role_ref("Role", name),
            subjects: Some(subjects.iter().copied().map(subject).collect()),
        }),
    ]
}

fn cluster_role(name: &str, rules: Vec<PolicyRule>) -> Object {
    Object::new(&ClusterRole {
        metadata: meta(name),
        rules: Some(rules),
        ..ClusterRole::default()
    })
}

fn cluster_binding(name: &str, role: &str, to: (&str, &str)) -> Object {
    Object::new(&ClusterRoleBinding {
        metadata: meta(name),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(vec![subject(to)]),
    })
}

fn meta(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(labels()),
        ..ObjectMeta::default()
    }
}

fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef {
        api_group: RBAC.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn subject((kind, name): (&str, &str)) -> Subject {
    Subject {
        api_group: Some(RBAC.to_owned()),
        kind: kind.to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    }
}

fn rule(group: &str, resource: &str, objects: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        resource_names: Some(owned(objects)).filter(|list| !list.is_empty()),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}
