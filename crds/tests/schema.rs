//! The schema as a whole: what is committed is what the types say, and every field is explained.

#![allow(clippy::unwrap_used)] // helpers of tests, not only the tests themselves

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Every kind and its schema.
fn schemas() -> Vec<(String, Value)> {
    let schema = |crd| {
        let crd = serde_json::to_value(&crd).unwrap();
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        (kind, schema)
    };
    api::crds().into_iter().map(schema).collect()
}

/// Every field below `part` of every kind: `Kind.part.field` and its schema.
fn fields(part: &str, see: &mut impl FnMut(&str, &Value)) {
    for (kind, schema) in schemas() {
        visit(&schema["properties"][part], &format!("{kind}.{part}"), see);
    }
}

#[test]
fn the_committed_yaml_is_what_the_types_say() {
    for crd in api::crds() {
        let name = crd.metadata.name.clone().unwrap();
        let path = format!("{}/generated/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let committed: Value = serde_saphyr::from_str(&text).unwrap();
        let declared = serde_json::to_value(&crd).unwrap();
        assert_eq!(
            committed, declared,
            "{name} is out of date: run `cargo xtask crds`"
        );
    }
}

#[test]
fn every_field_of_the_spec_has_default_and_example() {
    let mut missing = Vec::new();
    fields("spec", &mut |path, field| {
        let text = field["description"].as_str().unwrap_or_default();
        if !(text.contains("Default") || text.contains("no default")) {
            missing.push(format!("{path}: no default"));
        }
        if !text.contains("Example:") {
            missing.push(format!("{path}: no example"));
        }
    });
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_field_of_the_status_has_an_example() {
    let mut missing = Vec::new();
    fields("status", &mut |path, field| {
        let text = field["description"].as_str().unwrap_or_default();
        if !text.contains("xample") && !path.contains(".status.conditions.") {
            missing.push(path.to_owned());
        }
    });
    assert_eq!(missing, [""; 0]);
}

#[test]
fn every_text_and_list_of_the_spec_has_a_limit() {
    // Without one, the API server takes the whole request as the length when it estimates what a
    // rule costs, and refuses the definition.
    let mut unlimited = Vec::new();
    fields("spec", &mut |path, field| {
        let limited = match field["type"].as_str() {
            Some("string") => field["maxLength"].is_u64() || field["enum"].is_array(),
            Some("array") if field["items"]["type"] == "object" => field["maxItems"].is_u64(),
            Some("array") => field["maxItems"].is_u64() && field["items"]["maxLength"].is_u64(),
            Some("object") if field["additionalProperties"].is_object() => {
                field["maxProperties"].is_u64()
            }
            _ => true,
        };
        if !limited {
            unlimited.push(path.to_owned());
        }
    });
    assert_eq!(unlimited, [""; 0]);
}

#[test]
fn null_counts_as_absent_everywhere() {
    for (kind, schema) in schemas() {
        assert!(!schema.to_string().contains("nullable"), "{kind}");
    }
}

#[test]
fn the_first_columns_answer_the_first_question() {
    let shown = |crd: &CustomResourceDefinition| -> String {
        let columns = crd.spec.versions[0].additional_printer_columns.iter();
        let first = columns
            .flatten()
            .filter(|c| c.priority.unwrap_or_default() == 0);
        let names: Vec<_> = first.map(|column| column.name.as_str()).collect();
        names.join(" ")
    };
    assert_eq!(
        api::crds().iter().map(shown).collect::<Vec<_>>(),
        [
            "Version Ready Reason Endpoint Port Age",
            "Cluster Desired Ready Updated Version Reason Age",
            "Pool Phase Ready Reason Version Address Age",
            "Clusters Cores Memory Machines Exceeded Age",
            "Age",
            "Address Phase Machine Reachable Verified Clean Age",
            "Usable Reason Bucket Endpoint Age",
            "Cluster Ready Verified Revision Bytes Taken Age",
            "Cluster Possible Restored Reason Revision Time Age",
            "Ready Reason Location Zone Region Account Leaks Age",
            "Progressing Reason Degraded Age",
            "Cluster User Profile Ready Until Age",
        ]
    );
}

#[test]
fn a_node_pool_can_be_scaled_and_has_a_short_name() {
    let crd = serde_json::to_value(&api::crds()[1]).unwrap();
    assert_eq!(crd["spec"]["names"]["shortNames"], json!(["np"]));
    assert_eq!(
        crd["spec"]["versions"][0]["subresources"],
        json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        })
    );
}

#[test]
fn what_is_left_out_of_a_node_pool_is_what_the_comments_say() {
    let spec = json!({"clusterName": "demo", "provider": {"kubevirt": {}}});
    let spec: api::NodePoolSpec = serde_json::from_value(spec).unwrap();
    let health = json!({"joinTimeout": "10m", "notReadyTimeout": "10m", "maxReplaced": "40%"});
    assert_eq!(
        serde_json::to_value(spec).unwrap(),
        json!({
            "clusterName": "demo",
            "replicas": 1,
            "provider": {"kubevirt": {"cpu": 2, "memory": "4Gi", "shutdownTimeout": "30s"}},
            "rollout": {"maxSurge": 1, "maxUnavailable": 0},
            "drainTimeout": "5m",
            "health": health,
        })
    );
}

fn visit(schema: &Value, path: &str, see: &mut impl FnMut(&str, &Value)) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        see(&path, field);
        visit(field, &path, see);
        visit(&field["items"], &path, see);
    }
}
