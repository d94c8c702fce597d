//! Who may make an AccessGrant, and for whom: the policy covey-access-grants, and the chart's roles beside it.
//!
//! Invariant: every rule of templates/access-grants-policy.yaml has a line that it refuses, with its sentence.

use serde_json::{Value, json};

use crate::objects::namespace;
use crate::{Installed, is_refused, until, write};

const NAMESPACE: &str = "access-grants";

fn grant(change: &Value) -> Value {
    let mut spec = json!({
        "clusterName": "demo", "profile": "view", "user": "jane", "request": "r".repeat(64),
    });
    for (field, value) in change.as_object().unwrap() {
        spec[field] = value.clone();
    }
    // What is taken out of it is not there.
    let fields = spec.as_object_mut().unwrap();
    fields.retain(|_, value| !value.is_null());
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
        "metadata": { "name": "one", "namespace": NAMESPACE }, "spec": spec,
    })
}

fn bound(user: &str, role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": format!("access-{user}"), "namespace": NAMESPACE },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    })
}

#[tokio::test]
async fn whoever_asks_gets_their_own_rights_in_their_own_name() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    installed.create(namespace(NAMESPACE, &[])).await;
    // The chart's own roles: nothing fills Kubernetes' ones here.
    installed.create(bound("jane", "covey-edit")).await;
    let boss = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "access-boss" },
        "rules": [
            { "apiGroups": ["covey.dev"], "resources": ["accessgrants"], "verbs": ["create"] },
            { "apiGroups": ["covey.dev"], "resources": ["tenantclusters/admin"], "verbs": ["create"] },
            { "apiGroups": [""], "resources": ["secrets"], "verbs": ["create"] },
        ],
    });
    installed.create(boss).await;
    installed.create(bound("boss", "access-boss")).await;
    let impersonator = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "access-impersonator" },
        "rules": [
            { "apiGroups": [""], "resources": ["users"], "resourceNames": ["robot"], "verbs": ["impersonate"] },
            { "apiGroups": [""], "resources": ["groups"], "resourceNames": ["robots"], "verbs": ["impersonate"] },
        ],
    });
    installed.create(impersonator).await;
    installed
        .create(json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": { "name": "access-impersonator" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "access-impersonator",
            },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "boss" }],
        }))
        .await;
    let jane = installed.api.client_as("jane", &["team-a"]).unwrap();
    let boss = installed.api.client_as("boss", &[]).unwrap();
    let hers = grant(&json!({}));
    // Roles and the policy are in force a moment after they are stored.
    until(async || write(&jane, &hers, "create", true).await.is_ok()).await;
    let admins = grant(&json!({ "user": "boss", "profile": "admin" }));
    until(async || write(&boss, &admins, "create", true).await.is_ok()).await;
    let others = grant(&json!({ "user": "john" }));
    until(async || is_refused(&write(&jane, &others, "create", true).await)).await;

    for (client, change, message) in [
        (
            &jane,
            json!({ "user": "john" }),
            "spec.user has to be your own name, jane, because you may not impersonate john",
        ),
        (
            &jane,
            json!({ "profile": "admin" }),
            "needs the right to create tenantclusters/admin in namespace access-grants",
        ),
        (
            &boss,
            json!({ "user": "boss", "profile": "view" }),
            "needs the right to create tenantclusters/view",
        ),
        (
            &jane,
            json!({ "secretName": "flux-kubeconfig", "request": null }),
            "spec.secretName needs the right to create Secrets in namespace access-grants",
        ),
        (
            &jane,
            json!({ "groups": ["team-b"] }),
            "only groups that you are in, or that you may impersonate",
        ),
        (
            &jane,
            json!({ "groups": ["system:masters"] }),
            "groups that begin with system:, covey: or kubeadm:",
        ),
    ] {
        let refused = write(client, &grant(&change), "create", true).await;
        let refused = refused.expect_err(message);
        assert!(refused.contains(message), "{change}: {refused}");
    }
    for (client, change) in [
        (&jane, json!({ "groups": ["team-a"] })),
        (
            &boss,
            json!({ "user": "robot", "profile": "admin", "groups": ["robots"] }),
        ),
        (
            &boss,
            json!({
                "user": "robot", "profile": "admin", "secretName": "robot-kubeconfig", "request": null,
            }),
        ),
    ] {
        let answer = write(client, &grant(&change), "create", true).await;
        assert_eq!(answer, Ok(()), "{change}");
    }
    // What is asked for is never another thing later.
    let kept = grant(&json!({}));
    assert_eq!(write(&jane, &kept, "create", false).await, Ok(()));
    let admin = installed.admin();
    let changed = grant(&json!({ "profile": "admin" }));
    let refused = write(&admin, &changed, "apply", true).await.unwrap_err();
    assert!(
        refused.contains("an AccessGrant cannot be changed"),
        "{refused}"
    );
    assert_eq!(write(&jane, &kept, "delete", false).await, Ok(()));
}
