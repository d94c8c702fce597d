//! What the admission policies let the operator do, and what they refuse.
//!
//! Invariant: every rule of templates/admission-policies.yaml has a line that it refuses.
//! Long because every rule of every policy is here.

use serde_json::{Value, json};

use crate::objects::{
    AUTOSCALER, CCM, CSI, RESTRICTED, TENANT, UID, USER, binding, namespace, secret, with,
};

/// What the operator may do, and what it may not with a part of the answer.
pub(crate) fn table() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let ours = (UID, "u1");
    let no_token = json!({ "kubernetes.io/service-account.name": "default" });
    let token = with(
        secret("demo-kubeconfig", "users-a", true),
        "/metadata/labels",
        json!({
            UID: "u1",
        }),
    );
    let mut token = token;
    token["type"] = json!("kubernetes.io/service-account-token");
    token["metadata"]["annotations"] = no_token;
    let somebody =
        json!([{ "kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io" }]);
    let both = |mut object: Value| {
        object["subjects"]
            .as_array_mut()
            .unwrap()
            .push(somebody[0].clone());
        object
    };
    // With this label no parameters are looked up, so it is the other policy that refuses.
    let labelled = |namespace| {
        let mut object = binding("covey-operator", namespace, USER);
        object["metadata"]["labels"][UID] = json!("u1");
        object
    };
    let between = |name: &str, namespace: &str, role| {
        let mut object = binding(name, namespace, role);
        object["subjects"][0]["name"] = json!(name);
        object["subjects"][0]["namespace"] = json!(namespace);
        object
    };
    let ccm = |namespace: &str| between("ccm", namespace, CCM);
    let csi = |namespace: &str| between("csi", namespace, CSI);
    let autoscaler = |name: &str, namespace: &str, of: &str| {
        let mut object = binding(name, namespace, AUTOSCALER);
        object["subjects"][0]["name"] = json!("autoscaler");
        object["subjects"][0]["namespace"] = json!(of);
        object
    };
    let of_a = |namespace: &str| autoscaler("covey-autoscaler-a", namespace, "covey-a-1111111111");
    vec![
        // Namespaces
        (
            "apply",
            namespace("covey-new-0000000000", &[ours, RESTRICTED]),
            None,
        ),
        (
            "apply",
            namespace("covey-a-1111111111", &[ours, RESTRICTED, ("x", "y")]),
            None,
        ),
        ("delete", namespace("covey-a-1111111111", &[]), None),
        (
            "apply",
            namespace("new", &[ours, RESTRICTED]),
            Some("only tenant namespaces"),
        ),
        (
            "apply",
            namespace("users-a", &[ours, RESTRICTED]),
            Some("only tenant namespaces"),
        ),
        (
            "apply",
            namespace("covey-system", &[ours, RESTRICTED]),
            Some("only tenant namespaces"),
        ),
        (
            "apply",
            namespace("kube-system", &[ours, RESTRICTED]),
            Some("only tenant namespaces"),
        ),
        (
            "apply",
            namespace("covey-new-0000000000", &[RESTRICTED]),
            Some("has no label"),
        ),
        (
            "apply",
            namespace("covey-new-0000000000", &[ours]),
            Some("must carry the label"),
        ),
        (
            "apply",
            namespace(
                "covey-new-0000000000",
                &[ours, ("pod-security.kubernetes.io/enforce", "baseline")],
            ),
            None,
        ),
        (
            "apply",
            namespace(
                "covey-new-0000000000",
                &[ours, ("pod-security.kubernetes.io/enforce", "privileged")],
            ),
            Some("must carry the label"),
        ),
        (
            "apply",
            namespace("covey-docs", &[ours, RESTRICTED]),
            Some("may not change whose"),
        ),
        (
            "apply",
            namespace("covey-a-1111111111", &[(UID, "other"), RESTRICTED]),
            Some("may not change whose"),
        ),
        (
            "delete",
            namespace("users-a", &[]),
            Some("only tenant namespaces"),
        ),
        ("delete", namespace("covey-docs", &[]), Some("has no label")),
        (
            "delete",
            namespace("covey-system", &[]),
            Some("only tenant namespaces"),
        ),
        // RoleBindings
        (
            "apply",
            binding("covey-operator", "covey-a-1111111111", TENANT),
            None,
        ),
        ("apply", binding("covey-operator", "users-a", USER), None),
        ("delete", binding("covey-operator", "users-b", USER), None),
        (
            "apply",
            binding("other", "users-a", USER),
            Some("called covey-operator"),
        ),
        (
            "delete",
            binding("admins", "users-a", USER),
            Some("called covey-operator"),
        ),
        (
            "apply",
            binding("covey-operator", "users-a", "cluster-admin"),
            Some("may bind only"),
        ),
        (
            "apply",
            binding("covey-operator", "users-a", "secret-reader"),
            Some("may bind only"),
        ),
        (
            "apply",
            binding("covey-operator", "users-a", TENANT),
            Some("users-a is none"),
        ),
        (
            "apply",
            binding("covey-operator", "covey-docs", TENANT),
            Some("covey-docs is none"),
        ),
        (
            "apply",
            labelled("covey-a-1111111111"),
            Some("only in namespaces of users"),
        ),
        (
            "apply",
            labelled("kube-system"),
            Some("only in namespaces of users"),
        ),
        (
            "create",
            labelled("covey-system"),
            Some("its own namespace"),
        ),
        // The cloud controller manager's
        ("apply", ccm("covey-a-1111111111"), None),
        ("delete", ccm("covey-b-1111111111"), None),
        ("delete", ccm("users-b"), Some("users-b is none")),
        ("apply", ccm("users-a"), Some("users-a is none")),
        ("apply", ccm("covey-docs"), Some("covey-docs is none")),
        ("create", ccm("covey-system"), Some("its own namespace")),
        (
            "apply",
            binding("ccm", "covey-a-1111111111", TENANT),
            Some("may bind only"),
        ),
        (
            "apply",
            binding("covey-operator", "covey-a-1111111111", CCM),
            Some("may bind only"),
        ),
        (
            "apply",
            binding("ccm", "covey-a-1111111111", CCM),
            Some("only to the accounts"),
        ),
        (
            "apply",
            with(
                ccm("covey-a-1111111111"),
                "/subjects/0/namespace",
                json!("covey-docs"),
            ),
            Some("only to the accounts"),
        ),
        (
            "apply",
            both(ccm("covey-a-1111111111")),
            Some("only to the accounts"),
        ),
        // The CSI driver's
        ("apply", csi("covey-a-1111111111"), None),
        ("apply", csi("users-a"), Some("users-a is none")),
        (
            "apply",
            between("csi", "covey-a-1111111111", CCM),
            Some("may bind only"),
        ),
        (
            "apply",
            between("ccm", "covey-a-1111111111", CSI),
            Some("may bind only"),
        ),
        (
            "apply",
            with(csi("covey-a-1111111111"), "/subjects/0/name", json!("ccm")),
            Some("only to the accounts"),
        ),
        // The autoscaler's, in users' namespaces
        ("apply", of_a("users-a"), None),
        ("apply", of_a("users-b"), None),
        ("delete", of_a("users-b"), None),
        (
            "apply",
            of_a("covey-a-1111111111"),
            Some("only in namespaces of users"),
        ),
        (
            "apply",
            of_a("kube-system"),
            Some("only in namespaces of users"),
        ),
        ("create", of_a("covey-system"), Some("its own namespace")),
        (
            "apply",
            autoscaler("covey-autoscaler", "users-a", "covey-a-1111111111"),
            Some("called covey-operator"),
        ),
        (
            "apply",
            autoscaler("covey-autoscaler-b", "users-a", "covey-a-1111111111"),
            Some("only to the account autoscaler"),
        ),
        (
            "apply",
            autoscaler("covey-autoscaler-a", "users-a", "covey-a-b-1111111111"),
            Some("only to the account autoscaler"),
        ),
        (
            "apply",
            autoscaler("covey-autoscaler-a", "users-a", "users-a"),
            Some("only to the account autoscaler"),
        ),
        (
            "apply",
            with(of_a("users-a"), "/subjects/0/name", json!("default")),
            Some("only to the account autoscaler"),
        ),
        (
            "apply",
            both(of_a("users-a")),
            Some("only to the account autoscaler"),
        ),
        (
            "apply",
            with(of_a("users-a"), "/roleRef/name", json!(USER)),
            Some("may bind only"),
        ),
        (
            "apply",
            binding("covey-operator", "users-a", AUTOSCALER),
            Some("may bind only"),
        ),
        (
            "create",
            with(of_a("users-a"), "/metadata/labels", json!({})),
            Some("has no label covey.dev/tenant-cluster-uid"),
        ),
        (
            "apply",
            autoscaler(
                "covey-autoscaler-theirs",
                "users-b",
                "covey-theirs-1111111111",
            ),
            Some("rename it, or the TenantCluster"),
        ),
        (
            "delete",
            autoscaler(
                "covey-autoscaler-theirs",
                "users-b",
                "covey-theirs-1111111111",
            ),
            Some("rename it, or the TenantCluster"),
        ),
        // No TenantCluster there any more, and one that machines needed while there was one:
        ("apply", needed("users-c"), None),
        (
            "apply",
            binding("covey-operator", "users-d", USER),
            Some("no params found"),
        ),
        ("apply", needed("users-d"), Some("no params found")),
        ("create", needed("default"), Some("no params found")),
        // No TenantCluster there:
        (
            "create",
            binding("covey-operator", "default", USER),
            Some("no params found"),
        ),
        (
            "create",
            binding("covey-operator", "covey-docs", USER),
            Some("no params found"),
        ),
        (
            "create",
            with(
                binding("covey-operator", "default", USER),
                "/metadata/labels",
                json!({}),
            ),
            Some("must carry the labels"),
        ),
        (
            "create",
            with(
                binding("covey-operator", "default", USER),
                "/metadata/labels",
                json!({
                    "app.kubernetes.io/managed-by": "covey",
                    "app.kubernetes.io/component": "operator",
                    "covey.dev/tenant-cluster-uid": "u1",
                }),
            ),
            Some("must carry the labels"),
        ),
        (
            "apply",
            with(
                binding("covey-operator", "users-a", USER),
                "/roleRef/kind",
                json!("Role"),
            ),
            Some("may bind only"),
        ),
        (
            "apply",
            with(
                binding("covey-operator", "users-a", USER),
                "/subjects",
                somebody.clone(),
            ),
            Some("only to itself"),
        ),
        (
            "apply",
            both(binding("covey-operator", "users-a", USER)),
            Some("only to itself"),
        ),
        (
            "apply",
            with(
                binding("covey-operator", "users-a", USER),
                "/subjects/0/namespace",
                json!("users-a"),
            ),
            Some("only to itself"),
        ),
        // Secrets
        (
            "apply",
            secret("anything", "covey-a-1111111111", false),
            None,
        ),
        ("apply", secret("demo-kubeconfig", "users-a", true), None),
        ("apply", secret("ours-kubeconfig", "users-a", true), None),
        ("delete", secret("ours-kubeconfig", "users-a", true), None),
        (
            "apply",
            secret("covey-webhook", "covey-system", false),
            None,
        ),
        (
            "apply",
            secret("password", "users-a", true),
            Some("called <name>-kubeconfig"),
        ),
        (
            "apply",
            secret("demo-kubeconfig", "users-a", false),
            Some("has no label"),
        ),
        (
            "apply",
            secret("theirs-kubeconfig", "users-a", true),
            Some("has no label"),
        ),
        (
            "delete",
            secret("theirs-kubeconfig", "users-a", true),
            Some("has no label"),
        ),
        (
            "delete",
            secret("theirs", "users-a", true),
            Some("called <name>-kubeconfig"),
        ),
        ("create", token, Some("tokens of service accounts")),
        (
            "apply",
            kept(
                secret("theirs", "users-a", false),
                "covey.dev/provider-config",
            ),
            None,
        ),
        (
            "apply",
            kept(secret("theirs", "users-a", false), "covey.dev/other"),
            Some("called <name>-kubeconfig"),
        ),
        (
            "apply",
            with_more(kept(
                secret("theirs", "users-a", false),
                "covey.dev/provider-config",
            )),
            Some("called <name>-kubeconfig"),
        ),
        // Volumes
        ("apply", kept_volume("of-etcd", &json!({})), None),
        (
            "apply",
            kept_volume("of-etcd", &json!({ "capacity": { "storage": "2Gi" } })),
            Some("change nothing else"),
        ),
        (
            "apply",
            kept_volume(
                "of-etcd",
                &json!({ "persistentVolumeReclaimPolicy": "Recycle" }),
            ),
            Some("change nothing else"),
        ),
        (
            "apply",
            kept_volume("of-others", &json!({})),
            Some("only volumes of members of etcd"),
        ),
        (
            "create",
            volume("new", "covey-a-1111111111", "data-etcd-0"),
            Some("only volumes of members of etcd"),
        ),
        (
            "delete",
            volume("of-etcd", "covey-a-1111111111", "data-etcd-0"),
            Some("only volumes of members of etcd"),
        ),
    ]
}

