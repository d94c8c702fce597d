//! Roles and bindings inside the tenant cluster, under the names that kubeadm gives them.
//!
//! Invariant: what the operator may write is named object by object; rights are not among it, so it
//! can neither raise its own nor give any to others.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::rbac::v1::{
        ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kit_objects::object::Object;

use crate::desired::bootstrap::kinds::{KINDS, WATCHED};
use crate::desired::bootstrap::kubeadm::{CLUSTER_INFO, KUBEADM_CONFIG, KUBELET_CONFIG};
use crate::meta::tenant_meta;
use crate::names;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const ADMINS: &str = "kubeadm:cluster-admins";
const OPERATOR: &str = "covey:operator";

const SIGNER_CLUSTER_INFO: &str = "kubeadm:bootstrap-signer-clusterinfo";
const NODES_KUBEADM_CONFIG: &str = "kubeadm:nodes-kubeadm-config";
const NODES_KUBELET_CONFIG: &str = "kubeadm:kubelet-config";
const GET_NODES: &str = "kubeadm:get-nodes";

/// ClusterRoleBindings for nodes: name, role (of Kubernetes itself but for the last), subject.
const BINDINGS: [(&str, &str, (&str, &str)); 4] = [
    (
        "kubeadm:kubelet-bootstrap",
        "system:node-bootstrapper",
        ("Group", names::BOOTSTRAPPERS),
    ),
    (
        "kubeadm:node-autoapprove-certificate-rotation",
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        ("Group", names::NODES),
    ),
    (
        "kubeadm:apiserver-kubelet-client",
        "system:kubelet-api-admin",
        ("User", "kube-apiserver-kubelet-client"),
    ),
    (GET_NODES, GET_NODES, ("Group", names::BOOTSTRAPPERS)),
];

/// What kubeadm has approve the first certificate of a node, for whoever has any token and for any node's name. The
/// operator does that ([`crate::node::client_certificate`]), so nobody has it; it is here so that nobody has it where
/// an older operator gave it, either.
const AUTO_APPROVAL: (&str, &str) = (
    "kubeadm:node-autoapprove-bootstrap",
    "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
);

/// Whether an object inside the tenant cluster may be written only by
/// [`crate::certificates::super_admin`]. Rights, whoever gets them: who may write them can give himself
/// any. And namespaces: rights lie in them, and their labels say what pods in them may do. And admission
/// policies, which bound what rights are good for.
#[must_use]
pub fn is_privileged(object: &Object) -> bool {
    let group = group(&object.api_version);
    group == RBAC || group == ADMISSION || object.kind == "Namespace"
}

/// What lets administrators and the operator in. `kept`: everything that may ever have to be written
/// inside the tenant cluster.
pub(crate) fn for_administration(kept: &[Object]) -> Vec<Object> {
    let tokens = ObjectMeta {
        namespace: Some("kube-system".to_owned()),
        ..tenant_meta(OPERATOR)
    };
    // Which nodes are heard, where a pool has several locations.
    let leases = ObjectMeta {
        namespace: Some(names::NODE_LEASES.to_owned()),
        ..tenant_meta(OPERATOR)
    };
    vec![
        cluster_binding(ADMINS, "cluster-admin", ("Group", ADMINS)),
        cluster_role(OPERATOR, operator_rules(kept)),
        cluster_binding(OPERATOR, OPERATOR, ("Group", names::OPERATOR_GROUP)),
        Object::new(&Role {
            metadata: tokens.clone(),
            rules: Some(kube_system_rules()),
        }),
        Object::new(&RoleBinding {
            metadata: tokens,
            role_ref: role_ref("Role", OPERATOR),
            subjects: Some(vec![subject(("Group", names::OPERATOR_GROUP))]),
        }),
        Object::new(&Role {
            metadata: leases.clone(),
            rules: Some(vec![rule(
                "coordination.k8s.io",
                "leases",
                &[],
                &["list", "watch"],
            )]),
        }),
        Object::new(&RoleBinding {
            metadata: leases,
            role_ref: role_ref("Role", OPERATOR),
            subjects: Some(vec![subject(("Group", names::OPERATOR_GROUP))]),
        }),
    ]
}

/// Those of all of them that are the same in every tenant cluster: what the operator may write is not, because names are
/// those of a version's objects.
pub(crate) fn equal_for_all() -> Vec<Object> {
    let mut objects = for_administration(&[]);
    objects.retain(|object| object.kind != "ClusterRole" || object.name != OPERATOR);
    objects.extend(for_nodes());
    objects
}

