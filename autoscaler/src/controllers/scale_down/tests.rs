//! Which nodes are annotated.

use serde_json::{Value, json};

use super::*;
use crate::testing::{cache, changed, machine, machine_event, node, pool, pool_event};

/// The plan for `workers`, whose status is this, and one node of it with these annotations.
fn planned(status: Value, annotations: Value) -> Option<bool> {
    let pool = changed(&pool("workers", 2, 0, 5), json!({ "status": status }));
    let seen = [
        pool_event(&pool),
        machine_event(&machine("workers-a", "workers", "Running")),
        node("workers-a", json!({}), annotations),
        node("somebody-elses", json!({}), json!({})),
    ];
    let annotations = cache(seen).read(due);
    assert!(annotations.len() <= 1);
    let annotation = annotations.first()?;
    assert_eq!(
        (annotation.node.as_str(), annotation.uid.as_str()),
        ("workers-a", "uid-workers-a")
    );
    Some(annotation.on)
}

fn rolling() -> Value {
    json!({ "observedGeneration": 1, "replicas": 3, "updatedReplicas": 1 })
}

fn at_rest() -> Value {
    json!({ "observedGeneration": 1, "replicas": 2, "updatedReplicas": 2 })
}

fn ours() -> Value {
    json!({ ANNOTATION_SCALE_DOWN_DISABLED: "true", ANNOTATION_SCALE_DOWN_DISABLED_BY: SCALE_DOWN_DISABLED_BY_US })
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
        pool_event(&changed(&pool("workers", 2, 0, 5), plain)),
        machine_event(&machine("workers-a", "workers", "Running")),
        node("workers-a", json!({}), ours()),
        node("workers-b", json!({}), ours()),
    ];
    let annotations = cache(seen).read(due);
    assert_eq!(annotations.len(), 2);
    assert!(annotations.iter().all(|annotation| !annotation.on));
}
