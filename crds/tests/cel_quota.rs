//! The CEL rule and the schema of TenantQuota, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{check, create, refusals, schema};

mod support;

const NOTHING: &str = "a quota that bounds nothing has no effect: set at least one of clusters, \
                       cores, memory, storage, loadBalancers and machines";

fn quota(spec: &Value) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "TenantQuota",
        "metadata": {"name": "team-a"},
        "spec": spec,
    })
}

#[test]
fn a_quota_that_bounds_nothing_is_refused() {
    let nothing = quota(&json!({"namespaces": ["team-a"]}));
    check("TenantQuota", &[create(nothing, NOTHING)]);
}

#[test]
fn any_one_bound_is_enough_and_zero_is_one() {
    let schema = schema("TenantQuota");
    for (field, most) in [
        ("clusters", json!(0)),
        ("cores", json!("1500m")),
        ("memory", json!("64Gi")),
        ("storage", json!("0")),
        ("loadBalancers", json!(1)),
        ("machines", json!(20)),
    ] {
        let mut spec = json!({"namespaces": ["team-a"]});
        spec[field] = most;
        assert_eq!(refusals(&schema, None, &quota(&spec)), [""; 0], "{field}");
    }
}

#[test]
fn it_is_of_the_whole_cluster_and_its_namespaces_are_names() {
    let crds = api::crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == "TenantQuota");
    assert_eq!(crd.unwrap().spec.scope, "Cluster");
    let namespaces = &schema("TenantQuota")["properties"]["spec"]["properties"]["namespaces"];
    assert_eq!(namespaces["minItems"], 1);
    assert_eq!(namespaces["maxItems"], 256);
    assert_eq!(namespaces["x-kubernetes-list-type"], "set");
    assert_eq!(namespaces["items"]["maxLength"], 63);
    assert!(namespaces["items"]["pattern"].is_string());
}
