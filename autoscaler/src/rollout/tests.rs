//! Which nodes are annotated.

use serde_json::{Value, json};

use super::*;
use crate::testing::{changed, machine, node, pool, seen_machine, seen_pool, world};

/// The plan for `workers`, whose status is this, and one node of it with these annotations.
fn planned(status: Value, annotations: Value) -> Option<bool> {
    let pool = changed(&pool("workers", 2, 0, 5), json!({ "status": status }));
    let seen = [
        seen_pool(&pool),
        seen_machine(&machine("workers-a", "workers", "Running")),
        node("workers-a", json!({}), annotations),
        node("somebody-elses", json!({}), json!({})),
    ];
    let marks = world(seen).look(plan);
    assert!(marks.len() <= 1);
    let mark = marks.first()?;
    assert_eq!(
        (mark.node.as_str(), mark.uid.as_str()),
        ("workers-a", "uid-workers-a")
    );
    Some(mark.on)
}

fn rolling() -> Value {
    json!({ "observedGeneration": 1, "replicas": 3, "updatedReplicas": 1 })
}

fn at_rest() -> Value {
    json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2 })
}

fn ours() -> Value {
    json!({ ANNOTATION_SCALE_DOWN_DISABLED: "true", ANNOTATION_SCALE_DOWN_DISABLED_BY: US })
}

fn theirs() -> Value {
    json!({ ANNOTATION_SCALE_DOWN_DISABLED: "true" })
}

#[test]
fn nodes_of_a_pool_that_rolls_are_kept_and_let_go_afterwards() {
    assert_eq!(planned(rolling(), json!({})), Some(true));
    assert_eq!(planned(rolling(), ours()), None);
    assert_eq!(planned(at_rest(), ours()), Some(false));
    assert_eq!(planned(at_rest(), json!({})), None);
}

#[test]
fn what_somebody_else_put_there_stays() {
    assert_eq!(planned(rolling(), theirs()), None);
    assert_eq!(planned(at_rest(), theirs()), None);
}

#[test]
fn nothing_is_written_while_nobody_knows_whether_it_rolls() {
    let unknown = || json!({ "observedGeneration": 0, "replicas": 3, "updatedReplicas": 1 });
    assert_eq!(planned(unknown(), json!({})), None);
    assert_eq!(planned(unknown(), ours()), None);
}

#[test]
fn nodes_of_a_pool_that_is_no_longer_scaled_are_let_go() {
    let plain = json!({ "spec": { "autoscaling": null }, "status": rolling() });
    let seen = [
        seen_pool(&changed(&pool("workers", 2, 0, 5), plain)),
        seen_machine(&machine("workers-a", "workers", "Running")),
        node("workers-a", json!({}), ours()),
        node("workers-b", json!({}), ours()),
    ];
    let marks = world(seen).look(plan);
    assert_eq!(marks.len(), 2);
    assert!(marks.iter().all(|mark| !mark.on));
}
