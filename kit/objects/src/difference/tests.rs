//! Laws of the comparison, and the normalisations of the API server one by one.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn path(desired: Value, live: Value) -> Option<String> {
    difference(&desired, &live).map(|difference| difference.path)
}

fn held(desired: Value, live: Value) {
    assert_eq!(path(desired, live), None);
}

#[test]
fn what_live_has_beyond_desired_is_not_looked_at() {
    held(
        json!({ "spec": { "ports": [{ "port": 443 }] } }),
        json!({
            "metadata": { "uid": "u" },
            "spec": { "ports": [{ "port": 443, "protocol": "TCP" }], "clusterIP": "10.0.0.1" },
        }),
    );
}

#[test]
fn the_first_difference_is_named_by_its_path() {
    let live =
        json!({ "spec": { "containers": [{ "name": "a" }, { "name": "b", "image": "x" }] } });
    let mut desired = live.clone();
    desired["spec"]["containers"][1]["image"] = json!("y");
    assert_eq!(
        path(desired, live.clone()).as_deref(),
        Some("spec.containers.1.image")
    );
    let missing = json!({ "spec": { "replicas": 1 } });
    assert_eq!(
        path(missing, live.clone()).as_deref(),
        Some("spec.replicas")
    );
    let shorter = json!({ "spec": { "containers": [{ "name": "a" }] } });
    assert_eq!(path(shorter, live).as_deref(), Some("spec.containers"));
}

#[test]
fn empty_and_absent_are_the_same_but_empty_and_full_are_not() {
    held(
        json!({ "a": null, "b": {}, "c": [], "d": { "e": {} } }),
        json!({}),
    );
    held(json!({ "a": {}, "b": [] }), json!({ "a": null, "b": null }));
    assert_eq!(
        path(json!({ "a": [] }), json!({ "a": [1] })).as_deref(),
        Some("a")
    );
    // One empty rule allows everything, no rule allows nothing.
    assert_eq!(
        path(json!({ "ingress": [{}] }), json!({})).as_deref(),
        Some("ingress")
    );
    assert_eq!(path(json!({ "a": false }), json!({})).as_deref(), Some("a"));
    assert_eq!(path(json!({ "a": "" }), json!({})).as_deref(), Some("a"));
}

