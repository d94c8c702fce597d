//! The CEL rules and the schema of Snapshot, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

const CLUSTER: &str =
    "clusterName cannot change: a snapshot is of one tenant cluster; make another Snapshot";
const KIND: &str = "kind cannot change: make another Snapshot";
const TIME: &str = "keepUntil is a time in UTC to the second: write 2027-06-30T00:00:00Z";
const LONGER: &str = "keepUntil can only be moved to a later time: what was promised to be kept is not let go earlier";

fn snapshot(spec: &Value) -> Value {
    let mut whole = json!({"clusterName": "demo"});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Snapshot",
        "metadata": {"name": "before", "namespace": "team-a"}, "spec": whole,
    })
}

fn until(text: &str) -> Value {
    snapshot(&json!({"keepUntil": text}))
}

#[test]
fn snapshot_that_cannot_be_meant_is_refused_with_a_sentence() {
    let none = snapshot(&json!({}));
    let other = snapshot(&json!({"clusterName": "other"}));
    let later = until("2027-06-30T00:00:00Z");
    check(
        "Snapshot",
        &[
            change(none.clone(), other, CLUSTER),
            // There is one kind so far, and its change is refused all the same.
            change(
                snapshot(&json!({"kind": "Delta"})),
                snapshot(&json!({"kind": "Full"})),
                KIND,
            ),
            create(until("2027-06-30T00:00:00+02"), TIME),
            create(until("next week, or so...."), TIME),
            change(later.clone(), until("2027-06-29T23:59:59Z"), LONGER),
            change(later, none, LONGER),
        ],
    );
}

#[test]
fn what_is_usual_is_let_in_and_it_may_be_kept_longer() {
    let schema = schema("Snapshot");
    let (none, until) = (snapshot(&json!({})), until("2027-06-30T00:00:00Z"));
    for (old, new) in [(None, &none), (None, &until), (Some(&none), &until)] {
        assert_eq!(refusals(&schema, old, new), [""; 0], "{new}");
    }
    let longer = snapshot(&json!({"keepUntil": "2028-01-01T00:00:00Z"}));
    assert_eq!(refusals(&schema, Some(&until), &longer), [""; 0]);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["properties"]["kind"]["default"], "Full");
    assert_eq!(spec["required"], json!(["clusterName"]));
}
