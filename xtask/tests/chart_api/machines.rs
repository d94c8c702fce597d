//! What the policy covey-machines lets people do with Machines, and what it refuses.
//!
//! Invariant: the operator is let do everything; people may annotate, label and delete.

use serde_json::{Value, json};

use crate::objects::namespace;
use crate::{Installed, OPERATOR, is_refused, until, write};

fn machine() -> Value {
    json!({
        "apiVersion": "covey.dev/v1alpha1",
        "kind": "Machine",
        "metadata": {
            "name": "workers-a",
            "namespace": "machines",
            "labels": { "covey.dev/node-pool": "workers" },
        },
        "spec": {
            "clusterName": "demo", "clusterUID": "u1", "poolName": "workers",
            "version": "1.35.4", "provider": { "kubevirt": {} },
        },
    })
}

fn changed(pointer: &str, value: Value) -> Value {
    let mut machine = machine();
    let (above, key) = pointer.rsplit_once('/').unwrap();
    machine.pointer_mut(above).unwrap()[key] = value;
    machine
}

#[tokio::test]
async fn people_annotate_and_delete_machines_and_change_nothing_else() {
    let Some(installed) = Installed::shared().await else {
        return;
    };
    installed.create(namespace("machines", &[])).await;
    let person = installed
        .api
        .client_as("jane", &["system:masters"])
        .unwrap();
    let operator = installed
        .api
        .client_as(OPERATOR, &["system:masters"])
        .unwrap();
    // The policy is in force a moment after it is stored.
    until(async || is_refused(&write(&person, &machine(), "create", true).await)).await;
    let refused = write(&person, &machine(), "create", true)
        .await
        .unwrap_err();
    assert!(
        refused.contains("Machines are made by node pools; raise spec.replicas of a NodePool"),
        "{refused}"
    );
    assert_eq!(write(&operator, &machine(), "create", false).await, Ok(()));

    for (object, message) in [
        (
            changed("/spec/drainTimeout", json!("1h")),
            "change its NodePool, which replaces its Machines",
        ),
        (
            changed("/spec/labels", json!({ "a": "b" })),
            "change its NodePool, which replaces its Machines",
        ),
        (
            changed(
                "/metadata/labels",
                json!({ "covey.dev/node-pool": "other" }),
            ),
            "labels of covey.dev on a Machine are the operator's",
        ),
        (
            changed(
                "/metadata/labels",
                json!({ "covey.dev/node-pool": "workers", "covey.dev/machine-uid": "x" }),
            ),
            "labels of covey.dev on a Machine are the operator's",
        ),
        (
            changed(
                "/metadata/annotations",
                json!({ "covey.dev/machine-number": "7" }),
            ),
            "the annotation covey.dev/machine-number of a Machine is the operator's",
        ),
    ] {
        let answer = write(&person, &object, "apply", true).await;
        let refused = answer.expect_err(message);
        assert!(refused.contains(message), "{refused}");
        assert_eq!(
            write(&operator, &object, "apply", true).await,
            Ok(()),
            "{object}"
        );
    }

    let annotations = json!({ "covey.dev/delete-machine": "yes" });
    let annotated = changed("/metadata/annotations", annotations);
    assert_eq!(write(&person, &annotated, "apply", false).await, Ok(()));
    let labels = json!({ "covey.dev/node-pool": "workers", "example.com/team": "a" });
    let labelled = changed("/metadata/labels", labels);
    assert_eq!(write(&person, &labelled, "apply", false).await, Ok(()));
    assert_eq!(write(&person, &machine(), "delete", false).await, Ok(()));
}
