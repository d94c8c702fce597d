//! The CEL rules and the schema of Restore, evaluated without an API server.
//!
//! Invariant: every rule in the schema is refused by at least one case here.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use serde_json::{Value, json};
use support::{change, check, create, refusals, schema};

mod support;

const SAME: &str = "a Restore cannot change but for confirmed and orphans: make another one";
const STAYS: &str = "confirmed cannot be taken back: the data of before may have been removed";
const DECIDED: &str = "orphans was decided and confirmed, so it cannot change any more: delete what is too much with \
    kubectl in the tenant namespace";
const DRY: &str =
    "with dryRun nothing is restored, so there is nothing to confirm: leave confirmed out";
const SURVIVOR: &str = "what a survivor has comes after all that is in the backup of the etcd cluster of today: with \
    survivor leave at, from and dryRun out";
const ONE: &str =
    "set exactly one of at.time and at.revision, or leave at out for the newest moment";
const TIME: &str = "at.time is a time in UTC to the second: write 2026-11-26T20:00:00Z";

fn restore(spec: &Value) -> Value {
    let mut whole = json!({
        "clusterName": "demo", "dryRun": false, "confirmed": false, "orphans": "Report",
    });
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
            change(restore(&json!({})), restore(&json!({"dryRun": true})), SAME),
            change(
                restore(&json!({"from": {"clusterID": "cdf8"}})),
                restore(&json!({"from": {"clusterID": "cdf9"}})),
                SAME,
            ),
            change(
                restore(&json!({"from": {"clusterID": "cdf8"}})),
                restore(&json!({})),
                SAME,
            ),
            change(
                restore(&json!({"from": {"clusterID": "cdf8", "clusterUID": "a"}})),
                restore(&json!({"from": {"clusterID": "cdf8", "clusterUID": "b"}})),
                SAME,
            ),
            change(
                restore(&json!({"confirmed": true})),
                restore(&json!({})),
                STAYS,
            ),
            change(
                restore(&json!({"confirmed": true, "orphans": "Keep"})),
                restore(&json!({"confirmed": true, "orphans": "Delete"})),
                DECIDED,
            ),
            create(restore(&json!({"dryRun": true, "confirmed": true})), DRY),
            change(
                restore(&json!({"survivor": "etcd-2"})),
                restore(&json!({"survivor": "etcd-1"})),
                SAME,
            ),
            create(
                restore(&json!({"survivor": "etcd-2", "dryRun": true})),
                SURVIVOR,
            ),
            create(
                restore(&json!({"survivor": "etcd-2", "at": {"revision": 7}})),
                SURVIVOR,
            ),
            create(
                restore(&json!({"survivor": "etcd-2", "from": {"clusterID": "cdf8"}})),
                SURVIVOR,
            ),
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
    for dry in [true, false] {
        let new = restore(&json!({"dryRun": dry}));
        assert_eq!(refusals(&schema, None, &new), [""; 0], "{new}");
    }
    let other = restore(&json!({"from": {"clusterID": "cdf8", "clusterUID": "0a1b2c3d-0011"}}));
    assert_eq!(refusals(&schema, None, &other), [""; 0]);
    let (new, confirmed) = (restore(&json!({})), restore(&json!({"confirmed": true})));
    assert_eq!(refusals(&schema, Some(&new), &confirmed), [""; 0]);
    let left = restore(&json!({"survivor": "etcd-2"}));
    assert_eq!(refusals(&schema, None, &left), [""; 0]);
    // It is decided before it is confirmed, with it, or afterwards.
    let decided = restore(&json!({"confirmed": true, "orphans": "Delete"}));
    let keeps = restore(&json!({"orphans": "Keep"}));
    for before in [&new, &keeps, &confirmed] {
        assert_eq!(
            refusals(&schema, Some(before), &decided),
            [""; 0],
            "{before}"
        );
    }
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["properties"]["orphans"]["default"], "Report");
    assert_eq!(spec["properties"]["dryRun"]["default"], false);
    assert_eq!(spec["properties"]["confirmed"]["default"], false);
}
