//! What the server fills in: defaults of built-in kinds as far as our objects meet them, and those of
//! our CustomResourceDefinitions from their schemas.
//!
//! Invariant: pure, and filling in twice changes nothing; allocated addresses are not defaults and are
//! the store's business.

use serde_json::{Map, Value, json};

use super::resources::Resource;

/// Fills an object in as far as clients may leave it open.
pub(super) fn fill(resource: &Resource, schema: Option<&Value>, object: &mut Value) {
    if let Some(schema) = schema {
        by_schema(schema, object);
        return;
    }
    drop_nulls(object);
    match resource.kind {
        "Namespace" => namespace(object),
        "Secret" => set(object, "/type", json!("Opaque")),
        "Service" => service(&mut object["spec"]),
        "PersistentVolumeClaim" => set(&mut object["spec"], "/volumeMode", json!("Filesystem")),
        "Deployment" => deployment(&mut object["spec"]),
        "StatefulSet" => stateful_set(&mut object["spec"]),
        "Pod" => pod(&mut object["spec"]),
        "NetworkPolicy" => network_policy(&mut object["spec"]),
        "RoleBinding" | "ClusterRoleBinding" => binding(object),
        // Of the older form of Events, written out.
        "Event" => all(
            object,
            json!({
                "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
                "deprecatedSource": {},
            }),
        ),
        _ => {}
    }
}

/// The status of a new object, where that is not nothing.
pub(super) fn first_status(resource: &Resource) -> Option<Value> {
    match resource.kind {
        "Namespace" => Some(json!({ "phase": "Active" })),
        "PersistentVolumeClaim" => Some(json!({ "phase": "Pending" })),
        // As far as they are played: nobody asks for resources.
        "Pod" => Some(json!({ "phase": "Pending", "qosClass": "BestEffort" })),
        "Deployment" | "ResourceQuota" => Some(json!({})),
        "StatefulSet" => Some(json!({ "availableReplicas": 0, "replicas": 0 })),
        "ReplicaSet" => Some(json!({ "replicas": 0 })),
        "Service" => Some(json!({ "loadBalancer": {} })),
        "PodDisruptionBudget" => Some(json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        })),
        _ => None,
    }
}

/// What the server's types leave out when it is zero: numbers of a workload's status.
pub(super) fn trim_status(resource: &Resource, status: &mut Value) {
    if resource.is_custom() {
        return;
    }
    drop_nulls(status);
    let kept: &[&str] = match resource.kind {
        "StatefulSet" => &["availableReplicas", "replicas"],
        "ReplicaSet" => &["replicas"],
        "PodDisruptionBudget" => &[
            "currentHealthy",
            "desiredHealthy",
            "disruptionsAllowed",
            "expectedPods",
        ],
        _ => &[],
    };
    if let Value::Object(map) = status {
        map.retain(|key, value| kept.contains(&key.as_str()) || *value != json!(0));
        let conditions = map.get_mut("conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten() {
            if let Value::Object(condition) = condition {
                condition.retain(|_, value| *value != json!(""));
                // Times that nobody set are written out.
                if resource.kind == "Deployment" {
                    for time in ["lastTransitionTime", "lastUpdateTime"] {
                        condition.entry(time).or_insert(Value::Null);
                    }
                }
            }
        }
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Sets what a pointer names unless it is there; makes the things on the way only where the last key
/// is one of the object itself.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (path, key) = pointer.rsplit_once('/').unwrap_or_default();
    if let Some(Value::Object(map)) = object.pointer_mut(path) {
        map.entry(key).or_insert(value);
    }
}

fn all(object: &mut Value, values: Value) {
    if let (Value::Object(map), Value::Object(values)) = (object, values) {
        for (key, value) in values {
            map.entry(key).or_insert(value);
        }
    }
}

fn list<'a>(object: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    let items = object.get_mut(key).and_then(Value::as_array_mut);
    items.into_iter().flatten()
}

fn namespace(object: &mut Value) {
    all(object, json!({ "spec": {} }));
    all(&mut object["spec"], json!({ "finalizers": ["kubernetes"] }));
    let name = object["metadata"]["name"].clone();
    all(&mut object["metadata"], json!({ "labels": {} }));
    all(
        &mut object["metadata"]["labels"],
        json!({ "kubernetes.io/metadata.name": name }),
    );
}

fn service(spec: &mut Value) {
    all(
        spec,
        json!({ "type": "ClusterIP", "sessionAffinity": "None" }),
    );
    let outside = spec["type"] == "LoadBalancer" || spec["type"] == "NodePort";
    all(
        spec,
        json!({
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
        }),
    );
    if outside {
        all(spec, json!({ "externalTrafficPolicy": "Cluster" }));
    }
    if spec["type"] == "LoadBalancer" {
        all(spec, json!({ "allocateLoadBalancerNodePorts": true }));
    }
    for port in list(spec, "ports") {
        let target = port["port"].clone();
        all(port, json!({ "protocol": "TCP", "targetPort": target }));
    }
}

fn deployment(spec: &mut Value) {
    all(
        spec,
        json!({
            "progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
            "strategy": { "type": "RollingUpdate" },
        }),
    );
    if spec["strategy"]["type"] == "RollingUpdate" {
        all(&mut spec["strategy"], json!({ "rollingUpdate": {} }));
        all(
            &mut spec["strategy"]["rollingUpdate"],
            json!({ "maxSurge": "25%", "maxUnavailable": "25%" }),
        );
    }
    template(&mut spec["template"]);
}