pub(crate) fn for_nodes() -> Vec<Object> {
    let mut objects = vec![cluster_role(
        GET_NODES,
        vec![rule("", "nodes", &[], &["get"])],
    )];
    for (name, role, subject) in BINDINGS {
        objects.push(cluster_binding(name, role, subject));
    }
    let (name, role) = AUTO_APPROVAL;
    objects.push(Object::new(&ClusterRoleBinding {
        metadata: tenant_meta(name),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(Vec::new()),
    }));
    let both = [("Group", names::BOOTSTRAPPERS), ("Group", names::NODES)];
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

/// Exactly what the operator needs to keep the objects that are not privileged, to see whether all
/// are as they should be, and to work with machines. Server-side apply asks for `patch`, and for
/// `create` under the object's name where there is none yet (apiserver `endpoints/handlers/patch.go`),
/// so names can be named for both.
fn operator_rules(kept: &[Object]) -> Vec<PolicyRule> {
    let mut names = BTreeMap::<(&str, String), BTreeSet<&str>>::new();
    for object in kept.iter().filter(|object| !is_privileged(object)) {
        let resource = (group(&object.api_version), plural(&object.kind));
        names.entry(resource).or_default().insert(&object.name);
    }
    let mut rules: Vec<_> = names
        .iter()
        .map(|((group, resource), names)| {
            let names: Vec<_> = names.iter().copied().collect();
            rule(group, resource, &names, &["create", "patch"])
        })
        .collect();
    // Of what is wanted each object is read by its name, once a list of metadata has it: a list that could be read in
    // full may be of any size.
    for (api_version, kind) in KINDS {
        let verbs: &[&str] = match WATCHED.contains(&kind) {
            true => &["get", "list", "watch"],
            false => &["get", "list"],
        };
        rules.push(rule(group(api_version), &plural(kind), &[], verbs));
    }
    let nodes = &["delete", "get", "list", "patch", "watch"];
    rules.extend([
        rule("", "nodes", &[], nodes),
        // A drain: what runs on a node is asked to go.
        rule("", "pods", &[], &["list"]),
        rule("", "pods/eviction", &[], &["create"]),
        rule(
            CERTIFICATES,
            "certificatesigningrequests",
            &[],
            &["get", "list", "watch"],
        ),
        rule(
            CERTIFICATES,
            "certificatesigningrequests/approval",
            &[],
            &["patch", "update"],
        ),
        rule(
            CERTIFICATES,
            "signers",
            &[names::KUBELET_CLIENT_SIGNER, names::KUBELET_SERVING_SIGNER],
            &["approve"],
        ),
        // Which volumes a tenant cluster knows that was brought back. Nothing is watched for it.
        rule("", "persistentvolumeclaims", &[], &["list"]),
        rule("", "persistentvolumes", &[], &["list"]),
        // Sleep begins once nothing is attached to a machine any more.
        rule("storage.k8s.io", "volumeattachments", &[], &["list"]),
        // What speaks against an upgrade.
        rule(ADMISSION, "mutatingwebhookconfigurations", &[], &["list"]),
        rule(ADMISSION, "validatingwebhookconfigurations", &[], &["list"]),
        rule("apiregistration.k8s.io", "apiservices", &[], &["list"]),
        rule("policy", "poddisruptionbudgets", &[], &["list"]),
        // Which resources fill etcd, and which deprecated ones are called.
        PolicyRule {
            non_resource_urls: Some(vec!["/metrics".to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        },
    ]);
    rules
}

/// Bootstrap tokens and pods that tell kubelets of a rotation, whose names are not known beforehand, and the Lease of the
/// operator. Who may write the DaemonSets of addons can have any pod there as it is.
fn kube_system_rules() -> Vec<PolicyRule> {
    vec![
        rule("", "pods", &[], &["create", "delete", "get"]),
        rule("", "secrets", &[], &["create", "delete", "get", "patch"]),
        rule(
            "coordination.k8s.io",
            "leases",
            &[names::OPERATOR_LEASE],
            &["create", "get", "patch"],
        ),
    ]
}

fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    if let Some(stem) = kind.strip_suffix("policy") {
        format!("{stem}policies")
    } else if kind.ends_with("ss") {
        format!("{kind}es")
    } else if kind.ends_with('s') {
        kind
    } else {
        format!("{kind}s")
    }
}

fn readers(
    namespace: &str,
    name: &str,
    config_map: &str,
    subjects: &[(&str, &str)],
) -> [Object; 2] {
    let metadata = ObjectMeta {
        namespace: Some(namespace.to_owned()),
        ..tenant_meta(name)
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
        metadata: tenant_meta(name),
        rules: Some(rules),
        ..ClusterRole::default()
    })
}

fn cluster_binding(name: &str, role: &str, to: (&str, &str)) -> Object {
    Object::new(&ClusterRoleBinding {
        metadata: tenant_meta(name),
        role_ref: role_ref("ClusterRole", role),
        subjects: Some(vec![subject(to)]),
    })
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
