//! What is read from objects.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{UID, changed, machine, pool};

fn read(change: Value) -> Pool {
    Pool::read(&changed(&pool("workers", 3, 0, 5), change))
}

#[test]
fn names_of_who_goes_are_read_with_or_without_blanks() {
    let text = json!({ "metadata": { "annotations": { ANNOTATION_DELETE_MACHINE: " a, b,,c" } } });
    let names: Vec<_> = read(text).named.into_iter().collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(read(json!({})).named.is_empty());
}

#[test]
fn a_pool_rolls_while_machines_are_outdated_and_the_operator_can_do_something_about_it() {
    let because = |observed: i64, updated: i32, degraded: &str, reason: &str| {
        let degraded = json!({ "type": "Degraded", "status": degraded, "reason": reason,
            "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let status = json!({ "observedGeneration": observed, "replicas": 3,
            "updatedReplicas": updated, "conditions": [degraded] });
        read(json!({ "status": status })).rolling
    };
    let status = |observed, updated, degraded| because(observed, updated, degraded, "R");
    assert_eq!(because(1, 0, "True", "LocationsFull"), Some(true));
    assert_eq!(status(1, 2, "False"), Some(true));
    assert_eq!(status(1, 2, "True"), Some(true));
    assert_eq!(status(1, 3, "False"), Some(false));
    assert_eq!(status(1, 0, "False"), Some(true));
    assert_eq!(
        status(1, 0, "True"),
        Some(false),
        "it cannot be carried out"
    );
    assert_eq!(
        status(0, 2, "False"),
        None,
        "the newest spec was not looked at"
    );
    assert_eq!(read(json!({})).rolling, None);
}

#[test]
fn what_keeps_a_machine_from_becoming_a_node_is_told_by_its_conditions() {
    let trouble = |phase: &str, type_: &str, reason: &str, message: &str| {
        let condition = json!({ "type": type_, "status": "False", "reason": reason,
            "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let change = json!({ "status": { "conditions": [condition] } });
        let machine = changed(&machine("a", "workers", phase), change);
        let trouble = Machine::read(&machine, UID).unwrap().trouble;
        trouble.map(|t| (t.exhausted, t.reason))
    };
    let vm = "VirtualMachineReady";
    let class = |exhausted: bool, reason: &str| Some((exhausted, reason.to_owned()));
    for harmless in HARMLESS {
        assert_eq!(
            trouble("Creating", vm, harmless.as_str(), ""),
            None,
            "{harmless}"
        );
    }
    let full = "0/3 nodes are available: add nodes";
    assert_eq!(
        trouble("Creating", vm, "Unschedulable", full),
        class(true, "Unschedulable")
    );
    let quota = "pods \"x\" is forbidden: exceeded quota: q";
    assert_eq!(
        trouble("Creating", vm, "FailedCreate", quota),
        class(true, "FailedCreate")
    );
    let quota = "could not create VirtualMachine: exceeded quota: q";
    assert_eq!(
        trouble("Pending", "Ready", "Refused", quota),
        class(true, "Refused")
    );
    assert_eq!(
        trouble("Creating", vm, "ErrImagePull", ""),
        class(false, "ErrImagePull")
    );
    assert_eq!(
        trouble("Failed", "Ready", "Stopped", ""),
        class(false, "Stopped")
    );
    assert_eq!(
        trouble("Failed", "NodeReady", "NotJoined", ""),
        class(false, "Failed")
    );
    assert_eq!(trouble("Booting", "Ready", "Booting", ""), None);
    assert_eq!(
        trouble("Running", vm, "Paused", ""),
        None,
        "its pods say how it does"
    );
}

#[test]
fn machines_of_another_cluster_are_not_remembered() {
    assert_eq!(
        Machine::read(&machine("a", "workers", "Running"), "other"),
        None
    );
}

#[test]
fn a_machine_that_drains_goes() {
    for (phase, going) in [("Draining", true), ("Deleting", true), ("Running", false)] {
        let read = Machine::read(&machine("a", "workers", phase), UID).unwrap();
        assert_eq!(read.going, going, "{phase}");
    }
}

fn specs() -> impl Strategy<Value = Value> {
    let memory = prop_oneof![Just("4Gi"), Just("4096Mi"), Just("8Gi"), Just("much")];
    let labels = proptest::collection::btree_map("[ab]", "[xy]", 0..3);
    let taint = ("[ab]", prop_oneof![Just("NoSchedule"), Just("NoExecute")]);
    let taints = proptest::collection::vec(taint, 0..3);
    let other = proptest::option::of(1..3);
    (1..3, memory, labels, taints, 0..5, "[mn]", other).prop_map(
        |(cpu, memory, labels, taints, replicas, image, other)| {
            let taint = |(key, effect): &(String, &str)| json!({ "key": key, "effect": effect });
            let provider =
                |cpu: i32| json!({ "kubevirt": { "cpu": cpu, "memory": memory, "image": image } });
            let mut pool = json!({ "spec": { "replicas": replicas, "labels": labels,
                "taints": taints.iter().map(taint).collect::<Vec<_>>(),
                "version": format!("1.35.{replicas}"), "provider": provider(cpu) } });
            if let Some(other) = other {
                pool["spec"]["provider"] = json!(null);
                pool["spec"]["locations"] = json!([
                    { "name": "a", "provider": provider(cpu) },
                    { "name": "b", "provider": provider(other) },
                ]);
            }
            pool
        },
    )
}

proptest! {
    #[test]
    fn the_group_is_another_exactly_when_the_shape_is(one in specs(), other in specs()) {
        let (one, other) = (read(one), read(other));
        prop_assert_eq!(one.shape == other.shape, one.group == other.group);
        let (pool, digits) = one.group.split_once('.').unwrap();
        prop_assert_eq!(pool, "workers");
        prop_assert!(digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    }
}

#[test]
fn how_an_amount_is_written_and_what_boots_makes_no_other_group() {
    let group = |provider: Value| read(json!({ "spec": { "provider": provider } })).group;
    let plain = group(json!({ "kubevirt": { "cpu": 2, "memory": "4Gi" } }));
    assert_eq!(plain, read(json!({})).group, "these are the defaults");
    assert_eq!(
        group(json!({ "kubevirt": { "memory": "4096Mi", "image": "m/w:2" } })),
        plain
    );
    assert_ne!(group(json!({ "kubevirt": { "cpu": 4 } })), plain);
    // It is in the memory of clients, so it never changes without need.
    assert_eq!(plain, "workers.68d80d82");
}