fn stateful_set(spec: &mut Value) {
    all(
        spec,
        json!({
            "podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10,
            "updateStrategy": { "type": "RollingUpdate" },
            "persistentVolumeClaimRetentionPolicy": {
                "whenDeleted": "Retain", "whenScaled": "Retain",
            },
        }),
    );
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        all(
            &mut spec["updateStrategy"],
            json!({ "rollingUpdate": { "partition": 0 } }),
        );
    }
    for claim in list(spec, "volumeClaimTemplates") {
        all(
            claim,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "status": { "phase": "Pending" },
            }),
        );
        all(&mut claim["spec"], json!({ "volumeMode": "Filesystem" }));
    }
    template(&mut spec["template"]);
}

fn template(template: &mut Value) {
    pod(&mut template["spec"]);
}

fn pod(spec: &mut Value) {
    all(
        spec,
        json!({
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        }),
    );
    // The old name of the field is kept equal.
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        all(spec, json!({ "serviceAccount": name }));
    }
    for name in ["containers", "initContainers"] {
        list(spec, name).for_each(container);
    }
    list(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or_default();
    let latest = !image.rsplit('/').next().unwrap_or_default().contains(':');
    let latest = latest || image.ends_with(":latest");
    all(
        container,
        json!({
            "imagePullPolicy": if latest { "Always" } else { "IfNotPresent" }, "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        }),
    );
    for port in list(container, "ports") {
        all(port, json!({ "protocol": "TCP" }));
    }
    for variable in list(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef") {
            all(field, json!({ "apiVersion": "v1" }));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get_mut(probe) else {
            continue;
        };
        all(
            probe,
            json!({
                "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1,
                "timeoutSeconds": 1,
            }),
        );
        if let Some(get) = probe.get_mut("httpGet") {
            all(get, json!({ "path": "/", "scheme": "HTTP" }));
        }
    }
}

fn volume(volume: &mut Value) {
    for source in ["secret", "configMap", "projected", "downwardAPI"] {
        if let Some(source) = volume.get_mut(source) {
            all(source, json!({ "defaultMode": 420 }));
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        all(path, json!({ "type": "" }));
    }
    let sources = volume.get_mut("projected");
    for source in sources
        .into_iter()
        .flat_map(|projected| list(projected, "sources"))
    {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            all(token, json!({ "expirationSeconds": 3600 }));
        }
    }
}

fn network_policy(spec: &mut Value) {
    let types = match spec
        .get("egress")
        .is_some_and(|egress| *egress != json!([]))
    {
        true => json!(["Ingress", "Egress"]),
        false => json!(["Ingress"]),
    };
    all(spec, json!({ "policyTypes": types }));
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| *value != json!([]));
    }
    for direction in ["ingress", "egress"] {
        for rule in list(spec, direction) {
            for port in list(rule, "ports") {
                all(port, json!({ "protocol": "TCP" }));
            }
        }
    }
}

fn binding(object: &mut Value) {
    for subject in list(object, "subjects") {
        if subject["kind"] != "ServiceAccount" {
            all(subject, json!({ "apiGroup": "rbac.authorization.k8s.io" }));
        }
    }
    let role = &mut object["roleRef"];
    all(role, json!({ "apiGroup": "rbac.authorization.k8s.io" }));
}

/// Defaults of a structural schema
/// (apiextensions-apiserver `pkg/apiserver/schema/defaulting/algorithm.go`).
fn by_schema(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let none = Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&none);
            for (key, schema) in properties {
                if let Some(default) = schema.get("default") {
                    // A null that the schema does not allow is as good as absent.
                    let open = match map.get(key) {
                        None => true,
                        Some(value) => value.is_null() && schema["nullable"] != true,
                    };
                    if open {
                        map.insert(key.clone(), default.clone());
                    }
                }
            }
            for (key, value) in map.iter_mut() {
                match properties.get(key) {
                    Some(schema) => by_schema(schema, value),
                    None => by_schema(&schema["additionalProperties"], value),
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                by_schema(&schema["items"], item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::resources;

    fn filled(kind: &str, mut object: Value) -> Value {
        let resource = resources::ALL.iter().find(|r| r.kind == kind).unwrap();
        fill(resource, None, &mut object);
        let once = object.clone();
        fill(resource, None, &mut object);
        assert_eq!(object, once, "filling in twice changes something");
        object
    }

    #[test]
    fn what_is_said_stays_and_what_is_open_is_filled_in() {
        let pod = json!({ "spec": { "containers": [{
            "name": "a", "image": "example.com/a:1", "ports": [{ "containerPort": 1 }],
            "readinessProbe": { "httpGet": { "port": 1 }, "periodSeconds": 3 },
        }] } });
        let container = &filled("Pod", pod)["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        let probe = &container["readinessProbe"];
        assert_eq!(
            (&probe["periodSeconds"], &probe["timeoutSeconds"]),
            (&json!(3), &json!(1))
        );
        assert_eq!(probe["httpGet"]["scheme"], "HTTP");
        let open = json!({ "spec": { "ports": [{ "port": 5 }] } });
        assert_eq!(filled("Service", open)["spec"]["ports"][0]["targetPort"], 5);
    }

    #[test]
    fn defaults_of_a_schema_reach_what_they_make_and_leave_alone_what_is_absent() {
        let schema = json!({ "properties": {
            "a": { "default": {}, "properties": { "b": { "default": 1 } } },
            "c": { "properties": { "d": { "default": 2 } } },
            "e": { "items": { "properties": { "f": { "default": 3 } } } },
        } });
        let mut value = json!({ "e": [{}, { "f": 4 }] });
        by_schema(&schema, &mut value);
        assert_eq!(
            value,
            json!({ "a": { "b": 1 }, "e": [{ "f": 3 }, { "f": 4 }] })
        );
    }
}
