//! The status that a running cluster would give an object.
//!
//! Invariant: pure; `None` when the object has it already, so playing comes to rest.

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::mode::Mode;

/// Address of every load balancer: for documentation (RFC 5737), so nothing answers there.
const BALANCER: &str = "192.0.2.1";

/// A merge patch with the status, or `None` when nothing has to be written.
pub(super) fn wanted(kind: &str, object: &DynamicObject, mode: Mode) -> Option<Value> {
    if mode == Mode::Paused {
        return None;
    }
    let generation = object.metadata.generation.unwrap_or(1);
    let spec = &object.data["spec"];
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let ready = if mode == Mode::Ready { replicas } else { 0 };
    let status = match kind {
        "StatefulSet" => json!({
            "observedGeneration": generation, "replicas": replicas, "readyReplicas": ready,
            "availableReplicas": ready, "currentReplicas": replicas, "updatedReplicas": replicas,
            "currentRevision": revision(generation), "updateRevision": revision(generation),
        }),
        "Deployment" => json!({
            "observedGeneration": generation, "replicas": replicas, "readyReplicas": ready,
            "availableReplicas": ready, "updatedReplicas": replicas,
            "unavailableReplicas": replicas - ready,
            "conditions": [
                {"type": "Available", "status": if ready == replicas { "True" } else { "False" },
                 "reason": if ready == replicas { "MinimumReplicasAvailable" }
                           else { "MinimumReplicasUnavailable" }, "message": ""},
                {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                 "message": ""},
            ],
        }),
        "PersistentVolumeClaim" => json!({
            "phase": "Bound", "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        }),
        "Service" if spec["type"] == "LoadBalancer" => {
            json!({"loadBalancer": {"ingress": [{"ip": BALANCER, "ipMode": "VIP"}]}})
        }
        _ => return None,
    };
    let same = contains(&object.data["status"], &status);
    (!same).then(|| json!({ "status": status }))
}

/// The name of a revision: changes with the spec, as a controller's does.
fn revision(generation: i64) -> String {
    format!("testkit-{generation}")
}

/// Whether `found` has everything that `wanted` says. The server leaves out numbers that are 0.
fn contains(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| contains(found.get(key).unwrap_or(&Value::Null), value)),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(f, w)| contains(f, w))
        }
        (Value::Null, wanted) => *wanted == json!(0) || *wanted == json!("") || wanted.is_null(),
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(status: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "generation": 3},
            "spec": {"replicas": 2}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn ready_deployment_is_left_alone() {
        let patch = wanted("Deployment", &deployment(json!({})), Mode::Ready).unwrap();
        assert_eq!(patch["status"]["observedGeneration"], 3);
        let mut stored = patch["status"].clone();
        // As the server stores it.
        stored
            .as_object_mut()
            .unwrap()
            .remove("unavailableReplicas");
        assert_eq!(
            wanted("Deployment", &deployment(stored.clone()), Mode::Ready),
            None
        );
        let failing = wanted("Deployment", &deployment(stored), Mode::Failing).unwrap();
        assert_eq!(failing["status"]["readyReplicas"], 0);
        assert_eq!(failing["status"]["conditions"][0]["status"], "False");
    }

    #[test]
    fn paused_player_wants_nothing() {
        assert_eq!(
            wanted("Deployment", &deployment(json!({})), Mode::Paused),
            None
        );
        assert_eq!(
            wanted("ConfigMap", &deployment(json!({})), Mode::Ready),
            None
        );
    }
}
