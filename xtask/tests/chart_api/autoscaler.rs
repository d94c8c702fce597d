//! Who may size a NodePool that has `spec.autoscaling`, and what an autoscaler may do with NodePools.
//!
//! Invariant: every rule of templates/autoscaler-policies.yaml has a line that it refuses.

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::objects::namespace;
use crate::{Installed, OPERATOR, api_of, is_refused, until, write};

const ADAPTER: &str = "system:serviceaccount:covey-demo-0a1b2c3d00:autoscaler";

fn pool(name: &str, more: &Value) -> Value {
    let mut pool = json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "NodePool",
        "metadata": {
            "name": name, "namespace": "sizes", "labels": { "a": "b" },
            "annotations": { "example.com/note": "x", "covey.dev/delete-machine": "old-1" },
            "finalizers": ["example.com/hold"],
        },
        "spec": {
            "clusterName": "demo", "replicas": 2, "labels": { "tier": "gold" },
            "provider": { "kubevirt": {} },
        },
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        pool["spec"][key] = value.clone();
    }
    pool
}

fn bounds() -> Value {
    json!({ "min": 0, "max": 5 })
}

async fn patch(api: &Api<DynamicObject>, name: &str, change: &Value) -> Result<(), String> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let patched = api.patch(name, &params, &Patch::Merge(change)).await;
    patched.map(drop).map_err(|error| error.to_string())
}

async fn scale(api: &Api<DynamicObject>, name: &str, replicas: i32) -> Result<(), String> {
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let change = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
    let scaled = api.patch_scale(name, &params, &change).await;
    scaled.map(drop).map_err(|error| error.to_string())
}

fn check(answer: Result<(), String>, refusal: Option<&str>, asked: &Value) {
    match (refusal, answer) {
        (None, answer) => assert_eq!(answer, Ok(()), "{asked}"),
        (Some(part), Err(error)) => assert!(error.contains(part), "{asked}: {error}"),
        (Some(part), Ok(())) => panic!("{asked} was not refused with \"{part}\""),
    }
}

/// Pool, change, and with what an adapter is refused.
fn of_adapters() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let only_replicas = Some("may change only replicas");
    let only_annotation = Some("only the annotations covey.dev/delete-machine");
    let victims = |names: Value| json!({ "covey.dev/delete-machine": names });
    let beyond = Some("replicas by spec.autoscaling, and not");
    let size = |replicas: i32| json!({ "spec": { "replicas": replicas } });
    vec![
        ("grows", size(5), None),
        ("grows", size(6), beyond),
        ("grows", size(1000), beyond),
        ("above", size(8), None),
        ("above", size(3), None),
        ("above", size(10), beyond),
        ("above", size(2), beyond),
        ("below", size(2), None),
        ("below", size(4), None),
        ("below", size(0), beyond),
        ("below", size(6), beyond),
        ("grows", json!({ "spec": { "replicas": 4 } }), None),
        (
            "grows",
            json!({
                "metadata": { "annotations": victims(json!("a,b")) }, "spec": { "replicas": 1 },
            }),
            None,
        ),
        (
            "grows",
            json!({ "metadata": { "annotations": victims(Value::Null) } }),
            None,
        ),
        (
            "grows",
            json!({ "metadata": { "annotations": { "covey.dev/autoscaling-refused": "1 x" } } }),
            None,
        ),
        (
            "fixed",
            json!({ "spec": { "replicas": 4 } }),
            Some("has no spec.autoscaling"),
        ),
        (
            "fixed",
            json!({ "metadata": { "annotations": victims(json!("a")) } }),
            Some("has no spec.autoscaling"),
        ),
        (
            "fixed",
            json!({ "spec": { "replicas": 4, "autoscaling": bounds() } }),
            Some("has no spec.autoscaling"),
        ),
        (
            "others",
            json!({ "spec": { "replicas": 4 } }),
            Some("is of TenantCluster demo-0a1, and this autoscaler of another"),
        ),
        (
            "grows",
            json!({ "spec": { "autoscaling": { "max": 50 } } }),
            only_replicas,
        ),
        (
            "grows",
            json!({ "spec": { "autoscaling": null } }),
            only_replicas,
        ),
        (
            "grows",
            json!({ "spec": { "version": "1.35.4" } }),
            only_replicas,
        ),
        (
            "grows",
            json!({ "spec": { "labels": { "tier": "silver" } } }),
            only_replicas,
        ),
        (
            "grows",
            json!({ "spec": { "replicas": 3, "provider": { "kubevirt": { "image": "x:1" } } } }),
            only_replicas,
        ),
        (
            "grows",
            json!({ "metadata": { "labels": { "a": "c" } } }),
            only_annotation,
        ),
        (
            "grows",
            json!({ "metadata": { "annotations": { "example.com/note": "y" } } }),
            only_annotation,
        ),
        (
            "grows",
            json!({ "metadata": { "annotations": { "example.com/note": null } } }),
            only_annotation,
        ),
        (
            "grows",
            json!({ "metadata": { "annotations": { "example.com/more": "z" } } }),
            only_annotation,
        ),
        (
            "grows",
            json!({ "metadata": { "finalizers": null } }),
            only_annotation,
        ),
        (
            "grows",
            json!({ "metadata": { "ownerReferences": [{
                "apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u",
            }] } }),
            only_annotation,
        ),
    ]
}

