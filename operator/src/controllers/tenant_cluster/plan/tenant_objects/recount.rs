//! DaemonSets whose status leaves nodes out.
//!
//! A node that is registered anew (its Node was lost in a restore, or somebody deleted it) has its pods already, and then
//! the DaemonSet controller looks at none of the DaemonSets that they are of: they would want fewer pods than there are
//! nodes until something else changes them (kubernetes 1.35, `syncNodeUpdate` in
//! `pkg/controller/daemon/daemon_controller.go`). Any change makes it count anew.
//! Invariant: one DaemonSet is changed once for one number of nodes.

use api::{ConditionType, Machine, names};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// How long a node has to be ready: the controller takes a moment for a new one.
const SETTLED: SignedDuration = SignedDuration::from_secs(15);

/// How many of these Machines have a node that has been ready for a while.
pub fn settled_nodes<'a>(machines: impl Iterator<Item = &'a Machine>, now: Timestamp) -> i64 {
    let is_settled = |machine: &&Machine| {
        let status = machine.status.as_ref();
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| {
            condition.type_ == ConditionType::NodeReady.as_str()
                && condition.status == "True"
                && now.duration_since(condition.last_transition_time.0) >= SETTLED
        })
    };
    i64::try_from(machines.filter(is_settled).count()).unwrap_or(i64::MAX)
}

/// What to merge into a DaemonSet that runs on every node, where its status leaves some of so many out.
pub fn recount(daemon_set: &Value, nodes: i64) -> Option<Value> {
    let wanted = daemon_set["status"]["desiredNumberScheduled"].as_i64();
    let counted = &daemon_set["metadata"]["annotations"][names::ANNOTATION_NODES_COUNTED];
    let number = nodes.to_string();
    let is_due = daemon_set["kind"] == "DaemonSet"
        && wanted.unwrap_or(0) < nodes
        && counted.as_str() != Some(&number);
    is_due.then(|| {
        json!({ "metadata": {
            "uid": daemon_set["metadata"]["uid"],
            "annotations": { names::ANNOTATION_NODES_COUNTED: number },
        } })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon_set(wanted: i64, counted: Option<&str>) -> Value {
        json!({
            "kind": "DaemonSet",
            "metadata": { "uid": "1", "annotations": { names::ANNOTATION_NODES_COUNTED: counted } },
            "status": { "desiredNumberScheduled": wanted },
        })
    }

    #[test]
    fn one_that_leaves_nodes_out_is_changed_once_for_their_number() {
        let patch = recount(&daemon_set(0, None), 2).unwrap();
        assert_eq!(patch["metadata"]["uid"], "1");
        let counted = patch["metadata"]["annotations"][names::ANNOTATION_NODES_COUNTED].as_str();
        assert_eq!(counted, Some("2"));
        assert_eq!(recount(&daemon_set(0, counted), 2), None);
        assert!(recount(&daemon_set(0, counted), 3).is_some());
        assert_eq!(recount(&daemon_set(2, None), 2), None);
        assert_eq!(recount(&daemon_set(3, None), 2), None);
        let deployment = json!({ "kind": "Deployment", "status": {} });
        assert_eq!(recount(&deployment, 2), None);
    }

    #[test]
    fn a_node_counts_once_it_has_been_ready_for_a_while() {
        let now: Timestamp = "2026-11-29T12:00:00Z".parse().unwrap();
        let machine = |status: &str, seconds: i64| -> Machine {
            let since = now - SignedDuration::from_secs(seconds);
            let condition = json!({
                "type": "NodeReady", "status": status, "reason": "x", "message": "",
                "lastTransitionTime": since.to_string(),
            });
            let object = json!({
                "metadata": { "name": "a" },
                "spec": { "clusterName": "demo", "clusterUID": "1", "poolName": "a", "version": "1.35.4",
                    "provider": { "static": {} } },
                "status": { "conditions": [condition] },
            });
            serde_json::from_value(object).unwrap()
        };
        let all = [
            machine("True", 15),
            machine("True", 14),
            machine("False", 60),
        ];
        assert_eq!(settled_nodes(all.iter(), now), 1);
    }
}
