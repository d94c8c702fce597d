//! The CEL rules and the schema of AccessGrant, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

const FIXED: &str =
    "an AccessGrant cannot be changed: delete it, which ends its rights at once, and make another";
const GROUPS: &str = "groups that begin with system:, covey: or kubeadm: have rights of the cluster itself: name groups \
    of your own, and the rights by `profile`";
const EITHER: &str = "set either `request`, for somebody who keeps a key, or `secretName`, where the operator makes \
    the key and renews the certificate";
const TOKEN: &str =
    "`tokenKey` goes with `request`: a program has its certificate in a Secret, by `secretName`";
const TOKEN_KEY: &str = "7Yk3mC0m2rQ3m0yq2uO8Qh0s2x2r0c1c4a9m5rQ1c2E=";
const OTHER_SECRET: &str = "the Secret `<clusterName>-kubeconfig` is the administrator's: give `secretName` another \
    name that ends in -kubeconfig";

fn grant(spec: &Value) -> Value {
    let request = format!("-----BEGIN CERTIFICATE REQUEST-----\n{}", "A".repeat(64));
    let mut whole = json!({
        "clusterName": "demo", "profile": "view", "user": "jane", "request": request, "ttlSeconds": 3600,
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
        "metadata": {"name": "demo-x", "namespace": "team-a"}, "spec": whole,
    })
}

/// One of a program.
fn kept(spec: &Value) -> Value {
    let mut grant = grant(spec);
    let fields = grant["spec"].as_object_mut().unwrap();
    fields.remove("request");
    grant
}

#[test]
fn grant_that_cannot_be_meant_is_refused_with_a_sentence() {
    let view = grant(&json!({}));
    let flux = kept(&json!({"secretName": "flux-kubeconfig"}));
    check(
        "AccessGrant",
        &[
            change(view.clone(), grant(&json!({"profile": "admin"})), FIXED),
            change(view.clone(), grant(&json!({"user": "john"})), FIXED),
            change(view, grant(&json!({"ttlSeconds": 86_400})), FIXED),
            change(flux, kept(&json!({"secretName": "argo-kubeconfig"})), FIXED),
            create(kept(&json!({})), EITHER),
            create(
                kept(&json!({"secretName": "flux-kubeconfig", "tokenKey": TOKEN_KEY})),
                TOKEN,
            ),
            create(grant(&json!({"secretName": "flux-kubeconfig"})), EITHER),
            create(
                kept(&json!({"secretName": "demo-kubeconfig"})),
                OTHER_SECRET,
            ),
            create(grant(&json!({"groups": ["system:masters"]})), GROUPS),
            create(grant(&json!({"groups": ["covey:grant:u1"]})), GROUPS),
            create(
                grant(&json!({"groups": ["kubeadm:cluster-admins"]})),
                GROUPS,
            ),
        ],
    );
}

#[test]
fn what_is_usual_is_let_in() {
    let schema = schema("AccessGrant");
    let view = grant(&json!({}));
    let team = grant(&json!({"groups": ["team-a"]}));
    let flux = kept(&json!({"secretName": "flux-kubeconfig", "groups": ["team-a"]}));
    let token = grant(&json!({"tokenKey": TOKEN_KEY}));
    for (old, new) in [
        (None, &token),
        (None, &view),
        (None, &team),
        (Some(&view), &view),
        (None, &flux),
    ] {
        assert_eq!(refusals(&schema, old, new), [""; 0], "{new}");
    }
    let seconds = &schema["properties"]["spec"]["properties"]["ttlSeconds"];
    assert_eq!(seconds["default"], api::access_grant::SECONDS);
    assert_eq!(
        seconds["minimum"],
        f64::from(api::access_grant::LEAST_SECONDS)
    );
    assert_eq!(
        seconds["maximum"],
        f64::from(api::access_grant::MOST_SECONDS)
    );
    let secret = &schema["properties"]["spec"]["properties"]["secretName"];
    // The chart lets the operator write no other Secrets in namespaces of users.
    let pattern = secret["pattern"].as_str().unwrap();
    assert!(pattern.ends_with("-kubeconfig$"), "{pattern}");
    let groups = &schema["properties"]["spec"]["properties"]["groups"];
    assert_eq!(groups["maxItems"], 1);
}