/// Pool, change, and with what a person is refused.
fn of_people() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let owned = Some("change spec.autoscaling.min or max, or remove spec.autoscaling");
    vec![
        ("grows", json!({ "spec": { "replicas": 4 } }), owned),
        (
            "grows",
            json!({ "spec": { "replicas": 4, "autoscaling": { "max": 9 } } }),
            owned,
        ),
        ("grows", json!({ "spec": { "replicas": 2 } }), None),
        (
            "grows",
            json!({ "spec": { "autoscaling": { "min": 3, "max": 9 } } }),
            None,
        ),
        (
            "grows",
            json!({ "spec": { "replicas": 4, "autoscaling": null } }),
            None,
        ),
        ("grows", json!({ "spec": { "version": "1.35.4" } }), None),
        (
            "grows",
            json!({ "metadata": { "labels": { "a": "c" } } }),
            None,
        ),
        ("fixed", json!({ "spec": { "replicas": 4 } }), None),
        (
            "fixed",
            json!({ "spec": { "replicas": 4, "autoscaling": bounds() } }),
            None,
        ),
    ]
}

async fn pools(installed: &Installed) -> impl Fn(&Client) -> Api<DynamicObject> {
    installed.create(namespace("sizes", &[])).await;
    let grows = pool("grows", &json!({ "autoscaling": bounds() }));
    let mut others = pool("others", &json!({ "autoscaling": bounds() }));
    // The tenant namespace of this one begins like that of `demo`.
    others["spec"]["clusterName"] = json!("demo-0a1");
    let moved = json!({ "min": 3, "max": 5 });
    let above = pool("above", &json!({ "autoscaling": moved, "replicas": 9 }));
    let below = pool("below", &json!({ "autoscaling": moved, "replicas": 1 }));
    for object in [&grows, &pool("fixed", &json!({})), &others, &above, &below] {
        installed.create(object.clone()).await;
    }
    move |client: &Client| api_of(client, &grows)
}

#[tokio::test]
async fn replicas_are_the_autoscalers_and_nothing_else_of_a_node_pool_is() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    let api_as = pools(installed).await;
    let client = |name: &str| installed.api.client_as(name, &["system:masters"]).unwrap();
    let (adapter, person) = (api_as(&client(ADAPTER)), api_as(&client("jane")));
    let operator = api_as(&client(OPERATOR));
    // The policies are in force a moment after they are stored, their parameters a moment later.
    let more = json!({ "spec": { "replicas": 3 } });
    until(async || is_refused(&patch(&person, "grows", &more).await)).await;
    until(async || is_refused(&scale(&person, "grows", 3).await)).await;

    for (pool, change, refusal) in of_adapters() {
        check(patch(&adapter, pool, &change).await, refusal, &change);
        // Whoever it is, the operator is let do its work.
        assert_eq!(patch(&operator, pool, &change).await, Ok(()), "{change}");
    }
    for (pool, change, refusal) in of_people() {
        check(patch(&person, pool, &change).await, refusal, &change);
    }
    // Like an adapter, and none: a namespace that only begins like the tenant namespace.
    for name in [
        "system:serviceaccount:covey-demo-0a1b2c3d001:autoscaler",
        "system:serviceaccount:covey-demo-0a1b2:autoscaler",
        "system:serviceaccount:covey-other-0a1b2c3d00:autoscaler",
    ] {
        let refusal = Some("this autoscaler of another");
        check(
            patch(&api_as(&client(name)), "grows", &more).await,
            refusal,
            &json!(name),
        );
    }
    let refusal = Some("the autoscaler sets the size of NodePool grows");
    check(scale(&person, "grows", 3).await, refusal, &json!("scale"));
    check(scale(&person, "grows", 2).await, None, &json!("the same"));
    check(scale(&person, "fixed", 3).await, None, &json!("fixed"));

    let free = json!({ "metadata": { "finalizers": null } });
    for name in ["grows", "fixed", "others", "above", "below"] {
        let api = api_as(&installed.admin());
        let freed = api
            .patch(name, &PatchParams::default(), &Patch::Merge(&free))
            .await;
        freed.unwrap();
        let object = pool(name, &json!({}));
        assert_eq!(
            write(&installed.admin(), &object, "delete", false).await,
            Ok(())
        );
    }
}
