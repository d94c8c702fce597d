//! The CEL rules and the schema of FleetPolicy, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{check, create, refusals, schema};

mod support;

const TWICE: &str =
    "two waves have the same name: give each its own, status.waves tells them apart by it";
const REST: &str = "rest is the name of the wave of those that no other takes: choose another name";
const NOBODY: &str = "a wave of nobody holds nothing back: set size to 1 or more, or to 1% or more, or remove the wave";
const SOAK: &str = "soak is how long a wave is looked at before the next one begins: at most 168h, 0s for not at all";
const DEADLINE: &str =
    "deadline is how long one tenant cluster may take: at least 10s and at most 24h";
const ROOM: &str = "a tenant cluster that failed keeps its place until it is mended: set maxFailures of each wave to less than maxConcurrent";
const UNTIL: &str = "heldUntil is a time in UTC to the second: write 2027-01-31T12:00:00Z";
const SAME: &str =
    "opens and closes are the same moments: write two, as \"0 22 * * *\" and \"0 4 * * *\"";

fn policy(spec: &Value) -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "FleetPolicy",
        "metadata": {"name": "default"}, "spec": spec,
    })
}

#[test]
fn a_policy_that_cannot_be_meant_is_refused_with_a_sentence() {
    let waves = |waves: Value| policy(&json!({"waves": waves}));
    let one = |wave: Value| waves(json!([wave]));
    check(
        "FleetPolicy",
        &[
            create(
                waves(json!([{"name": "a"}, {"name": "b"}, {"name": "a"}])),
                TWICE,
            ),
            create(one(json!({"name": "rest"})), REST),
            create(one(json!({"name": "a", "size": 0})), NOBODY),
            create(one(json!({"name": "a", "size": "0%"})), NOBODY),
            create(one(json!({"name": "a", "soak": "169h"})), SOAK),
            create(
                policy(&json!({"waves": [{"name": "a", "maxFailures": 5}], "maxConcurrent": 5})),
                ROOM,
            ),
            create(one(json!({"name": "a", "maxFailures": 2})), ROOM),
            create(
                one(json!({"name": "a", "heldUntil": "2027-01-31 12:00:00Z"})),
                UNTIL,
            ),
            create(policy(&json!({"deadline": "9s"})), DEADLINE),
            create(policy(&json!({"deadline": "25h"})), DEADLINE),
            create(
                policy(&json!({"windows": [{"opens": "0 4 * * *", "closes": "0 4 * * *"}]})),
                SAME,
            ),
        ],
    );
}

#[test]
fn what_is_documented_is_let_in() {
    let schema = schema("FleetPolicy");
    for spec in [
        json!({}),
        json!({"waves": [
            {"name": "canary", "selector": {"matchLabels": {"tier": "test"}}, "soak": "1h"},
            {"name": "tenth", "size": "10%"}, {"name": "five", "size": 5},
        ]}),
        json!({"windows": [{"opens": "0 22 * * 1-5", "closes": "0 4 * * *", "timeZone": "Europe/Berlin"}]}),
        json!({"waves": [{"name": "a", "maxFailures": 4}], "maxConcurrent": 5}),
        json!({"waves": [{"name": "a", "heldUntil": "2027-01-31T12:00:00Z"}], "priority": 10}),
        json!({"maxConcurrent": 5, "deadline": "30m", "held": true, "retry": 1}),
    ] {
        assert_eq!(refusals(&schema, None, &policy(&spec)), [""; 0], "{spec}");
    }
}

#[test]
fn it_is_of_the_whole_cluster() {
    let crds = api::crds();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == "FleetPolicy");
    assert_eq!(crd.unwrap().spec.scope, "Cluster");
}

#[test]
fn the_first_of_several_is_the_highest_and_then_the_oldest() {
    let one = |name: &str, priority: i32, created: &str| -> api::FleetPolicy {
        let mut policy = policy(&json!({"priority": priority}));
        policy["metadata"] = json!({"name": name, "creationTimestamp": created});
        serde_json::from_value(policy).unwrap()
    };
    let mut all = [
        one("low", -1, "2026-01-01T00:00:00Z"),
        one("young", 0, "2026-03-01T00:00:00Z"),
        one("old", 0, "2026-02-01T00:00:00Z"),
        one("high", 5, "2026-04-01T00:00:00Z"),
    ];
    all.sort_by_key(api::FleetPolicy::rank);
    let names = all.map(|policy| policy.metadata.name.unwrap());
    assert_eq!(names, ["high", "old", "young", "low"]);
}