#[test]
fn quantities_are_compared_by_value_where_the_api_server_normalises_them() {
    held(
        json!({ "resources": { "requests": { "cpu": "1000m", "memory": "1Gi" } } }),
        json!({ "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }),
    );
    held(
        json!({ "limits": { "cpu": 0.5 } }),
        json!({ "limits": { "cpu": "500m" } }),
    );
    held(
        json!({ "emptyDir": { "sizeLimit": "1024Mi" } }),
        json!({ "emptyDir": { "sizeLimit": "1Gi" } }),
    );
    let more = path(
        json!({ "limits": { "cpu": "2" } }),
        json!({ "limits": { "cpu": "1" } }),
    );
    assert_eq!(more.as_deref(), Some("limits.cpu"));
}

#[test]
fn text_that_only_looks_like_a_quantity_is_compared_as_text() {
    for parent in ["labels", "annotations", "data", "matchLabels"] {
        let desired =
            json!({ parent: { "version": "1.10", "sizeLimit": "1", "idleTimeout": "60s" } });
        for (key, value) in [
            ("version", "1.1"),
            ("sizeLimit", "1000m"),
            ("idleTimeout", "1m0s"),
        ] {
            let mut live = desired.clone();
            live[parent][key] = json!(value);
            assert_eq!(path(desired.clone(), live), Some(format!("{parent}.{key}")));
        }
    }
    assert!(path(json!({ "image": "1.10" }), json!({ "image": "1.1" })).is_some());
}

#[test]
fn durations_are_compared_by_length_under_keys_that_name_one() {
    let live = json!({ "spec": { "drainTimeout": "1m0s", "name": "1m0s" } });
    held(json!({ "spec": { "drainTimeout": "60s" } }), live.clone());
    assert!(path(json!({ "spec": { "name": "60s" } }), live).is_some());
}

#[test]
fn ports_keep_the_type_they_were_written_with() {
    assert!(
        path(
            json!({ "p": { "targetPort": 443 } }),
            json!({ "p": { "targetPort": "443" } })
        )
        .is_some()
    );
    held(
        json!({ "p": { "port": 443 } }),
        json!({ "p": { "port": 443.0 } }),
    );
    let large = 9_007_199_254_740_993_i64;
    assert!(
        path(
            json!({ "p": { "n": large } }),
            json!({ "p": { "n": large - 1 } })
        )
        .is_some()
    );
}

fn applied(owned: Value) -> Value {
    json!({ "metadata": { "managedFields": [
        { "manager": "other", "operation": "Apply", "fieldsV1": { "f:spec": { "f:foreign": {} } } },
        { "manager": "covey", "operation": "Update", "fieldsV1": { "f:data": {} } },
        { "manager": "covey", "operation": "Apply", "subresource": "status",
          "fieldsV1": { "f:status": {} } },
        { "manager": "covey", "operation": "Apply", "fieldsV1": owned },
    ] } })
}

fn stale(desired: Value, owned: Value) -> Option<String> {
    stale_field(&desired, &applied(owned), "covey").map(|difference| difference.path)
}

#[test]
fn a_field_that_we_applied_and_no_longer_want_is_found() {
    let owned = json!({ "f:metadata": { "f:labels": { ".": {}, "f:a": {}, "f:b": {} } } });
    let both = json!({ "metadata": { "labels": { "a": "1", "b": "2" } } });
    assert_eq!(stale(both, owned.clone()), None);
    let one = json!({ "metadata": { "labels": { "a": "1" } } });
    assert_eq!(stale(one, owned).as_deref(), Some("metadata.labels.b"));
}

#[test]
fn list_items_are_found_by_their_keys_and_set_items_by_value() {
    let owned = json!({
        "f:metadata": { "f:finalizers": { "v:\"covey.dev/x\"": {} } },
        "f:spec": { "f:ports": {
            "k:{\"port\":443,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {}, "f:name": {} },
        } },
    });
    let whole = json!({
        "metadata": { "finalizers": ["covey.dev/x"] },
        "spec": { "ports": [{ "port": 443, "name": "api" }] },
    });
    assert_eq!(stale(whole.clone(), owned.clone()), None);
    let mut no_item = whole.clone();
    no_item["spec"]["ports"][0]["port"] = json!(444);
    assert!(stale(no_item, owned.clone()).is_some_and(|path| path.starts_with("spec.ports.")));
    let mut no_finalizer = whole.clone();
    no_finalizer["metadata"]["finalizers"] = json!([]);
    assert!(stale(no_finalizer, owned.clone()).is_some());
    let mut no_name = whole;
    no_name["spec"]["ports"] = json!([{ "port": 443 }]);
    assert!(stale(no_name, owned).is_some_and(|path| path.ends_with(".name")));
}

#[test]
fn an_object_without_managed_fields_has_nothing_stale() {
    assert_eq!(
        stale_field(&json!({}), &json!({ "metadata": {} }), "covey"),
        None
    );
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        "[a-z0-9.]{0,6}".prop_map(Value::from),
        Just(Value::Null),
    ]
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-d]",
        Just("requests".to_owned()),
        Just("labels".to_owned()),
        Just("drainTimeout".to_owned())
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// `base` with what `extra` has besides, as an API server adds defaults: only keys to objects.
fn merged(base: &Value, extra: &Value) -> Value {
    match (base, extra) {
        (Value::Object(base), Value::Object(extra)) => {
            let mut all = extra.clone();
            for (key, value) in base {
                let more = extra.get(key).unwrap_or(value);
                all.insert(key.clone(), merged(value, more));
            }
            Value::Object(all)
        }
        (base, _) => base.clone(),
    }
}

/// Replaces the leaf number `index` by a marker that nothing normalises to.
fn change(value: &mut Value, index: &mut usize) -> bool {
    match value {
        Value::Object(map) => map.values_mut().any(|value| change(value, index)),
        Value::Array(items) => items.iter_mut().any(|value| change(value, index)),
        Value::Null => false,
        leaf if *index == 0 => {
            *leaf = json!("#changed");
            true
        }
        _ => {
            *index -= 1;
            false
        }
    }
}

proptest! {
    #[test]
    fn everything_holds_itself(value in value()) {
        prop_assert_eq!(difference(&value, &value), None);
    }

    #[test]
    fn additions_to_live_change_nothing(desired in value(), extra in value()) {
        prop_assert_eq!(difference(&desired, &merged(&desired, &extra)), None);
    }

    #[test]
    fn a_changed_leaf_is_found_on_either_side(value in value(), index in 0_usize..8) {
        let mut other = value.clone();
        if change(&mut other, &mut index.clone()) {
            prop_assert!(difference(&value, &other).is_some());
            prop_assert!(difference(&other, &value).is_some());
        }
    }

    #[test]
    fn no_input_makes_it_panic(desired in value(), live in value()) {
        let _ = difference(&desired, &live);
        let _ = stale_field(&desired, &applied(live), "covey");
    }
}
