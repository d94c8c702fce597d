//! The CEL rules and the schema of Restore, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

const SAME: &str = "a Restore cannot change: make another one";
const DRY: &str = "this version only says what can be restored: set dryRun to true, and restore with etcd-agent backup restore";
const ONE: &str =
    "set exactly one of at.time and at.revision, or leave at out for the newest moment";
const TIME: &str = "at.time is a time in UTC to the second: write 2026-11-26T20:00:00Z";

fn restore(spec: &Value) -> Value {
    let mut whole = json!({"clusterName": "demo", "dryRun": true});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "Restore",
        "metadata": {"name": "before", "namespace": "team-a"}, "spec": whole,
    })
}

#[test]
fn restore_that_cannot_be_had_this_way_is_refused_with_a_sentence() {
    let at = |at: &Value| restore(&json!({"at": at}));
    check(
        "Restore",
        &[
            change(restore(&json!({})), at(&json!({"revision": 7})), SAME),
            create(restore(&json!({"dryRun": false})), DRY),
            create(at(&json!({})), ONE),
            create(
                at(&json!({"revision": 7, "time": "2026-11-26T20:00:00Z"})),
                ONE,
            ),
            create(at(&json!({"time": "2026-11-26 20:00:00 "})), TIME),
        ],
    );
}

#[test]
fn one_moment_or_the_newest_is_let_in() {
    let schema = schema("Restore");
    for at in [
        json!({"revision": 7}),
        json!({"time": "2026-11-26T20:00:00Z"}),
    ] {
        let new = restore(&json!({"at": at}));
        assert_eq!(refusals(&schema, None, &new), [""; 0], "{new}");
        assert_eq!(refusals(&schema, Some(&new), &new), [""; 0], "{new}");
    }
    assert_eq!(refusals(&schema, None, &restore(&json!({}))), [""; 0]);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["properties"]["dryRun"]["default"], false);
}