/// What the operator applies of something that it keeps from going, and nothing more.
fn kept(mut object: Value, finalizer: &str) -> Value {
    let metadata = &object["metadata"];
    let metadata = json!({
        "name": metadata["name"], "namespace": metadata["namespace"], "finalizers": [finalizer],
    });
    let (api_version, kind) = (object["apiVersion"].take(), object["kind"].take());
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
}

/// With data, as nobody but its owner may write them.
fn with_more(mut object: Value) -> Value {
    object["data"] = json!({ "more": "bW9yZQ==" });
    object
}

/// The operator's binding as machines of clouds need it.
pub(crate) fn needed(namespace: &str) -> Value {
    let mut object = binding("covey-operator", namespace, USER);
    object["metadata"]["labels"]["covey.dev/needed-by-machines"] = json!("true");
    object
}

/// A PersistentVolume that is bound to a claim.
pub(crate) fn volume(name: &str, namespace: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": namespace, "name": claim, "uid": "c1" },
            "hostPath": { "path": "/nowhere" }, "persistentVolumeReclaimPolicy": "Delete",
        },
    })
}

/// What the operator applies of one, with something more.
fn kept_volume(name: &str, more: &Value) -> Value {
    let mut spec = json!({ "persistentVolumeReclaimPolicy": "Retain" });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "spec": spec,
        "metadata": {
            "name": name, "annotations": { "covey.dev/keep-until": "2027-01-31T12:00:00Z" },
        },
    })
}
